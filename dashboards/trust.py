"""How far the numbers of one server can be trusted: a row of its dashboard."""

from __future__ import annotations

from alerts import promql
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import Column, Query, Row, Table, TimeSeries, Unit
from exporters import schema

_OF_ENGINES = [m for m in schema.METRICS.values() if m.name.startswith("llm_") and m.scope is schema.Scope.ENGINE]


def _fields() -> str:
    """Every field that is there: exact, if nothing else is said of it."""
    names = [m.name + ("_count" if m.type is schema.Type.HISTOGRAM else "") for m in _OF_ENGINES]
    there = promql.selector(names, *(promql.matching(label, f"${label}") for label in ask.TARGET))
    named = promql.call("label_replace", there, '"field"', '"$1"', '"__name__"', '"(.+?)(?:_count)?"')
    exact = promql.labelled(promql.aggregate("group", (*ask.TARGET, "field"), named), "quality", "exact")
    told = ask.max_by((*ask.TARGET, "field", "quality", "source", "reason"), ask.gauge("llm_field_info"))
    return promql.first_of(told, exact, on=(*ask.TARGET, "field"))


_PANELS = (
    Table(
        title="Fields",
        description="Every field of the schema at this server: where it comes from, how good it is, and why it is "
        "missing where it is. `exact`: it means what the schema says.",
        queries=(Query(_fields()),),
        columns=(
            Column("field", "Field", width=330),
            Column("quality", "Quality", width=110),
            Column("source", "Source", width=330),
            Column("reason", "Reason"),
        ),
        sort_by="Field",
        width=24,
        height=12,
    ),
    TimeSeries(
        title="Beyond the largest bucket",
        description="Observations per second of which only this is known: they took longer than the server's largest "
        "bound.",
        unit=Unit.NUMBER,
        axis="per second",
        queries=(Query(ask.sum_by(("phase",), ask.rate("llm_latency_overflow_total")), "{{phase}}"),),
    ),
    TimeSeries(
        title="Collecting it",
        description="Time that the last collection took.",
        unit=Unit.SECONDS,
        queries=(Query(ask.gauge("inferwatch_scrape_duration_seconds"), "{{node}} {{server}}"),),
        minimum=0,
    ),
    TimeSeries(
        title="Samples not used",
        description="Dropped by reason, and families that inferwatch does not know: a new release shows here first.",
        unit=Unit.NUMBER,
        queries=(
            *parts.seldom(ask.increase("inferwatch_dropped_samples_total"), "{{reason}}"),
            Query(ask.gauge("inferwatch_unmapped_families"), "families not known"),
        ),
    ),
)

ROW = Row("How far to trust it", _PANELS)
