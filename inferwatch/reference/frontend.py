from __future__ import annotations

from collections.abc import Mapping

from exporters import schema
from exporters.rhythm import Refresh, TokenTiming
from exporters.table import Document, Field, Frontend, Reason, Source
from exporters.worth import quality_of_late, refreshes
from inferwatch.reference.markdown import bullets, code, number, page, table
from inferwatch.reference.terms import condition, describe, fold, wire_name

_LATE = "refreshed by its [rhythm](#rhythm)"


def frontend_page(frontend: Frontend) -> str:
    return page(
        f"Frontend `{frontend.name}`",
        f"Framework `{frontend.framework}`. {_releases(frontend)}",
        "## What is read",
        table(
            ("document", "path", "form", "how often", "needed"),
            (_document(document, first=i == 0) for i, document in enumerate(frontend.documents)),
        ),
        "## Where each field comes from",
        "Sources are tried in this order; the first that the server has is used, alone.",
        *(_field(frontend, field) for field in frontend.fields if field.sources),
        *_never(frontend),
        "## Facts about the server",
        bullets(
            f"`{fact}`: {', else '.join(describe(frontend, term) for term in terms)}"
            for fact, terms in frontend.facts.items()
        ),
        *_labels(frontend),
        *_rhythm(frontend),
        *_traps(frontend),
        *_ignored(frontend),
    )


def definitions_page(frontends: Mapping[str, Frontend]) -> str:
    metrics = [
        m for m in schema.METRICS if any(f.metric == m and f.definition for e in frontends.values() for f in e.fields)
    ]
    return page(
        "How definitions differ",
        "One name of the schema, measured by each framework in its own way. Where a row differs between two frontends, "
        "their numbers are not the same quantity: compare them with that in mind.",
        table(
            ("metric", *(f"`{name}`" for name in frontends)),
            ((f"`{metric}`", *(each.definition(metric) for each in frontends.values())) for metric in metrics),
        ),
    )


def _releases(frontend: Frontend) -> str:
    said = f"Releases: {frontend.releases}." if frontend.releases else ""
    return " ".join(
        filter(None, (said, f"No metrics page at all? {frontend.no_metrics}" if frontend.no_metrics else ""))
    )


def _document(document: Document, *, first: bool) -> tuple[str, ...]:
    often = f"every {number(document.every)} s" if document.every else "each collection"
    often += f", may take {number(document.within)} s" if document.within else ""
    form = document.form.value + (", read destructively" if document.destructive else "")
    path = f"`{document.path}`" + (f", in older releases `{document.older}`" if document.older else "")
    return f"`{document.name}`", path, form, often, "yes" if first else "no"


def _field(frontend: Frontend, field: Field) -> str:
    lines = [f"### {field.metric}", ""]
    if field.definition:
        lines += [field.definition, ""]
    lines += [f"{i}. {_source(frontend, field.metric, source)}" for i, source in enumerate(field.sources, 1)]
    lines += ["", *(_missing(frontend, reason) for reason in field.missing)] if field.missing else []
    return "\n".join(lines)


def _source(frontend: Frontend, metric: str, source: Source) -> str:
    text = ", and ".join(describe(frontend, part) for part in source.parts)
    when = condition(frontend, source.needs, source.lacks)
    text += f", {when}" if when else ""
    late = refreshes(frontend, metric, source)
    quality = quality_of_late(source) if late else source.quality
    return "; ".join(filter(None, (f"{text}: *{quality.value}*", source.note, _LATE if late else "")))


def _missing(frontend: Frontend, reason: Reason) -> str:
    when = condition(frontend, reason.needs, reason.lacks)
    return f"- Missing{f' {when}' if when else ''}: {reason.text}."


def _never(frontend: Frontend) -> list[str]:
    fields = {field.metric: field for field in frontend.fields}
    lines = []
    for name in _fillable():
        if name not in fields:
            lines.append(f"`{name}`")
        elif not fields[name].sources:
            lines.append(f"`{name}`: {'; '.join(reason.text for reason in fields[name].missing)}.")
    return ["## What this frontend never tells", bullets(lines)] if lines else []


def _fillable() -> list[str]:
    """Metrics that a table could fill: neither side products of histograms nor what inferwatch probes itself."""
    metrics = schema.of_prefix("llm_")
    others = ("llm_latency_", "llm_length_", "llm_server_")
    return [m.name for m in metrics if m.scope is schema.Scope.ENGINE and not m.name.startswith(others)]


def _labels(frontend: Frontend) -> list[str]:
    if not frontend.folds:
        return []
    return ["## Labels that split a series", bullets(fold(label, how) for label, how in frontend.folds.items())]


def _rhythm(frontend: Frontend) -> list[str]:
    rhythm = frontend.rhythm
    live = rhythm.token_timing is TokenTiming.LIVE
    since = f" since {rhythm.live_since}, before that only when a request finishes" if rhythm.live_since else ""
    lines = ["Token counters move " + (f"while requests run{since}." if live else "only when a request finishes.")]
    lines += [_refresh(frontend, refresh) for refresh in rhythm.gauges]
    return ["## Rhythm", bullets(lines)]


def _refresh(frontend: Frontend, refresh: Refresh) -> str:
    when = condition(frontend, refresh.needs, ())
    return f"{code(refresh.metrics)}{f', {when}' if when else ''}: {refresh.told}."


def _traps(frontend: Frontend) -> list[str]:
    if not frontend.traps:
        return []
    rows = ((trap.title, trap.handling) for trap in frontend.traps)
    return ["## Traps, and what is done about them", table(("trap", "handling"), rows)]


def _ignored(frontend: Frontend) -> list[str]:
    if not frontend.ignore:
        return []
    return [
        "## Known families without a place in the schema",
        "Patterns; these are not reported as unmapped.",
        code(wire_name(frontend, pattern) for pattern in frontend.ignore),
    ]
