from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from alerts import promql
from alerts.slo.check import Seen, SeenBy, errors, warnings
from alerts.slo.openslo import NotImported, imported
from alerts.slo.published import DEFAULT
from alerts.slo.spec import Slo, Specs, read
from exporters.exposition import format_bound
from exporters.loader import Problem, parse_documents, problems_of, read_text
from inferwatch.console import MISUSED, CommandError, plural
from inferwatch.misuse import problems_end

_SEEN_WITHIN_SECONDS = 3600.0


def init(file: Path, *, overwrite: bool) -> None:
    try:
        with file.open("w" if overwrite else "x", encoding="utf-8") as out:
            out.write(DEFAULT.read_text(encoding="utf-8"))
    except FileExistsError:
        raise CommandError(f"{file}: there is one already: --overwrite replaces it", status=MISUSED) from None
    except OSError as error:
        raise CommandError(f"{file}: could not be written: {error.strerror}", status=MISUSED) from error
    print(f"written: {file}")


def check(file: Path, prometheus: str | None) -> None:
    specs = load(file)
    seen = asyncio.run(_seen_by(specs, prometheus)) if prometheus else None
    for line in warnings(specs, seen):
        print(f"{file}: warning: {line}")
    if found := errors(specs, seen):
        raise CommandError(*(f"{file}: {line}" for line in found))
    print(f"{file}: {plural(len(specs.slos), 'objective')}, no error")


def load(file: Path) -> Specs:
    with problems_end():
        return read(file)


async def _seen_by(specs: Specs, url: str) -> SeenBy:
    return {slo.name: await _seen(slo, url) for slo in specs.slos}


async def _seen(slo: Slo, url: str) -> Seen:
    from inferwatch.asking import ask

    chosen = [promql.one_of(label, values) for label, values in slo.select.items()]
    servers = await ask(url, _recent(("framework",), promql.series("llm_server_info", *chosen)))
    bounds: list[dict[str, str]] = []
    if latency := slo.indicator.latency:
        info = promql.series("llm_latency_native_bounds_info", promql.equals("phase", latency.phase), *chosen)
        bounds = await ask(url, _recent(("framework", "bounds", "node", "server"), info))
    return Seen(frozenset(s["framework"] for s in servers if "framework" in s), _named(bounds))


def _recent(labels: Sequence[str], series: str) -> str:
    return promql.aggregate("group", labels, promql.over_time("last", series, _SEEN_WITHIN_SECONDS))


def _named(found: Iterable[dict[str, str]]) -> dict[str, tuple[float, ...]]:
    """Bounds by who has them, in words."""
    servers = Counter((s["framework"], s["bounds"]) for s in found if {"framework", "bounds"} <= s.keys())
    named: dict[str, tuple[float, ...]] = {}
    for (framework, bounds), count in sorted(servers.items()):
        values = tuple(map(float, bounds.split(",")))
        named[f"{framework} ({plural(count, 'server')} with {len(values)} bounds up to {format_bound(values[-1])})"] = (
            values
        )
    return named


def import_(file: Path) -> None:
    try:
        with problems_end():
            documents, duplicates = parse_documents(read_text(file), str(file))
            content = {} if duplicates else imported(documents)
    except NotImported as error:
        raise CommandError(f"{file}: {error}", status=MISUSED) from error
    if problems := duplicates or _problems(content):
        raise CommandError(*(p.line(str(file)) for p in problems), status=MISUSED)
    yaml.safe_dump(content, sys.stdout, sort_keys=False, allow_unicode=True)


def _problems(content: dict[str, Any]) -> list[Problem]:
    try:
        Specs.model_validate(content)
    except ValidationError as error:
        return problems_of(error, Specs)
    return Specs.across(content)
