"""Recorded pages, the documents recorded beside them, and an independent reading of a page."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from exporters import documents
from exporters.documents import keep
from exporters.normalise import Identity, Limits, Normaliser, Reading
from exporters.table import Form, Frontend
from exporters.tables import FRONTENDS

CAPTURES = Path(__file__).parent.parent / "captures"
VLLM = CAPTURES / "vllm"
VLLM_PAGES = sorted(VLLM.glob("*/*.prom"))
SWITCHED_OFF = "D-nologstats"

IDENTITY = Identity("host", "file")


def page_id(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def side_documents(page: Path, frontend: Frontend) -> dict[str, object]:
    """The bodies recorded beside the page, pruned as the sidecar prunes them."""
    recorded = _answers(page)
    found: dict[str, object] = {}
    for document in frontend.documents:
        answer = recorded.get(document.path.split("?")[0])
        if document.form is Form.JSON and answer and answer["status"] == 200:
            found[document.name] = keep(frontend, document.name, documents.parse(answer["body"]))
    return found


def _answers(page: Path) -> dict[str, Any]:
    """By path: of the page's run (`A-endpoints.json`) or of all pages of its release (`endpoints.json`)."""
    runs = (
        p for p in page.parent.glob("*endpoints.json") if page.name.startswith(p.name.removesuffix("endpoints.json"))
    )
    run = next(runs, None)
    answers: dict[str, Any] = json.loads(run.read_text()) if run else {}
    statistics = page.with_suffix(".v2_models_stats.json")
    if statistics.exists():
        answers["/v2/models/stats"] = {"status": 200, "body": statistics.read_text()}
    return answers


def normalise(page: Path, *, with_documents: bool = True, limits: Limits | None = None) -> Reading:
    frontend = FRONTENDS[page.parent.parent.name]
    beside = side_documents(page, frontend) if with_documents else {}
    return Normaliser(frontend, IDENTITY, limits or Limits()).normalise(page.read_text(), beside)


def independent(page: Path) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name and labels, as prometheus_client's parser reads them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
    for family in text_string_to_metric_families(page.read_text()):
        for sample in family.samples:
            found[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return found


def total(reading: Reading, metric: str, **where: str) -> float | None:
    """Sum over the series of a metric; None where there is none."""
    found = [
        value
        for series, value in reading.values.items()
        if series.metric == metric and all(series.label(k) == v for k, v in where.items())
    ]
    return sum(found) if found else None


def count(reading: Reading, metric: str) -> float | None:
    found = [h.count for series, h in reading.histograms.items() if series.metric == metric]
    return sum(found) if found else None


def truth(path: Path) -> Any:
    return json.loads(path.read_text())
