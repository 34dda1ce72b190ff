"""inferwatch itself: whether its numbers come, and what it could not read."""

from __future__ import annotations

from alerts import promql
from alerts.burn import DAY
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import (
    BAD,
    GOOD,
    WARNING,
    Column,
    Dashboard,
    Look,
    Query,
    Row,
    Shown,
    Stat,
    StateTimeline,
    Table,
    Threshold,
    TimeSeries,
    Unit,
)

_UP = ask.gauge("llm_up")
_SCRAPED = ("job", "instance")
_ONCE_OURS = promql.over_time("last", ask.chosen("inferwatch_build_info"), DAY)
_ANSWERS = promql.binary(promql.series("up"), "and", _ONCE_OURS, on=_SCRAPED)
_LAG = ask.gauge("inferwatch_history_lag_seconds")
_LATE = (Threshold(None, GOOD), Threshold(180, WARNING), Threshold(300, BAD))
_NO_MONITOR = "Empty where Prometheus does not scrape the monitor."
_SECONDS = "1000"
_PROCESS = ("node", *_SCRAPED)
_CONFIGURED = "inferwatch_config_last_reload_success_timestamp_seconds"


def _by_reason(title: str, description: str, metric: str) -> TimeSeries:
    return TimeSeries(
        title=title,
        description=description,
        unit=Unit.NUMBER,
        axis="per second",
        queries=parts.seldom(ask.sum_by(("reason",), ask.rate(metric)), "{{reason}}"),
        is_stacked=True,
        bars=True,
    )


_NOW = (
    Stat(
        title="Processes",
        description="Sidecars and monitors that Prometheus reaches, and those of the last day that it does not reach.",
        unit=Unit.NUMBER,
        queries=(
            Query(ask.sum_by((), _ANSWERS), "answer"),
            Query(ask.sum_by((), ask.holds(_ANSWERS, "==", 0)), "silent"),
        ),
        looks=(Look("^silent$", thresholds=parts.NONE_IS_GOOD),),
    ),
    Stat(
        title="Slowest collection",
        description="The longest that the last collection of a server took.",
        unit=Unit.SECONDS,
        queries=(Query(ask.max_by((), ask.gauge("inferwatch_scrape_duration_seconds"))),),
    ),
    Stat(
        title="Families not known",
        description="Metric families that servers show and no table names: mostly a new release.",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), ask.gauge("inferwatch_unmapped_families"))),),
        thresholds=parts.NONE_IS_BEST,
    ),
    Stat(
        title="History behind",
        description=f"How far the newest stored minute lies behind now. {_NO_MONITOR}",
        unit=Unit.SECONDS,
        queries=(Query(ask.max_by((), _LAG)),),
        thresholds=_LATE,
    ),
    Stat(
        title="Configuration",
        description="Whether the last reload was good everywhere; where not, the one before stays in force.",
        unit=Unit.NONE,
        queries=(Query(ask.min_by((), ask.chosen("inferwatch_config_last_reload_successful"))),),
        shown=(Shown(1, "good", GOOD), Shown(0, "refused", BAD)),
    ),
    Stat(
        title="Rules",
        description="Whether Prometheus evaluates the alert rules: the alert that always fires does.",
        unit=Unit.NONE,
        queries=(
            Query(
                ask.count_by(
                    (),
                    promql.series(
                        "ALERTS", promql.equals("alertname", "Watchdog"), promql.equals("alertstate", "firing")
                    ),
                )
            ),
        ),
        shown=(Shown(1, "evaluated", GOOD), Shown(None, "not loaded", BAD)),
    ),
)

_PROCESSES = (
    Table(
        title="Processes",
        description="Each process of inferwatch with its version, the version of its grid of buckets (counts of two "
        "are not added up), and since when its configuration is in force.",
        queries=(
            Query(ask.max_by((*_PROCESS, "version", "grid"), ask.chosen("inferwatch_build_info"))),
            Query(promql.binary(ask.max_by(_PROCESS, ask.chosen(_CONFIGURED)), "*", _SECONDS)),
        ),
        columns=(
            Column("node", "Host"),
            Column("job", "Job"),
            Column("instance", "Address"),
            Column("version", "Version", width=90),
            Column("grid", "Grid", width=80),
            Column("B", "Configuration of", Unit.TIMESTAMP, width=190),
        ),
        sort_by="Host",
        width=12,
        height=8,
    ),
    StateTimeline(
        title="Processes over time",
        description="Whether Prometheus reached each process.",
        queries=(Query(_ANSWERS, "{{job}} {{instance}}"),),
        shown=parts.UP_OR_DOWN,
        width=12,
        height=8,
    ),
)

_COLLECTING = (
    TimeSeries(
        title="Time to collect a server",
        description="How long the last collection of each server took.",
        unit=Unit.SECONDS,
        queries=(Query(ask.gauge("inferwatch_scrape_duration_seconds"), "{{node}} {{server}}"),),
        links=(parts.TO_SERVER,),
        minimum=0,
    ),
    _by_reason(
        "Failed collections",
        "By reason, of all chosen servers.",
        "inferwatch_scrape_errors_total",
    ),
    TimeSeries(
        title="Findings",
        description="How many servers have each finding. Empty while nothing was found.",
        unit=Unit.NUMBER,
        axis="servers",
        queries=(Query(ask.count_by(("reason",), ask.gauge("inferwatch_finding")), "{{reason}}"),),
        is_stacked=True,
        steps=True,
    ),
    TimeSeries(
        title="Families not known",
        description="Of each server: families that its table neither maps nor ignores.",
        unit=Unit.NUMBER,
        axis="families",
        queries=(Query(ask.gauge("inferwatch_unmapped_families"), "{{node}} {{server}}"),),
        steps=True,
    ),
    _by_reason(
        "Samples not used",
        "Dropped by reason, of all chosen servers, per second.",
        "inferwatch_dropped_samples_total",
    ),
    TimeSeries(
        title="Metrics available",
        description="Servers that answer, and those whose metrics could be read.",
        unit=Unit.NUMBER,
        axis="servers",
        queries=(
            Query(ask.sum_by((), _UP), "answer"),
            Query(ask.sum_by((), ask.gauge("llm_metrics_available")), "metrics read"),
            Query(ask.count_by((), _UP), "configured"),
        ),
        steps=True,
        minimum=0,
    ),
)

_GPUS = (
    StateTimeline(
        title="Whether GPUs can be read",
        description="Of each host that is asked for GPUs; where not, the findings of GPUs say why. Empty where none "
        "is.",
        queries=(Query(ask.gauge("inferwatch_gpu_available"), "{{node}}"),),
        shown=(Shown(1, "read", GOOD), Shown(0, "not read", BAD)),
        width=24,
        height=5,
    ),
    TimeSeries(
        title="Time to read all GPUs",
        description="How long the last reading of all GPUs of a host took. Empty where GPUs are not read.",
        unit=Unit.SECONDS,
        queries=(Query(ask.gauge("inferwatch_gpu_read_duration_seconds"), "{{node}}"),),
        minimum=0,
    ),
    _by_reason(
        "Failed readings of GPUs", "By reason. Empty where GPUs are not read.", "inferwatch_gpu_read_errors_total"
    ),
    _by_reason(
        "Samples of dcgm-exporter not used",
        "By reason; `blank` is DCGM's value for none. Empty where its page is not read.",
        "inferwatch_gpu_dropped_samples_total",
    ),
)

_HISTORY = (
    TimeSeries(
        title="History behind",
        description=f"How far the newest stored minute lies behind now. {_NO_MONITOR}",
        unit=Unit.SECONDS,
        queries=(Query(_LAG, "{{node}}"),),
        thresholds=_LATE,
        limits_drawn=True,
        minimum=0,
    ),
    TimeSeries(
        title="Size of the history",
        description=f"Bytes of the database; on PostgreSQL inferwatch's tables alone. {_NO_MONITOR}",
        unit=Unit.BYTES,
        queries=(Query(ask.gauge("inferwatch_history_size_bytes"), "{{node}}"),),
        minimum=0,
    ),
    TimeSeries(
        title="Alertmanager not told",
        description=f"Times per second that the monitor could not tell it of alerts. {_NO_MONITOR} The same where "
        "Prometheus tells it.",
        unit=Unit.NUMBER,
        axis="per second",
        queries=(Query(ask.rate("inferwatch_alertmanager_failures_total"), "{{node}}"),),
        minimum=0,
    ),
    TimeSeries(
        title="Alerts that Alertmanager left out",
        description=f"For its `max_alerts`, per second. {_NO_MONITOR}",
        unit=Unit.NUMBER,
        axis="per second",
        queries=(Query(ask.rate("inferwatch_truncated_alerts_total"), "{{node}}"),),
        minimum=0,
    ),
)


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.ITSELF,
        title="inferwatch / Itself",
        description="Whether inferwatch's own processes work, what they could not read, and how far the history is.",
        variables=parts.CHOICES,
        links=(parts.ALL_DASHBOARDS,),
        rows=(
            Row("Now", _NOW),
            Row("Processes", _PROCESSES),
            Row("Servers", _COLLECTING),
            Row("GPUs", _GPUS),
            Row("History", _HISTORY),
            Row("Findings", (parts.findings_table(width=24),)),
        ),
    )
