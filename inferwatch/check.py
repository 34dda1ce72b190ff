from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from exporters.config import Server
from exporters.target import Target
from inferwatch.console import FOUND, MISUSED, CommandError
from inferwatch.report import Report, as_json, as_text, of_page, of_server
from inferwatch.saved import normalised, normaliser, read

TIMEOUT_SECONDS = 10.0
RECORDS_PATIENCE_SECONDS = 5.0
"""An idle server takes 2 s to say that it has no records."""

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]*):(?P<port>\d+)(?P<path>/\S*)?")


def check(subjects: Sequence[str], *, json_output: bool, destructive: bool) -> None:
    outcomes = asyncio.run(_all(subjects, destructive))
    reports = [outcome for outcome in outcomes if isinstance(outcome, Report)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, CommandError)]
    if json_output:
        print(json.dumps([as_json(report) for report in reports], indent=2))
    elif reports:
        print("\n\n".join(as_text(report) for report in reports))
    if errors:
        raise CommandError(*(line for e in errors for line in e.lines), status=max(e.status for e in errors))
    if not all(report.is_good for report in reports):
        raise CommandError(status=FOUND)


def url_of(subject: str) -> str | None:
    """None where the subject is a file. `localhost:8000` and `:8000` are URLs too, unless there is such a file."""
    if "://" in subject:
        return subject
    match = _HOST_AND_PORT.fullmatch(subject)
    if match is None or Path(subject).exists():
        return None
    return f"http://{match['host'] or 'localhost'}:{match['port']}{match['path'] or ''}"


async def _all(subjects: Sequence[str], destructive: bool) -> list[Report | CommandError]:
    return await asyncio.gather(*(_outcome(subject, destructive) for subject in subjects))


async def _outcome(subject: str, destructive: bool) -> Report | CommandError:
    try:
        url = url_of(subject)
        return _page(subject) if url is None else await _server(subject, url, destructive)
    except CommandError as error:
        return error


def _page(name: str) -> Report:
    saved = read(name)
    detected = saved.detected()
    reading = normalised(normaliser(detected.frontend), saved) if detected.frontend else None
    return of_page(saved.name, detected, reading)


async def _server(subject: str, url: str, destructive: bool) -> Report:
    target = Target(
        _configured(subject, url),
        node=socket.gethostname(),
        timeout=TIMEOUT_SECONDS,
        destructive=destructive,
        patience=RECORDS_PATIENCE_SECONDS if destructive else None,
    )
    try:
        return of_server(subject, await target.collect(asyncio.get_running_loop().time() + TIMEOUT_SECONDS))
    finally:
        await target.aclose()


def _configured(subject: str, url: str) -> Server:
    try:
        return Server.model_validate({"url": url})
    except ValidationError as error:
        allowed = error.errors()[0].get("ctx", {}).get("error", error.errors()[0]["msg"])
        raise CommandError(f"{subject}: allowed: {allowed}", status=MISUSED) from error
