"""What the API answers with. None (JSON null) is "not known", never zero."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from monitor.fleet import ServerRow
from monitor.gpus import GpuHost, GpuRow
from monitor.history.life import EVENT_KINDS
from monitor.history.tables import Tier


class _Out(BaseModel):
    model_config = ConfigDict(frozen=True)


class ValueOut(_Out):
    """One series of the schema as of the last reading."""

    metric: str = Field(examples=["llm_requests_running"])
    unit: str = Field(examples=["requests"])
    labels: dict[str, str] = Field(examples=[{"node": "gpu-1", "server": "gpu-1:8000", "engine": "0"}])
    value: float | None = Field(description="null is infinite: an upper bound that is not known", examples=[12])


class HistogramOut(_Out):
    """Since the server's start, at its own bounds. Counts are cumulative; the last one is the total."""

    metric: str = Field(examples=["llm_time_to_first_token_seconds"])
    unit: str = Field(examples=["seconds"])
    labels: dict[str, str]
    bounds: list[float] = Field(examples=[[0.1, 1.0]])
    counts: list[float] = Field(examples=[[90, 99, 100]])
    sum: float | None = Field(examples=[31.7])


class EventOut(_Out):
    """Something that changed at a server, which has no `uuid` and `gpu`, or at a GPU, which has no `server`."""

    at: float = Field(description="unix seconds: when it was first read so", examples=[1764495615.2])
    kind: str = Field(description=", ".join(EVENT_KINDS), examples=["version"])
    before: str | None = Field(examples=["0.32.0"])
    after: str | None = Field(examples=["0.33.0"])
    text: str = Field(description="in words, as an annotation says it", examples=["version: 0.32.0 → 0.33.0"])
    node: str = Field(examples=["gpu-1"])
    server: str | None = Field(examples=["gpu-1:8000"])
    uuid: str | None = Field(examples=[None])
    gpu: str | None = Field(description="its number on the node then", examples=[None])


class ServerDetail(_Out):
    """Everything that is known of one server: the row of the fleet table, every value, and what changed lately."""

    server: ServerRow
    observed_at: float = Field(description="unix seconds of the last reading", examples=[1764495615.2])
    first_seen: float | None = Field(description="unix seconds: since when the history knows it", examples=[1762000000])
    last_seen: float | None = Field(description="unix seconds of the last answer", examples=[1764495615.2])
    values: list[ValueOut]
    histograms: list[HistogramOut]
    engines_left_out: int = Field(description="engines beyond the first 128: in no value here", examples=[0])
    events: list[EventOut] = Field(description="the newest first")


class GpusOut(_Out):
    """What is said of each host whose GPUs are read or should be, and the GPUs. Where there are none, the host's
    findings say why."""

    hosts: list[GpuHost]
    gpus: list[GpuRow]


class PointOut(_Out):
    """What the window that starts at `start` came to. A window without observations has no point."""

    start: int = Field(description="unix seconds; the window is (start, start + seconds]", examples=[1764495600])
    seconds: int = Field(examples=[60])
    value: float = Field(examples=[0.42])
    lower: float | None = Field(description="quantiles only: the true value is not below", examples=[0.25])
    upper: float | None = Field(description="quantiles only: the true value is not above", examples=[0.5])
    at_least: bool = Field(description="the quantile lies beyond the largest bound: only `lower` is known")
    covered_seconds: float = Field(description="really observed, on average over the series", examples=[60])
    series: int = Field(description="engines, targets or GPUs behind the point", examples=[2])


class AnswerOut(_Out):
    """Points of one group in order of time."""

    labels: dict[str, str] = Field(description="those that were grouped by", examples=[{"framework": "vllm"}])
    points: list[PointOut]


class PartOut(_Out):
    """A stretch of time that was answered in steps of one length."""

    since: int = Field(description="unix seconds", examples=[1764492000])
    until: int = Field(examples=[1764495600])
    step: int = Field(description="seconds: more than was asked for where only longer windows are kept", examples=[60])
    tiers: list[Tier] = Field(description="lengths of the rows that were read", examples=[["minute", "hour"]])


class HistoryOut(_Out):
    """The question as it was understood, and its answers."""

    metric: str = Field(examples=["llm_time_to_first_token_seconds"])
    unit: str = Field(examples=["seconds"])
    aggregation: str = Field(description="avg, max, rate, sum or quantile", examples=["quantile"])
    q: float | None = Field(examples=[0.99])
    since: int = Field(description="unix seconds, rounded down to the step", examples=[1764492000])
    until: float = Field(description="unix seconds", examples=[1764495600])
    step: int = Field(description="seconds", examples=[60])
    parts: list[PartOut] = Field(description="the time asked for, in order; more than one where old minutes are gone")
    answers: list[AnswerOut]


class Problem(_Out):
    """What is wrong with a request, as RFC 9457 has it, and what is allowed instead."""

    type: str = "about:blank"
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["metric: 'requests_running' is not in the schema"])
    parameter: str | None = Field(default=None, description="which one is wrong", examples=["metric"])
    meant: str | None = Field(default=None, description="what was probably meant", examples=["llm_requests_running"])
    allowed: list[str] | None = Field(default=None, examples=[["llm_requests_running", "llm_requests_waiting"]])
