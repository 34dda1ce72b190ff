"""Tables of a few lines, and what they make of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from exporters.normalise import Limits, Normaliser, Reading
from exporters.observation import FieldStatus
from exporters.table import Document, Field, Fold, Form, Frontend, Source, Term
from tests.exporters.recorded import CAPTURES, IDENTITY

GAUGE = "llm_requests_running"
COUNTER = "llm_preemptions_total"
HISTOGRAM = "llm_time_to_first_token_seconds"
FINISHED = "llm_requests_finished_total"

SGLANG_FOLDS = {
    "dp_rank": Fold.ENGINE,
    "tp_rank": Fold.FIRST,
    "pp_rank": Fold.FIRST,
    "moe_ep_rank": Fold.FIRST,
    "pid": Fold.MAX,
    "priority": Fold.TOTAL,
    "is_streaming": Fold.SUM,
}


def capture(name: str) -> str:
    return (CAPTURES / name).read_text()


def truth(name: str) -> Any:
    return json.loads(capture(name))


def table(
    *fields: Field,
    prefix: str | tuple[str, ...] = "p",
    folds: Mapping[str, Fold] | None = None,
    facts: Mapping[str, Term] | None = None,
    documents: tuple[str, ...] = (),
    model_label: str = "model_name",
    **more: Any,
) -> Frontend:
    return Frontend(
        name="small",
        framework="sglang",
        prefixes=(prefix,) if isinstance(prefix, str) else prefix,
        documents=(Document("metrics", "/metrics"), *(Document(d, f"/{d}", Form.JSON) for d in documents)),
        folds={"engine": Fold.ENGINE} if folds is None else folds,
        model_label=model_label,
        facts={name: (term,) for name, term in (facts or {}).items()},
        fields=fields,
        ignore=(),
        **more,
    )


def one(term: Term, metric: str = GAUGE, **more: Any) -> Frontend:
    """A table with one field that comes from one term."""
    return table(Field(metric, Source(term)), **more)


def read(frontend: Frontend, text: str, documents: Mapping[str, object] | None = None, **limits: int) -> Reading:
    return Normaliser(frontend, IDENTITY, Limits(**limits)).normalise(text, documents)


def sglang(term: Term, run: str, metric: str = GAUGE) -> Reading:
    return read(one(term, metric, prefix="sglang", folds=SGLANG_FOLDS), capture(f"sglang/{run}.prom"))


def values(reading: Reading, metric: str = GAUGE, by: str = "engine") -> dict[str, float]:
    """A metric's values by one label."""
    found = [(series.label(by), value) for series, value in reading.values.items() if series.metric == metric]
    assert len(dict(found)) == len(found)
    return dict(found)


def value(reading: Reading, metric: str = GAUGE) -> float | None:
    """The value of a metric's only series."""
    found = [v for series, v in reading.values.items() if series.metric == metric]
    assert len(found) <= 1
    return found[0] if found else None


def status(reading: Reading, metric: str = GAUGE) -> FieldStatus:
    return next(f for f in reading.fields if f.field == metric)
