"""Samples as a sidecar writes and as a Prometheus keeps them, without the product's own reading of either."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.servers.queried import Queried

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ONLY = ("inferwatch", "n1:9840")
"""Job and instance."""


class Sample(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def of(self, label: str) -> str:
        return dict(self.labels).get(label, "")


@dataclass(frozen=True)
class Scrape:
    """Of one subject."""

    at: float
    samples: Sequence[Sample]
    copy: tuple[str, str] = ONLY


def parsed(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        if match := _LINE.match(line):
            yield Sample(match[1], tuple(_LABEL.findall(match[2] or "")), float(match[3]))


def read_whole(page: Iterable[Sample], servers: int) -> list[Sample]:
    """The page of a sidecar that could read the metrics of so many servers, and what else they tell. Raises
    AssertionError where it gave something up, as it does where the machine stands still."""
    samples = list(page)
    assert sum(s.value for s in samples if s.name == "llm_metrics_available") == servers
    assert "documents_unread" not in {s.of("reason") for s in samples if s.name == "inferwatch_finding"}
    return samples


def as_openmetrics(scrapes: Iterable[Scrape], file: Path) -> Path:
    """What promtool and VictoriaMetrics load."""
    with file.open("w") as out:
        for scrape in scrapes:
            at = f"{scrape.at:.3f}"
            out.writelines(f"{_series(s.name, s.labels, scrape.copy)} {s.value!r} {at}\n" for s in scrape.samples)
        out.write("# EOF\n")
    return file


@cache
def _series(name: str, labels: tuple[tuple[str, str], ...], copy: tuple[str, str]) -> str:
    of_copy = zip(("job", "instance"), copy, strict=True)
    return name + "{" + ",".join(f'{k}="{v}"' for k, v in (*labels, *of_copy)) + "}"


def kept(by: Queried, names: Iterable[str], seconds: int, until: float) -> dict[str, list[Scrape]]:
    """All raw samples of servers, as they were scraped, by server."""
    found: defaultdict[tuple[str, float, tuple[str, str]], list[Sample]] = defaultdict(list)
    for series in by.ask(f'{{__name__=~"{"|".join(names)}",server!=""}}[{seconds}s]', time=f"{until:.3f}"):
        labels = dict(series["metric"])
        name, copy = labels.pop("__name__"), (labels.pop("job"), labels.pop("instance"))
        for at, value in series["values"]:
            found[labels["server"], at, copy].append(Sample(name, tuple(labels.items()), float(value)))
    scrapes: defaultdict[str, list[Scrape]] = defaultdict(list)
    for (server, at, copy), samples in sorted(found.items(), key=lambda item: item[0]):
        scrapes[server].append(Scrape(at, samples, copy))
    return dict(scrapes)
