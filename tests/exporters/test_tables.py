"""Every table keeps to the schema and to its own documents."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from exporters.schema import FRAMEWORKS, METRICS, PHASE_OF_METRIC, ROLES, SERVER_INFO_LABELS, STATES, Scope, Type
from exporters.table import Field, Form, Frontend, Json, Label, Over, Quality, Ratio, Series, Source, Term
from exporters.tables import FRONTENDS
from exporters.terms import terms, walk
from exporters.wire import Page
from exporters.worth import refreshes

DERIVED = {
    "llm_server_info",
    "llm_server_state",
    "llm_latency_overflow_total",
    "llm_latency_native_max_seconds",
    "llm_latency_native_bounds_info",
    "llm_latency_quantile_seconds",
    "llm_length_overflow_total",
    "llm_length_native_bounds_info",
}
"""Engine metrics that come from facts and histograms, not from fields."""

ALL = pytest.mark.parametrize("frontend", FRONTENDS.values(), ids=lambda f: f.name)


def sources(frontend: Frontend) -> Iterator[tuple[Field, Source]]:
    return ((field, source) for field in frontend.fields for source in field.sources)


def leaves(source: Source) -> Iterator[Term]:
    return (term for part in source.parts for term in walk(part))


def conditions(frontend: Frontend) -> Iterator[str]:
    yield from (*frontend.marks, *frontend.accepts, *frontend.switched_off)
    for field in frontend.fields:
        for source in field.sources:
            yield from (*source.needs, *source.lacks)
        for reason in field.missing:
            yield from (*reason.needs, *reason.lacks)
    for refresh in frontend.rhythm.gauges:
        yield from refresh.needs
    for term in terms(frontend):
        if isinstance(term, Series):
            yield from term.zero


@ALL
def test_every_engine_metric_of_the_schema_is_a_field_and_nothing_else_is(frontend: Frontend) -> None:
    fields = [f.metric for f in frontend.fields]
    engine = {m.name for m in METRICS.values() if m.scope is Scope.ENGINE} - DERIVED
    assert len(fields) == len(set(fields))
    assert set(fields) == engine
    assert frontend.framework in FRAMEWORKS
    assert FRONTENDS[frontend.name] is frontend


@ALL
def test_a_field_without_source_says_why(frontend: Frontend) -> None:
    assert [f.metric for f in frontend.fields if not f.sources and not all(r.text for r in f.missing)] == []
    silent = [f.metric for f in frontend.fields if not f.sources and not f.missing]
    assert silent == []


def yielded(term: Term) -> dict[str, set[str]]:
    """Labels that a term sets, with every value that they can have ("" for whatever stands on the wire)."""
    if isinstance(term, Series):
        kept = {k.label: {*k.values.values(), k.other} for k in term.keep.values()}
        return {**{name: {value} for name, value in term.add.items()}, **kept}
    return {name: {value} for name, value in term.add.items()} if isinstance(term, Json) else {}


@ALL
def test_parts_yield_the_labels_of_their_metric_within_its_closed_sets(frontend: Frontend) -> None:
    for field, source in sources(frontend):
        metric = METRICS[field.metric]
        for part in source.parts:
            labels = {name: values for term in walk(part) for name, values in yielded(term).items()}
            assert set(labels) == set(metric.labels), field.metric
            for name, values in labels.items():
                assert values <= set(metric.values.get(name, values)), (field.metric, name)


@ALL
def test_every_condition_can_be_read_and_names_what_there_is(frontend: Frontend) -> None:
    documents = {d.name for d in frontend.documents}
    for condition in conditions(frontend):
        Page().holds((condition,), ())
        kind, _, rest = condition.partition(":")
        assert kind != "json" or rest in documents
        if fact := re.match(r"([a-z_]+)(>=|<)", condition):
            assert fact[1] in frontend.facts


@ALL
def test_terms_read_documents_that_are_declared_and_patterns_that_compile(frontend: Frontend) -> None:
    forms = {d.name: d.form for d in frontend.documents}
    assert forms["metrics"] is Form.TEXT
    assert len(forms) == len(frontend.documents)
    for term in terms(frontend):
        if isinstance(term, Json):
            assert forms[term.document] is (Form.JSON if term.path or term.records else Form.STATUS)
            assert not term.match or re.compile(term.match).groups >= 1
    used = {t.document for t in terms(frontend) if isinstance(t, Json)}
    assert {name for name, form in forms.items() if form is Form.JSON} <= used


@ALL
def test_terms_suit_the_type_of_their_metric(frontend: Frontend) -> None:
    metrics = {f.metric for f in frontend.fields}
    for field, source in sources(frontend):
        for part in source.parts:
            if field.metric in PHASE_OF_METRIC:
                assert isinstance(part, Series)
            if isinstance(part, Ratio):
                assert source.parts == (part,)
                assert METRICS[part.numerator].type is METRICS[part.denominator].type is Type.COUNTER
                assert {part.numerator, part.denominator} <= metrics
        for term in leaves(source):
            if isinstance(term, Json) and term.over in (Over.SUM, Over.RISE):
                assert METRICS[field.metric].type is Type.COUNTER
            if isinstance(term, Json) and term.idle is not None:
                assert METRICS[field.metric].type is Type.GAUGE


@ALL
def test_what_is_not_exact_says_in_which_way(frontend: Frontend) -> None:
    silent = [f.metric for f, s in sources(frontend) if s.quality is not Quality.EXACT and not s.note]
    assert silent == []
    assert [f.metric for f, s in sources(frontend) if s.quality is Quality.UNAVAILABLE] == []


@ALL
def test_facts_are_those_that_the_schema_shows(frontend: Frontend) -> None:
    assert set(frontend.facts) <= {*SERVER_INFO_LABELS, "model", "role", "state"}
    for name, allowed in (("role", ROLES), ("state", STATES)):
        for term in frontend.facts.get(name, ()):
            assert isinstance(term, Json | Label)
            assert term.values
            assert set(term.values.values()) <= set(allowed)


@ALL
def test_what_is_refreshed_now_and_then_are_gauges_that_the_page_has(frontend: Frontend) -> None:
    fields = {field.metric: field for field in frontend.fields}
    for refresh in frontend.rhythm.gauges:
        assert refresh.on or refresh.steps or refresh.seconds
        for name in refresh.metrics:
            assert METRICS[name].type is Type.GAUGE
            assert any(refresh in refreshes(frontend, name, source) for source in fields[name].sources)


@ALL
def test_only_the_last_refresh_of_a_metric_goes_without_condition(frontend: Frontend) -> None:
    for name in {name for refresh in frontend.rhythm.gauges for name in refresh.metrics}:
        *conditional, _ = (refresh for refresh in frontend.rhythm.gauges if name in refresh.metrics)
        assert all(refresh.needs for refresh in conditional)
