from __future__ import annotations

from exporters import schema
from exporters.schema import Metric, Phase, Scope
from inferwatch.reference.markdown import code, number, page, table

_SECTIONS = {"llm_": "Inference servers", "gpu_": "GPUs", "inferwatch_": "inferwatch itself"}
_SCOPES = {
    Scope.TARGET: "one target: a configured server",
    Scope.ENGINE: "one engine of a server: a data-parallel replica, `0` where there is one",
    Scope.GPU: "one GPU or MIG slice",
    Scope.SELF: "one inferwatch process",
}
_QUALITIES = {
    "exact": "the server's own value, in the schema's meaning",
    "derived": "computed from other values of the server",
    "approximate": "a value with a somewhat different meaning or age; the source says which",
    "last_batch": "only the server's last batch",
    "unavailable": "not there; the reason says why and what to do",
}


def schema_page() -> str:
    return page(
        "The metric schema",
        "Every server and GPU comes out under these names, whatever framework it runs. Units are base units: seconds, "
        "bytes, tokens, and ratios from 0 to 1. What a server does not expose is absent, never 0; `llm_field_info` "
        "says why.",
        "## What one series stands for",
        table(
            ("scope", "one series is", "identity labels"),
            ((scope.value, _SCOPES[scope], code(schema.IDENTITY[scope])) for scope in Scope),
        ),
        "Labels that the configuration gives a server stand beside the identity labels.",
        *(block for prefix, title in _SECTIONS.items() for block in _section(prefix, title)),
        *_phases(),
        "## Qualities of a field",
        table(("quality", "meaning"), ((f"`{quality}`", _QUALITIES[quality]) for quality in schema.QUALITIES)),
    )


def _section(prefix: str, title: str) -> list[str]:
    return [f"## {title}", *(_metric(metric) for metric in schema.of_prefix(prefix))]


def _metric(metric: Metric) -> str:
    kind = " · ".join(filter(None, (metric.type.value, metric.unit.value, f"per {metric.scope.value}")))
    details = [f"*{kind}*"]
    if metric.labels:
        details.append("Labels: " + "; ".join(_label(metric, label) for label in metric.labels) + ".")
    if metric.aliases:
        details.append(f"OpenTelemetry: {code(metric.aliases)}.")
    return f"### {metric.name}\n\n{metric.help}\n\n" + " ".join(details)


def _label(metric: Metric, label: str) -> str:
    values = metric.values.get(label)
    return f"`{label}`" + (f" ({', '.join(values)})" if values else "")


def _phases() -> list[str]:
    return [
        "## Phases and their grids",
        f"Each histogram has one fixed grid of upper bounds (version {schema.GRID_VERSION}), the same for every "
        "framework, so that counts of different servers add up by `le`. A server's own bounds that are on the grid "
        "keep their exact counts; between them counts are interpolated, and `llm_latency_native_bounds_info` names the "
        f"exact ones. For the phases marked so, `llm_latency_quantile_seconds` gives "
        f"q = {code(number(q) for q in schema.QUANTILES)} over the last "
        f"{number(schema.QUANTILE_WINDOW_SECONDS)} seconds.",
        table(("phase", "metric", "quantiles", "upper bounds"), (_phase(phase) for phase in schema.PHASES.values())),
        "Some grids leave default bounds of current releases out to stay short. Counts at these are interpolated in "
        "sums by `le`; percentiles of one server keep them, as they come from its own bounds.",
        table(("frontend", "phase", "bounds that are not on the grid"), _off_grid()),
    ]


def _off_grid() -> list[tuple[str, str, str]]:
    return [
        (f"`{frontend}`", f"`{phase}`", " ".join(f"{bound:g}" for bound in bounds))
        for phase, by_frontend in schema.OFF_GRID.items()
        for frontend, bounds in by_frontend.items()
    ]


def _phase(phase: Phase) -> tuple[str, ...]:
    bounds = " ".join(number(bound) for bound in phase.grid)
    return f"`{phase.name}`", f"`{phase.metric}`", "yes" if phase.quantiles else "", f"{bounds} {phase.unit.value}"
