"""The command groups `slo` and `rules`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from inferwatch.options import Config, Database, Moment, StateDir

slo = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Objectives: write, import and check them.")
rules = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Prometheus' rules: build and check them.")


class RuleFormat(StrEnum):
    PROMETHEUS = "prometheus"
    OPERATOR = "operator"


class RulePart(StrEnum):
    OBJECTIVES = "objectives"
    CONDITIONS = "conditions"


Spec = Annotated[Path, typer.Argument(metavar="FILE", help="A file of objectives.")]
PrometheusUrl = Annotated[
    str | None, typer.Option("--prometheus", help="Ask this Prometheus what there really is.", metavar="URL")
]
Judged = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="A file of objectives, instead of those that the configuration names."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
UserLabels = Annotated[
    list[str] | None, typer.Option("--label", help="A label of your own that servers have; repeatable.", metavar="NAME")
]


@slo.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("slo.yml"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE, where it exists.")] = False,
) -> None:
    """Write objectives that a team can start with unchanged."""
    from inferwatch.slo import init as run

    run(file, overwrite=overwrite)


@slo.command()
def check(file: Spec = Path("slo.yml"), prometheus: PrometheusUrl = None) -> None:
    """Say what is wrong with objectives, and where a threshold cannot be judged exactly."""
    from inferwatch.slo import check as run

    run(file, prometheus)


@slo.command(name="import")
def import_(file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of OpenSLO v1.")]) -> None:
    """Print objectives of OpenSLO v1 over metrics of the schema as a file of ours."""
    from inferwatch.slo import import_ as run

    run(file)


@slo.command()
def status(
    file: Judged = None,
    json: Json = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Say how objectives stand: state, error budget, burn rates, and how long the budget lasts."""
    from inferwatch.place import Place
    from inferwatch.slo_history import Asked
    from inferwatch.slo_status import status as run

    run(Asked(file, Place(config, state_dir, database)), as_json=json)


@slo.command()
def report(
    file: Judged = None,
    month: Annotated[str | None, typer.Option(help="Of this month, such as 2026-11.", metavar="YYYY-MM")] = None,
    quarter: Annotated[str | None, typer.Option(help="Of this quarter, such as 2026-Q4.", metavar="YYYY-QN")] = None,
    json: Json = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Print what became of objectives over a month or a quarter, as Markdown."""
    from inferwatch.place import Place
    from inferwatch.slo_history import Asked
    from inferwatch.slo_report import print_report

    asked = Asked(file, Place(config, state_dir, database))
    print_report(asked, month=month, quarter=quarter, json_wanted=json)


@slo.command()
def replay(
    file: Judged = None,
    name: Annotated[str | None, typer.Option("--slo", help="This objective alone.", metavar="NAME")] = None,
    since: Moment = "7d",
    until: Moment = "now",
    json: Json = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Say when alerts of objectives would have fired, had they been in force, and what cannot be told."""
    from inferwatch.place import Place
    from inferwatch.slo_history import Asked
    from inferwatch.slo_replay import Span, print_replay

    print_replay(Asked(file, Place(config, state_dir, database)), Span(since, until), name, json_wanted=json)


@rules.command()
def build(
    file: Spec = Path("slo.yml"),
    form: Annotated[
        RuleFormat, typer.Option("--format", help="A rule file, or the operator's PrometheusRule.")
    ] = RuleFormat.PROMETHEUS,
    name: Annotated[str, typer.Option(help="Name of the PrometheusRule.", metavar="NAME")] = "inferwatch",
    only: Annotated[
        RulePart | None, typer.Option(help="Objectives or conditions alone; for conditions no file is read.")
    ] = None,
) -> None:
    """Print the rules that follow from objectives, and those of conditions."""
    from inferwatch.rules import build as run

    run(file, name if form is RuleFormat.OPERATOR else None, only)


@rules.command(name="check")
def check_rules(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Rule files, PrometheusRules, dashboards.")],
    label: UserLabels = None,
    prometheus: PrometheusUrl = None,
) -> None:
    """List metrics and labels that rules and dashboards name and that there are not."""
    from inferwatch.rules import check as run

    run(files, tuple(label or ()), prometheus)
