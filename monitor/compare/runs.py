"""Keeps what load tests measured, to be shown beside what the history holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select

from monitor.compare.imported.run import Run
from monitor.compare.model import Cell, Estimate, Group, Measure, Workload
from monitor.history.database import for_writing, reading
from monitor.history.storable import storable
from monitor.history.store import WriteError
from monitor.history.tables import comparison_runs
from monitor.history.trouble import explaining

_C = comparison_runs.c
_NO_INTERVAL = "a load test tells none"
_TEXTS = ("tool", "framework", "version", "model", "gpu")


class Runs:
    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine, self._clock = engine, clock

    def add(self, file: str, content: bytes, runs: Sequence[Run]) -> None:
        """A file that was handed in before is replaced by what is said of it now. Raises WriteError."""
        digest = sha256(content).hexdigest()
        with self._writing() as connection:
            connection.execute(delete(comparison_runs).where(_C.digest == digest))
            connection.execute(insert(comparison_runs), [self._row(digest, n, file, run) for n, run in enumerate(runs)])

    def _row(self, digest: str, number: int, file: str, run: Run) -> dict[str, object]:
        return {
            "digest": digest,
            "number": number,
            "file": storable(file),
            "imported_at": self._clock(),
            "at": run.at,
            "concurrency": run.concurrency,
            "measures": {measure.value: value for measure, value in run.measures.items()},
            "workload": {"prompt_tokens": run.workload.prompt_tokens, "output_tokens": run.workload.generation_tokens},
            **{name: storable(getattr(run, name)) for name in _TEXTS},
        }

    def remove(self, file: str) -> int:
        """How many of its runs there were. Raises WriteError."""
        with self._writing() as connection:
            return connection.execute(delete(comparison_runs).where(_C.file == storable(file))).rowcount

    def cells(self, model: str = "") -> list[Cell]:
        """In order of file and number. Raises ReadError."""
        wanted = select(comparison_runs).order_by(_C.file, _C.digest, _C.number)
        if model:
            wanted = wanted.where(_C.model == storable(model))
        with reading(self._engine) as connection:
            return [_cell(dict(row)) for row in connection.execute(wanted).mappings()]

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        failed = "could not write the history"
        with explaining(self._engine.url, WriteError, failed), for_writing(self._engine).begin() as connection:
            yield connection


def _cell(row: Mapping[str, Any]) -> Cell:
    """Measures of a newer release are not known here."""
    run = _run(row)
    group = Group(run.framework, run.model, run.gpu, version=run.version, tool=run.tool, file=row["file"])
    told = {
        measure: Estimate(run.measures[measure], no_interval=_NO_INTERVAL)
        for measure in Measure
        if measure in run.measures
    }
    return Cell(group, run.band, 0, run.concurrency, told, run.workload)


def _run(row: Mapping[str, Any]) -> Run:
    known = {measure.value: measure for measure in Measure}
    measures = {known[name]: value for name, value in row["measures"].items() if name in known}
    workload = Workload(row["workload"].get("prompt_tokens"), row["workload"].get("output_tokens"))
    texts = {name: row[name] for name in _TEXTS}
    return Run(concurrency=row["concurrency"], measures=measures, workload=workload, at=row["at"], **texts)
