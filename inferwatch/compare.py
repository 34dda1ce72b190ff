"""The frameworks side by side, from a history; and load tests that are handed in."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exporters.config import default_path
from exporters.schema import FRAMEWORKS
from exporters.terminal import printable
from inferwatch.console import MISUSED, CommandError
from inferwatch.place import Place, opened
from inferwatch.process import load
from monitor.api.compare import as_model, query
from monitor.compare.ask import Comparer
from monitor.compare.imported import parse
from monitor.compare.imported.document import ForeignFile
from monitor.compare.imported.run import Run
from monitor.compare.model import Comparison
from monitor.compare.runs import Runs
from monitor.compare.text import as_csv, as_markdown, as_table
from monitor.config import MonitorConfig


@dataclass(frozen=True, slots=True)
class Told:
    """What the file of a load test does not say, and whoever imports it does."""

    framework: str = ""
    version: str = ""
    model: str = ""
    gpu: str = ""


def compare(at: Place, parameters: Mapping[str, Any], form: str, told: Told) -> None:
    """`parameters` are those of /api/v1/compare. Nothing may be `told` of a load test."""
    of_tests = {"--framework": told.framework, "--release": told.version, "--gpu": told.gpu}
    for option in (name for name, value in of_tests.items() if value):
        raise CommandError(f"{option}: allowed: together with --import, of whose results it tells", status=MISUSED)
    prices = load(at.config or default_path(), MonitorConfig).compare.prices
    with opened(at.settings, current=True) as engine:
        found = Comparer(engine, prices).compare(query(parameters).asked(time.time()))
    sys.stdout.write(_text(found, form))


def _text(told: Comparison, form: str) -> str:
    if form == "json":
        return as_model(told).model_dump_json(indent=2) + "\n"
    if form == "csv":
        return as_csv(told)
    text = as_markdown(told) if form == "markdown" else as_table(told)
    return "".join(f"{printable(line)}\n" for line in text.splitlines())


def import_runs(at: Place, files: Sequence[Path], told: Told) -> None:
    """All files or none."""
    if told.framework not in ("", *FRAMEWORKS):
        raise CommandError(f"--framework: {told.framework!r}: allowed: {', '.join(FRAMEWORKS)}", status=MISUSED)
    read = [(file, *_runs(file, told)) for file in files]
    with opened(at.settings, current=True) as engine:
        for file, content, runs in read:
            Runs(engine).add(file.name, content, runs)
            print(f"{file}: {len(runs)} of {runs[0].tool}", file=sys.stderr)


def _runs(file: Path, told: Told) -> tuple[bytes, list[Run]]:
    content = _content(file)
    try:
        found = parse(_text_of(content, file), str(file))
    except ForeignFile as error:
        raise CommandError(str(error), status=MISUSED) from error
    return content, [_completed(run, told) for run in found]


def _content(file: Path) -> bytes:
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise CommandError(f"{file}: allowed: a regular file: a pipe or device may have no end", status=MISUSED)
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: could not be read: {error.strerror}", status=MISUSED) from error


def _text_of(content: bytes, file: Path) -> str:
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{file}: line {line}, byte {error.start}: allowed: UTF-8 text", status=MISUSED) from error


def _completed(run: Run, told: Told) -> Run:
    return replace(
        run,
        framework=told.framework or run.framework,
        version=told.version or run.version,
        model=told.model or run.model,
        gpu=told.gpu or run.gpu,
    )


def forget_runs(at: Place, file: str) -> None:
    """By the name under which they were imported."""
    with opened(at.settings, current=True) as engine:
        if not Runs(engine).remove(Path(file).name):
            names = sorted({cell.group.file for cell in Runs(engine).cells()})
            known = f"; allowed: {', '.join(names)}" if names else ": none was imported"
            raise CommandError(f"--forget: {file}: no run of that name{known}", status=MISUSED)
