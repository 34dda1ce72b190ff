from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exporters.address import masked
from exporters.config import Server
from exporters.target import Target
from exporters.terminal import log
from inferwatch.console import FOUND, CommandError
from inferwatch.remedies import for_commands
from inferwatch.report import Report, as_json, as_text, of_page, of_server
from inferwatch.saved import normalised, normaliser, read, refuse_repeated_stdin
from inferwatch.subjects import Known, config_path

TIMEOUT_SECONDS = 10.0
PATIENCE_SECONDS = 1.5
"""SGLang looks each second whether it is healthy."""
RECORDS_PATIENCE_SECONDS = 5.0
"""An idle server takes 2 s to say that it has no records."""


@dataclass(frozen=True, slots=True)
class Options:
    json: bool = False
    destructive: bool = False
    config: Path | None = None
    bearer_token_file: Path | None = None
    verbose: bool = False


def check(subjects: Sequence[str], options: Options) -> None:
    log(shown=options.verbose)
    refuse_repeated_stdin(subjects)
    known = _known(subjects, options)
    outcomes = asyncio.run(_all(subjects, known, options.destructive))
    reports = [outcome for outcome in outcomes if isinstance(outcome, Report)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, CommandError)]
    if options.json:
        print(json.dumps([as_json(report) for report in reports], indent=2))
    elif reports:
        print("\n\n".join(as_text(report) for report in reports))
    if errors:
        raise CommandError(*(line for e in errors for line in e.lines), status=max(e.status for e in errors))
    if not all(report.is_good for report in reports):
        raise CommandError(status=FOUND)


def _known(subjects: Sequence[str], options: Options) -> Known:
    path = config_path(options.config, subjects)
    if path is not None and options.config is None:
        print(f"inferwatch: using {path} of this folder", file=sys.stderr)
    return Known(path, options.bearer_token_file)


async def _all(subjects: Sequence[str], known: Known, destructive: bool) -> list[Report | CommandError]:
    return await asyncio.gather(*(_outcome(subject, known, destructive) for subject in subjects))


async def _outcome(subject: str, known: Known, destructive: bool) -> Report | CommandError:
    try:
        server = known.server(subject)
        report = _page(subject) if server is None else await _server(subject, server, known, destructive)
    except CommandError as error:
        return error
    return replace(report, findings=[for_commands(finding) for finding in report.findings])


def _page(name: str) -> Report:
    saved = read(name)
    detected = saved.detected()
    reading = normalised(normaliser(detected.frontend), saved) if detected.frontend else None
    return of_page(saved.name, detected, reading)


async def _server(subject: str, server: Server, known: Known, destructive: bool) -> Report:
    target = Target(
        server,
        node=known.config.node,
        timeout=TIMEOUT_SECONDS,
        model_aliases=known.config.model_aliases,
        destructive=destructive,
        patience=RECORDS_PATIENCE_SECONDS if destructive else PATIENCE_SECONDS,
    )
    try:
        return of_server(masked(subject), await target.collect(asyncio.get_running_loop().time() + target.timeout))
    finally:
        await target.aclose()
