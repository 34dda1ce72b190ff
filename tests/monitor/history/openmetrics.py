"""Scrapes made by hand as the file that promtool and VictoriaMetrics load."""

from __future__ import annotations

from pathlib import Path

from exporters import exposition
from monitor.sources.rebuild import Part
from tests.monitor.history.scraped import Copies


def written(copies: Copies, file: Path) -> Path:
    lines = [
        f"{_series(part, dict(copy))} {value!r} {scrape.at:.3f}"
        for copy, scrapes in copies.items()
        for scrape in scrapes
        for part, value in scrape.samples
    ]
    file.write_text("\n".join([*lines, "# EOF", ""]))
    return file


def _series(part: Part, copy: dict[str, str]) -> str:
    name = "_".join(filter(None, (part.series.metric, part.part)))
    bound = {"le": exposition.format_bound(part.bound)} if part.part == "bucket" else {}
    labels = {**dict(part.series.labels), **bound, **copy}
    return name + "{" + ",".join(f'{k}="{v}"' for k, v in sorted(labels.items())) + "}"
