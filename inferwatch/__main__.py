"""The command line. Nothing is imported here that a command does not need when it runs."""

from __future__ import annotations

import signal
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from exporters.terminal import printable
from inferwatch.console import CommandError
from inferwatch.objectives import rules, slo
from inferwatch.options import Config, Database, Moment, StateDir

app = typer.Typer(
    help="Observability for LLM inference servers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_GROUP: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
db = typer.Typer(**_GROUP, help="Bring the history's database up to date, thin it out, back it up and restore it.")
app.add_typer(db, name="db")
history = typer.Typer(**_GROUP, help="Take numbers out of the history.")
app.add_typer(history, name="history")
app.add_typer(slo, name="slo")
app.add_typer(rules, name="rules")
dashboards = typer.Typer(**_GROUP, help="Grafana's dashboards: write them.")
app.add_typer(dashboards, name="dashboards")

Listen = Annotated[
    str | None, typer.Option(help="Where to listen, instead of the configuration's `listen`.", metavar="HOST:PORT")
]
LookOn = Annotated[
    str | None,
    typer.Option(help="Look for servers on this host, where the configuration names none.", metavar="HOST"),
]
Ports = Annotated[
    list[int] | None,
    typer.Option("--port", help="Look for servers at this port instead of the usual ones; repeatable."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log to standard error, with tracebacks.")]


class ExportFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    LINES = "jsonl"


class AdviceFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class CompareFormat(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


Metric = Annotated[str, typer.Option(help="A metric of the schema, such as llm_requests_running.", metavar="NAME")]
Quantile = Annotated[float | None, typer.Option(help="The quantile, 0 to 1, of a histogram metric.")]
Step = Annotated[str, typer.Option(help="Whole minutes, such as 300 or 5m.", metavar="DURATION")]
GroupBy = Annotated[list[str] | None, typer.Option(help="Labels; repeatable.", metavar="LABEL")]
Where = Annotated[list[str] | None, typer.Option(help="All must hold; repeatable.", metavar="LABEL=VALUE")]
Aggregation = Annotated[str | None, typer.Option(help="Gauges: avg or max. Counters: rate or sum.", metavar="NAME")]
Form = Annotated[
    ExportFormat, typer.Option("--format", help="As the API answers, or a line for each of any number of points.")
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"inferwatch {version('inferwatch')}")
        raise typer.Exit


@app.callback()
def common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def up(
    config: Config = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated fleet, and no other server.")] = False,
    listen: Listen = None,
    state_dir: StateDir = None,
    look_on: LookOn = None,
    port: Ports = None,
    faults: Annotated[
        Path | None, typer.Option(help="Faults of the simulated fleet, in YAML or JSON.", metavar="FILE")
    ] = None,
) -> None:
    """Run everything in one process: sidecar, history and page.

    Without configured servers it looks for them on this host, and goes on looking.
    """
    from inferwatch.up import Options
    from inferwatch.up import up as run

    run(Options(config, demo, listen, state_dir, tuple(port or ()), look_on, faults))


@app.command()
def exporter(config: Config = None, listen: Listen = None, look_on: LookOn = None, port: Ports = None) -> None:
    """Run the sidecar alone: /metrics for Prometheus.

    It reads the servers when it is scraped, and keeps nothing.
    """
    from inferwatch.exporter import Options
    from inferwatch.exporter import exporter as run

    run(Options(config, listen, look_on, tuple(port or ())))


@app.command()
def serve(config: Config = None, listen: Listen = None, state_dir: StateDir = None) -> None:
    """Run the monitor alone: history, API and page.

    It is fed by sidecars elsewhere, which the configuration names (sources).
    """
    from inferwatch.serve import serve as run

    run(config, listen, state_dir)


@app.command()
def check(
    subjects: Annotated[
        list[str],
        typer.Argument(metavar="URL|NAME|FILE", help="Servers by URL or configured name, saved metrics pages, or -."),
    ],
    config: Config = None,
    bearer_token_file: Annotated[
        Path | None, typer.Option(help="File of the token that the servers want, on one line.", metavar="FILE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    destructive: Annotated[
        bool, typer.Option("--destructive", help="Also read what the server gives away only once.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Say what is behind a URL or in a saved page.

    Which fields are known and where they come from, which are not and what to do.
    """
    from inferwatch.check import Options
    from inferwatch.check import check as run

    run(subjects, Options(json, destructive, config, bearer_token_file, verbose))


@app.command()
def normalize(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Saved metrics pages in order of time, or -.")],
    interval: Annotated[float, typer.Option(help="Seconds between two files.", min=0.001)] = 60.0,
    frontend: Annotated[str | None, typer.Option(help="Which frontend wrote them (default: detected).")] = None,
    verbose: Verbose = False,
) -> None:
    """Print saved metrics pages in inferwatch's schema.

    The last one, with what those before it tell of the last 5 minutes.
    """
    from inferwatch.normalize import normalize as run

    run(files, interval=interval, frontend=frontend, verbose=verbose)


@db.command()
def upgrade(config: Config = None, state_dir: StateDir = None, database: Database = None) -> None:
    """Bring the tables up to date; the monitor does so itself when it starts."""
    from inferwatch.db import upgrade as run
    from inferwatch.place import Place

    run(Place(config, state_dir, database))


@db.command()
def retention(
    apply: Annotated[bool, typer.Option("--apply/--dry-run", help="Delete what is too old, or only tell.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Say how much there is of each tier, for how long it is kept, and what is too old.

    The monitor deletes that by itself, once an hour.
    """
    from inferwatch.db import retention as run
    from inferwatch.place import Place

    run(Place(config, state_dir, database), apply=apply)


@db.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the backup goes: one SQLite file.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE, where it exists.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Copy the whole history into one file, also while a monitor writes it."""
    from inferwatch.db import backup as run
    from inferwatch.place import Place

    run(Place(config, state_dir, database), file, overwrite=overwrite)


@db.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, or a history.sqlite.")],
    force: Annotated[
        bool, typer.Option("--force", help="Lose what the database holds, where it is not empty.")
    ] = False,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Put a backup into an empty database, of the same kind or the other."""
    from inferwatch.db import restore as run
    from inferwatch.place import Place

    run(Place(config, state_dir, database), file, force=force)


@history.command()
def export(  # noqa: PLR0913, PLR0917 (as many as /api/v1/history has, and which history)
    metric: Metric,
    q: Quantile = None,
    since: Moment = "1h",
    until: Moment = "now",
    step: Step = "auto",
    group_by: GroupBy = None,
    where: Where = None,
    aggregation: Aggregation = None,
    form: Form = ExportFormat.JSON,
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Print what /api/v1/history answers to the same parameters."""
    from inferwatch.history import export as run
    from inferwatch.place import Place

    asked = {
        "metric": metric, "q": q, "since": since, "until": until, "step": step, "group_by": group_by or [],
        "where": where or [], "aggregation": aggregation,
    }  # fmt: skip
    run(Place(config, state_dir, database), form, asked)


@app.command()
def advise(
    since: Moment = "24h",
    until: Moment = "now",
    server: Annotated[
        str, typer.Option(help="Only of this server: node/name, or the name alone.", metavar="NAME")
    ] = "",
    form: Annotated[AdviceFormat, typer.Option("--format", help="For people, for programs or for a document.")] = (
        AdviceFormat.TEXT
    ),
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Say what to change at servers and GPUs, with the evidence in the history.

    Also which framework suits each model, and how many more requests a second its objectives allow.
    """
    from inferwatch.advise import advise as run
    from inferwatch.place import Place
    from monitor.api.advice import AdviceQuery

    run(Place(config, state_dir, database), AdviceQuery(since=since, until=until, server=server), form)


@app.command()
def compare(  # noqa: PLR0913, PLR0917 (as many as /api/v1/compare has, and which history)
    since: Moment = "7d",
    until: Moment = "now",
    model: Annotated[str, typer.Option(help="Only this model.", metavar="NAME")] = "",
    by: Annotated[
        str | None, typer.Option(help="What to tell apart beside: version or server.", metavar="NAME")
    ] = None,
    matched: Annotated[
        bool, typer.Option("--matched", help="Only minutes whose mean lengths all of the compared have.")
    ] = False,
    split: Annotated[
        str, typer.Option(help="Before and after: `version`, or a moment within the time.", metavar="version|TIME")
    ] = "",
    form: Annotated[CompareFormat, typer.Option("--format", help="For people or for programs.")] = CompareFormat.TABLE,
    files: Annotated[
        list[Path] | None,
        typer.Option("--import", help="Keep the result of a load test instead; repeatable.", metavar="FILE"),
    ] = None,
    framework: Annotated[str, typer.Option(help="Of the server that was tested.", metavar="NAME")] = "",
    release: Annotated[str, typer.Option(help="Of that framework.", metavar="VERSION")] = "",
    gpu: Annotated[str, typer.Option(help="The type of its GPU, as the history has it.", metavar="NAME")] = "",
    forget: Annotated[str, typer.Option(help="Forget an imported result instead.", metavar="FILE")] = "",
    config: Config = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Compare the frameworks by how many requests ran at once, with intervals, from the history.

    With --import it keeps results of vllm bench serve, guidellm or aiperf, to be shown beside.
    """
    from inferwatch import compare as command
    from inferwatch.place import Place

    place, told = Place(config, state_dir, database), command.Told(framework, release, model, gpu)
    if files:
        command.import_runs(place, files, told)
    elif forget:
        command.forget_runs(place, forget)
    else:
        asked = {"since": since, "until": until, "model": model, "by": by, "matched": matched, "split": split}
        command.compare(place, asked, form, told)


@dashboards.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where they go.")] = Path("grafana"),
    slos: Annotated[
        list[Path] | None,
        typer.Option("--slo", metavar="FILE", help="Objectives whose own labels are named; may be repeated."),
    ] = None,
) -> None:
    """Write the dashboards as JSON, and Grafana's provisioning of them and of their data sources."""
    from inferwatch.dashboards import build as run

    run(folder, slos or [])


def main() -> None:
    try:
        app()
    except CommandError as error:
        for line in error.lines:
            print(f"inferwatch: {printable(line)}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
