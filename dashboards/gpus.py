"""All GPUs, whoever uses them."""

from __future__ import annotations

from dataclasses import replace

from alerts import promql
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import (
    BAD,
    GOOD,
    NEUTRAL,
    WARNING,
    BarGauge,
    Column,
    Dashboard,
    Gauge,
    Line,
    Look,
    Query,
    Row,
    Stat,
    StateTimeline,
    Table,
    Threshold,
    TimeSeries,
    Unit,
)

_LEGEND = "{{node}} GPU {{gpu}}"
_EACH = ("node", "uuid", "gpu")
_UP = ask.gauge("gpu_up")
_SERVES = ask.max_by((*ask.GPU, "server"), promql.series("gpu_server_info", promql.matching("node", "$node")))
_USED, _TOTAL = ask.gauge("gpu_memory_used_bytes"), ask.gauge("gpu_memory_total_bytes")
_FINDINGS = ask.max_by(("node", "uuid", "severity", "reason"), ask.gauge("inferwatch_gpu_finding"))
_HOT = (Threshold(None, GOOD), Threshold(80, WARNING), Threshold(90, BAD))
_NO_GPUS = "Empty where GPUs are not read."
_GPM = "Hopper and newer tell it; empty elsewhere."

_NODE = replace(parts.NODE, query=parts.labels("gpu_up", "node"))
"""A host may have GPUs and no servers."""

_NOW = (
    Stat(
        title="GPUs",
        description="GPUs of the chosen hosts that answer, and those that are lost or do not answer in time. "
        f"{_NO_GPUS}",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), _UP), "up"), Query(ask.sum_by((), ask.holds(_UP, "==", 0)), "lost")),
        looks=(Look("^lost$", thresholds=parts.NONE_IS_GOOD),),
    ),
    Stat(
        title="Without a server",
        description=f"GPUs that answer and on which no configured or known server runs. {_NO_GPUS}",
        unit=Unit.NUMBER,
        queries=(
            Query(
                ask.none_as_zero(
                    ask.count_by((), promql.binary(_UP, "unless", _SERVES, on=ask.GPU)), ask.count_by((), _UP)
                )
            ),
        ),
        thresholds=parts.NONE_IS_BEST,
    ),
    Gauge(
        title="Memory in use",
        description=f"Bytes in use per byte there is, of all GPUs that are shown. {_NO_GPUS}",
        unit=Unit.RATIO,
        queries=(Query(promql.binary(ask.sum_by((), _USED), "/", ask.sum_by((), _TOTAL))),),
        decimals=0,
        minimum=0,
        maximum=1,
    ),
    Stat(
        title="Power",
        description=f"Power of all GPUs that are shown, from their energy counters, else from their power. {_NO_GPUS}",
        unit=Unit.WATTS,
        queries=(Query(ask.sum_by((), ask.gpu_watts())),),
    ),
    Stat(
        title="Hottest",
        description=f"The hottest sensor of all GPUs that are shown. {_NO_GPUS}",
        unit=Unit.CELSIUS,
        queries=(Query(ask.max_by(("sensor",), ask.gauge("gpu_temperature_celsius")), "{{sensor}}"),),
        thresholds=_HOT,
    ),
    Stat(
        title="XID events",
        description=f"Errors that the drivers reported within the time that is shown. {_NO_GPUS}",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), ask.increase("gpu_xid_errors_total", over=ask.RANGE))),),
        thresholds=parts.NONE_IS_GOOD,
        decimals=0,
    ),
)

_INVENTORY = (
    Table(
        title="GPUs",
        description=f"Each GPU or MIG slice, and the server that runs on it. {_NO_GPUS}",
        queries=(
            Query(_UP),
            Query(ask.max_by((*_EACH, "name", "driver", "mig_profile"), ask.gauge("gpu_info"))),
            Query(ask.max_by((*_EACH, "server"), promql.series("gpu_server_info", promql.matching("node", "$node")))),
            Query(ask.gauge("gpu_utilization_ratio")),
            Query(promql.binary(_USED, "/", _TOTAL)),
            Query(ask.gauge("gpu_power_watts")),
            Query(ask.max_by(_EACH, ask.gauge("gpu_temperature_celsius"))),
        ),
        columns=(
            Column("node", "Host"),
            Column("gpu", "GPU", width=60),
            Column("A", "Up", shown=parts.UP_OR_DOWN, width=70),
            Column("name", "Type"),
            Column("mig_profile", "Slice", width=90),
            Column("driver", "Driver", width=110),
            Column("server", "Server", link=parts.FROM_ROW),
            Column("D", "Busy", Unit.RATIO, width=80),
            Column("E", "Memory", Unit.RATIO, width=90),
            Column("F", "Power", Unit.WATTS, width=90),
            Column("G", "Hottest", Unit.CELSIUS, thresholds=_HOT, width=90),
            Column("uuid", "UUID"),
        ),
        sort_by="Up",
        width=24,
        height=9,
    ),
    StateTimeline(
        title="GPUs over time",
        description="Whether each GPU answered. A gap: nobody asked it, or its sidecar was gone.",
        queries=(Query(_UP, _LEGEND),),
        shown=parts.UP_OR_DOWN,
        width=12,
        height=8,
    ),
    Table(
        title="Findings of GPUs",
        description="What inferwatch found out about GPUs and is worth acting on. Empty while nothing was found.",
        queries=(Query(_FINDINGS),),
        columns=(
            Column("severity", "Severity", width=90),
            Column("node", "Host"),
            Column("uuid", "UUID"),
            Column("reason", "Finding"),
        ),
        sort_by="Severity",
        width=12,
        height=8,
    ),
)


def _lines(title: str, of: str, unit: Unit, description: str, *, legend: str = _LEGEND, most: float | None = None,
           axis: str = "") -> TimeSeries:  # fmt: skip
    return TimeSeries(
        title=title, description=description, unit=unit, queries=(Query(of, legend),), minimum=0, maximum=most,
        axis=axis,
    )  # fmt: skip


def _bars(title: str, of: str, unit: Unit, description: str, kind: str, axis: str = "") -> TimeSeries:
    """Of what seldom happens."""
    legend = f"{_LEGEND} {{{{{kind}}}}}"
    return TimeSeries(
        title=title, description=description, unit=unit, queries=parts.seldom(of, legend), minimum=0, axis=axis,
        bars=True, is_stacked=True,
    )  # fmt: skip


_WORK = (
    _lines("Utilisation", ask.gauge("gpu_utilization_ratio"), Unit.RATIO,
           f"Share of the time in which some kernel ran: not idle, never how full. {_NO_GPUS}", most=1),
    _lines("SM activity", ask.gauge("gpu_sm_active_ratio"), Unit.RATIO,
           f"Share of cycles with a warp on the SMs. {_GPM}", most=1),
    _lines("SM occupancy", ask.gauge("gpu_sm_occupancy_ratio"), Unit.RATIO,
           f"Warps resident per warp possible. {_GPM}", most=1),
    _lines("Tensor activity", ask.gauge("gpu_tensor_active_ratio"), Unit.RATIO,
           f"Share of cycles with tensor cores busy. {_GPM}", most=1),
    _lines("Memory activity", ask.gauge("gpu_dram_active_ratio"), Unit.RATIO,
           f"Share of cycles with memory traffic: decoding is bound by it. {_GPM}", most=1),
    _lines("Memory in use", _USED, Unit.BYTES, f"Bytes in use on each GPU. {_NO_GPUS}"),
)  # fmt: skip
_POWER = (
    TimeSeries(
        title="Power",
        description=f"From the energy counters, else the readings of power, and the limit in force. {_NO_GPUS}",
        unit=Unit.WATTS,
        queries=(
            Query(ask.gpu_watts(), _LEGEND),
            Query(ask.gauge("gpu_power_limit_watts"), f"{_LEGEND} limit"),
        ),
        looks=(Look("limit$", NEUTRAL, Line.DASHED),),
        minimum=0,
    ),
    _lines("Temperature", ask.gauge("gpu_temperature_celsius"), Unit.CELSIUS,
           f"Of each sensor. {_NO_GPUS}", legend=f"{_LEGEND} {{{{sensor}}}}"),
    _lines("SM clock", ask.gauge("gpu_clock_hertz", promql.equals("domain", "sm")), Unit.HERTZ,
           f"It falls where the GPU is idle or held down. {_NO_GPUS}"),
    _bars("Slowed down", ask.rate("gpu_throttled_seconds_total"), Unit.RATIO,
          "Share of the time in which clocks were held down, by reason; reasons overlap.",
          "reason"),
    _lines("PCIe traffic", ask.rate("gpu_pcie_bytes_total"), Unit.BYTES_PER_SECOND,
           f"By direction. {_NO_GPUS}", legend=f"{_LEGEND} {{{{direction}}}}"),
    _lines("NVLink traffic", ask.rate("gpu_nvlink_bytes_total"), Unit.BYTES_PER_SECOND,
           "By direction. Empty without NVLink.", legend=f"{_LEGEND} {{{{direction}}}}"),
)  # fmt: skip
_HARM = (
    BarGauge(
        title="XID events by number",
        description="Within the time that is shown; docs/gpus.md says what numbers mean. Empty while none was seen.",
        unit=Unit.NUMBER,
        queries=(
            Query(
                promql.binary(
                    ask.sum_by(("node", "gpu", "xid"), ask.increase("gpu_xid_errors_total", over=ask.RANGE)), ">", "0"
                ),
                f"{_LEGEND} XID {{{{xid}}}}",
            ),
        ),
        decimals=0,
        minimum=0,
        thresholds=(Threshold(None, BAD),),
    ),
    BarGauge(
        title="Remapped memory rows",
        description=f"By the errors they had; `pending` and `failed` are 1 if there are any such. {_NO_GPUS}",
        unit=Unit.NUMBER,
        queries=(Query(ask.gauge("gpu_remapped_rows_total"), f"{_LEGEND} {{{{kind}}}}"),),
        decimals=0,
        minimum=0,
        thresholds=parts.NONE_IS_BEST,
    ),
    _bars("ECC errors", ask.increase("gpu_ecc_errors_total"), Unit.NUMBER,
          "New ones: corrected ones are routine, uncorrected ones lose data. Empty where no GPU counts them.", "kind",
          "errors"),
    _bars("NVLink errors", ask.increase("gpu_nvlink_errors_total"), Unit.NUMBER,
          "New ones, of all links. Empty where there is no NVLink.", "kind", "errors"),
)  # fmt: skip


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.GPUS,
        title="inferwatch / GPUs",
        description="Every GPU of the fleet: what it does, what it draws, what is wrong with it, and whom it serves.",
        variables=(_NODE,),
        links=(parts.ALL_DASHBOARDS,),
        rows=(
            Row("Now", _NOW),
            Row("Each of them", _INVENTORY),
            Row("Work", _WORK),
            Row("Power, heat and traffic", _POWER),
            Row("Errors", _HARM),
        ),
    )
