"""The contract between everything that measures and everything that reads: one name, type, unit and meaning per metric.

Servers of every framework come out under `llm_`, GPUs under `gpu_`, this product's own state under `inferwatch_`.
Units are base units: seconds, bytes, tokens, ratio 0-1. The reference page is generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

GRID_VERSION = 1
"""Raised whenever a bound of a grid changes: counts of two versions are not summed by `le`."""


class Type(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    NONE = ""
    SECONDS = "seconds"
    BYTES = "bytes"
    TOKENS = "tokens"
    RATIO = "ratio"
    REQUESTS = "requests"
    WATTS = "watts"
    JOULES = "joules"
    CELSIUS = "celsius"
    HERTZ = "hertz"
    COUNT = "count"
    TIMESTAMP = "unix seconds"


class Scope(StrEnum):
    """What one series of a metric stands for, which decides its identity labels."""

    TARGET = "target"
    ENGINE = "engine"
    GPU = "gpu"
    SELF = "self"


IDENTITY: dict[Scope, tuple[str, ...]] = {
    Scope.TARGET: ("node", "server"),
    Scope.ENGINE: ("node", "server", "framework", "model", "role", "engine"),
    Scope.GPU: ("node", "uuid", "gpu"),
    Scope.SELF: ("node",),
}
"""Labels that every series of the scope carries; a target's user labels stand beside them."""

FRAMEWORKS = ("vllm", "sglang", "lmdeploy", "tensorrt_llm")
ROLES = ("unified", "prefill", "decode")
STATES = ("awake", "sleeping", "starting", "draining", "unknown")
FINISH_REASONS = ("stop", "length", "abort", "error", "unknown")
QUALITIES = ("exact", "derived", "approximate", "last_batch", "unavailable")


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` are those beside the identity labels of `scope`; `values` lists the closed sets among them."""

    name: str
    type: Type
    unit: Unit
    scope: Scope
    help: str
    labels: tuple[str, ...] = ()
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    @property
    def is_ratio(self) -> bool:
        return self.unit is Unit.RATIO


@dataclass(frozen=True, slots=True)
class Phase:
    """One thing that is measured per request or token as a histogram, with the fixed grid of its upper bounds."""

    name: str
    metric: str
    unit: Unit
    grid: tuple[float, ...]
    quantiles: bool
    """Whether `llm_latency_quantile_seconds` is exported for it."""


def _union(*bounds: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted({float(b) for group in bounds for b in group}))


# Default bounds of the current releases; the sources stand in each frontend's table.
_TTFT_VLLM = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
              640, 2560)  # fmt: skip
_TTFT_SGLANG = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_TOKEN_VLLM = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_TOKEN_LMDEPLOY = (0.005, *_TOKEN_VLLM)
_TOKEN_SGLANG = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4,
                 0.6, 0.8, 1, 2, 4, 6, 8)  # fmt: skip
_LATENCY_VLLM = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_E2E_SGLANG = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400)
_PREFILL_TRTLLM = (80, 160, 640, 2560)
_LENGTH = tuple(m * 10**e for e in range(6) for m in (1, 2, 5))

_TOKEN_GRID = _union(_TOKEN_LMDEPLOY, _TOKEN_SGLANG)

TTFT = Phase("ttft", "llm_time_to_first_token_seconds", Unit.SECONDS, _union(_TTFT_VLLM, _TTFT_SGLANG), True)
ITL = Phase("itl", "llm_inter_token_latency_seconds", Unit.SECONDS, _TOKEN_GRID, True)
TPOT = Phase("tpot", "llm_time_per_output_token_seconds", Unit.SECONDS, _TOKEN_GRID, True)
E2E = Phase("e2e", "llm_request_duration_seconds", Unit.SECONDS, _union(_LATENCY_VLLM, _E2E_SGLANG), True)
QUEUE = Phase(
    "queue", "llm_queue_time_seconds", Unit.SECONDS, _union(_LATENCY_VLLM, (0.001, 0.005, 0.01, 0.05, 0.1, 0.2)), True
)
PREFILL = Phase(
    "prefill", "llm_prefill_time_seconds", Unit.SECONDS,
    _union(_LATENCY_VLLM, _PREFILL_TRTLLM, (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)), False,
)  # fmt: skip
DECODE = Phase("decode", "llm_decode_time_seconds", Unit.SECONDS, _union(_LATENCY_VLLM, (0.1,)), False)
PROMPT_LENGTH = Phase(
    "prompt_length", "llm_prompt_length_tokens", Unit.TOKENS, _union(_LENGTH, (131072, 1_000_000)), False
)
GENERATION_LENGTH = Phase(
    "generation_length", "llm_generation_length_tokens", Unit.TOKENS, _union(_LENGTH, (131072,)), False
)

PHASES: dict[str, Phase] = {
    p.name: p for p in (TTFT, ITL, TPOT, E2E, QUEUE, PREFILL, DECODE, PROMPT_LENGTH, GENERATION_LENGTH)
}
LATENCY_PHASES = tuple(p.name for p in PHASES.values() if p.unit is Unit.SECONDS)
LENGTH_PHASES = tuple(p.name for p in PHASES.values() if p.unit is Unit.TOKENS)
QUANTILE_PHASES = tuple(p.name for p in PHASES.values() if p.quantiles)
PHASE_OF_METRIC: dict[str, Phase] = {p.metric: p for p in PHASES.values()}

_LENGTHS_SGLANG = (300, 700, 1500, 3000, 4000, 6000, 7000, 8000, 9000, 12500, 15000, 17500, 22500, 25000, 27500, 30000,
                   35000, 40000, 60000, 80000, 300000, 400000, 600000, 800000)  # fmt: skip

OFF_GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "queue": {"sglang": (0, 3, 4, 70, 80, 90, *range(100, 1000, 100), *range(1000, 2000, 200), 2000, 2500, 3000)},
    "prefill": {"sglang": tuple(0.001 * 1.62**i for i in range(1, 30))},
    "prompt_length": {"sglang": (*_LENGTHS_SGLANG, 1_100_000)},
    "generation_length": {"sglang": (*_LENGTHS_SGLANG, 1_000_000, 1_100_000)},
}
"""Default bounds of current releases that a grid leaves out to stay short, by phase and frontend."""

DEFAULT_BOUNDS: dict[str, dict[str, tuple[float, ...]]] = {
    "ttft": {
        "vllm": _TTFT_VLLM, "sglang": _TTFT_SGLANG, "lmdeploy": _TTFT_VLLM, "trtllm_serve": _TTFT_VLLM,
        "triton": (0.1, 0.5, 2, 5), "nim": _TTFT_VLLM[:16],
    },
    "itl": {"vllm": _TOKEN_VLLM, "sglang": _TOKEN_SGLANG, "lmdeploy": _TOKEN_LMDEPLOY, "nim": _TOKEN_VLLM[:13]},
    "tpot": {"vllm": _TOKEN_VLLM, "sglang": _TOKEN_SGLANG, "trtllm_serve": _TOKEN_VLLM},
    "e2e": {
        "vllm": _LATENCY_VLLM, "sglang": _E2E_SGLANG, "lmdeploy": _LATENCY_VLLM, "trtllm_serve": _LATENCY_VLLM,
        "nim": (1, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    },
}  # fmt: skip
"""Default bounds of the current releases by phase with objectives and frontend; a frontend that is missing measures
none."""

QUANTILES = (0.5, 0.99)
QUANTILE_WINDOW_SECONDS = 300.0
"""The window of `llm_latency_quantile_seconds` and `llm_prefix_cache_hit_ratio`."""

_GAUGE, _COUNTER, _HISTOGRAM = Type.GAUGE, Type.COUNTER, Type.HISTOGRAM
_TARGET, _ENGINE, _GPU, _SELF = Scope.TARGET, Scope.ENGINE, Scope.GPU, Scope.SELF

SERVER_INFO_LABELS = (
    "version", "frontend", "wire_model", "max_model_len", "dtype", "tp", "pp", "dp", "quantization", "prefix_caching",
    "kv_cache_dtype", "block_size",
)  # fmt: skip

_SERVER = (
    Metric("llm_up", _GAUGE, Unit.NONE, _TARGET,
           "1 if the server's process answers HTTP (metrics or health), whatever it answers."),
    Metric("llm_metrics_available", _GAUGE, Unit.NONE, _TARGET,
           "1 if engine metrics could be read; 0 comes with a finding that names the reason."),
    Metric("llm_server_info", _GAUGE, Unit.NONE, _ENGINE,
           "Always 1: what is known of the server's version, model and configuration.", SERVER_INFO_LABELS),
    Metric("llm_server_state", _GAUGE, Unit.NONE, _ENGINE, "Always 1: the state the engine says it is in.",
           ("state",), {"state": STATES}),
    Metric("llm_field_info", _GAUGE, Unit.NONE, _TARGET,
           "Always 1: a schema field that is not exact here, with its source, quality and reason.",
           ("field", "source", "quality", "reason"), {"quality": QUALITIES}),
    Metric("llm_kv_cache_utilization_ratio", _GAUGE, Unit.RATIO, _ENGINE,
           "Share of KV-cache space in use (the full-attention pool where pools differ)."),
    Metric("llm_kv_cache_capacity_tokens", _GAUGE, Unit.TOKENS, _ENGINE, "KV-cache capacity of one engine."),
    Metric("llm_requests_running", _GAUGE, Unit.REQUESTS, _ENGINE, "Requests in the running batch: the batch size."),
    Metric("llm_requests_waiting", _GAUGE, Unit.REQUESTS, _ENGINE,
           "Requests admitted and not yet running, those queued before the engine included."),
    Metric("llm_requests_waiting_api", _GAUGE, Unit.REQUESTS, _ENGINE,
           "The part of llm_requests_waiting that is queued before the engine."),
    Metric("llm_requests_running_limit", _GAUGE, Unit.REQUESTS, _ENGINE, "Largest batch that the server allows."),
    Metric("llm_prompt_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE, "Prompt tokens, cached ones included."),
    Metric("llm_generation_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE, "Generated tokens."),
    Metric("llm_prefix_cache_query_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE,
           "Prompt tokens looked up in the prefix cache."),
    Metric("llm_prefix_cache_hit_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE,
           "Prompt tokens found in the prefix cache."),
    Metric("llm_prefix_cache_hit_ratio", _GAUGE, Unit.RATIO, _ENGINE,
           "Prefix-cache hits / queries over the last 5 minutes; absent when nothing was looked up."),
    Metric("llm_requests_finished_total", _COUNTER, Unit.REQUESTS, _ENGINE, "Finished requests by reason.",
           ("reason",), {"reason": FINISH_REASONS}),
    Metric("llm_requests_rejected_total", _COUNTER, Unit.REQUESTS, _ENGINE, "Requests refused before the engine.",
           ("reason",)),
    Metric("llm_requests_unfinished", _GAUGE, Unit.REQUESTS, _ENGINE,
           "Requests that saw a first token, never finished and do not run: vanished without a trace."),
    Metric("llm_preemptions_total", _COUNTER, Unit.COUNT, _ENGINE,
           "Preemptions, retractions or pauses; one request can add several."),
    Metric("llm_spec_decode_draft_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE, "Tokens proposed by the draft."),
    Metric("llm_spec_decode_accepted_tokens_total", _COUNTER, Unit.TOKENS, _ENGINE,
           "Draft tokens accepted, without the bonus token."),
    Metric("llm_lora_adapters_running", _GAUGE, Unit.COUNT, _ENGINE, "LoRA adapters in the running batch."),
    Metric("llm_lora_adapters_waiting", _GAUGE, Unit.COUNT, _ENGINE, "LoRA adapters with waiting requests."),
    Metric("llm_lora_adapters_limit", _GAUGE, Unit.COUNT, _ENGINE, "LoRA adapters that fit into one batch."),
    Metric(TTFT.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Time from arrival to the first token.",
           aliases=("gen_ai.server.time_to_first_token",)),
    Metric(ITL.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Gap between two outputs of one request."),
    Metric(TPOT.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE,
           "Mean time per output token after the first, one observation a request.",
           aliases=("gen_ai.server.time_per_output_token",)),
    Metric(E2E.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Time from arrival to the last token.",
           aliases=("gen_ai.server.request.duration",)),
    Metric(QUEUE.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Time from the engine's queue to the first scheduling."),
    Metric(PREFILL.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Time from first scheduling to the first token."),
    Metric(DECODE.metric, _HISTOGRAM, Unit.SECONDS, _ENGINE, "Time from the first to the last token."),
    Metric(PROMPT_LENGTH.metric, _HISTOGRAM, Unit.TOKENS, _ENGINE, "Prompt length of finished requests."),
    Metric(GENERATION_LENGTH.metric, _HISTOGRAM, Unit.TOKENS, _ENGINE, "Output length of finished requests."),
    Metric("llm_latency_overflow_total", _COUNTER, Unit.COUNT, _ENGINE,
           "Observations beyond the largest native bound: how long they took is not known.",
           ("phase",), {"phase": LATENCY_PHASES}),
    Metric("llm_latency_native_max_seconds", _GAUGE, Unit.SECONDS, _ENGINE, "The server's largest finite bound.",
           ("phase",), {"phase": LATENCY_PHASES}),
    Metric("llm_latency_native_bounds_info", _GAUGE, Unit.NONE, _ENGINE,
           "Always 1: the server's own finite bounds, comma-separated. Counts at these bounds are exact.",
           ("phase", "bounds"), {"phase": LATENCY_PHASES}),
    Metric("llm_latency_quantile_seconds", _GAUGE, Unit.SECONDS, _ENGINE,
           "Quantile over the last 5 minutes: the estimate, and the bounds between which the true one lies.",
           ("phase", "q", "bound"),
           {"phase": QUANTILE_PHASES, "q": tuple(str(q) for q in QUANTILES), "bound": ("estimate", "lower", "upper")}),
    Metric("llm_length_overflow_total", _COUNTER, Unit.COUNT, _ENGINE,
           "Lengths beyond the largest native bound.", ("phase",), {"phase": LENGTH_PHASES}),
    Metric("llm_length_native_bounds_info", _GAUGE, Unit.NONE, _ENGINE,
           "Always 1: the server's own finite length bounds, comma-separated.",
           ("phase", "bounds"), {"phase": LENGTH_PHASES}),
    Metric("llm_process_start_time_seconds", _GAUGE, Unit.TIMESTAMP, _ENGINE,
           "When the server's process started, to tell restarts."),
    Metric("llm_probe_success", _GAUGE, Unit.NONE, _TARGET,
           "1 if the last synthetic request got its tokens and ended in order, seen from outside."),
    Metric("llm_probe_time_to_first_token_seconds", _GAUGE, Unit.SECONDS, _TARGET,
           "From before connecting to the first text of the last synthetic request; absent if that failed."),
    Metric("llm_probe_duration_seconds", _GAUGE, Unit.SECONDS, _TARGET,
           "From before connecting to the end of the last synthetic request; absent if that failed."),
)  # fmt: skip

THROTTLE_REASONS = (
    "power", "thermal", "sync_boost", "board_limit", "reliability", "sw_thermal", "hw_thermal", "power_brake",
)  # fmt: skip

_GPUS = (
    Metric("gpu_up", _GAUGE, Unit.NONE, _GPU,
           "1 if the GPU answers; 0 if it is known, and is lost or does not answer in time."),
    Metric("gpu_info", _GAUGE, Unit.NONE, _GPU, "Always 1: what the GPU is.",
           ("name", "driver", "cuda", "pci_bus_id", "serial", "mig_profile", "parent")),
    Metric("gpu_server_info", _GAUGE, Unit.NONE, _GPU, "Always 1: which server runs on the GPU.",
           ("server", "source"), {"source": ("process", "config")}),
    Metric("gpu_utilization_ratio", _GAUGE, Unit.RATIO, _GPU,
           "Share of the sample period in which any kernel ran: not idle, never how full."),
    Metric("gpu_memory_used_bytes", _GAUGE, Unit.BYTES, _GPU, "Memory in use."),
    Metric("gpu_memory_total_bytes", _GAUGE, Unit.BYTES, _GPU, "Memory of the GPU or MIG slice."),
    Metric("gpu_power_watts", _GAUGE, Unit.WATTS, _GPU, "Power draw."),
    Metric("gpu_power_limit_watts", _GAUGE, Unit.WATTS, _GPU, "Enforced power limit."),
    Metric("gpu_energy_joules_total", _COUNTER, Unit.JOULES, _GPU, "Energy since the driver was loaded."),
    Metric("gpu_temperature_celsius", _GAUGE, Unit.CELSIUS, _GPU, "Temperature by sensor.",
           ("sensor",), {"sensor": ("core", "memory")}),
    Metric("gpu_clock_hertz", _GAUGE, Unit.HERTZ, _GPU, "Clock by domain.",
           ("domain",), {"domain": ("sm", "memory", "graphics")}),
    Metric("gpu_sm_active_ratio", _GAUGE, Unit.RATIO, _GPU, "Share of cycles with a warp on the SMs (GPM)."),
    Metric("gpu_tensor_active_ratio", _GAUGE, Unit.RATIO, _GPU, "Share of cycles with tensor cores busy (GPM)."),
    Metric("gpu_dram_active_ratio", _GAUGE, Unit.RATIO, _GPU, "Share of cycles with memory traffic (GPM)."),
    Metric("gpu_sm_occupancy_ratio", _GAUGE, Unit.RATIO, _GPU, "Warps resident / warps possible (GPM)."),
    Metric("gpu_throttled_seconds_total", _COUNTER, Unit.SECONDS, _GPU,
           "Time in which the clocks were held down, by reason; reasons overlap.",
           ("reason",), {"reason": THROTTLE_REASONS}),
    Metric("gpu_ecc_errors_total", _COUNTER, Unit.COUNT, _GPU, "ECC errors since the driver was loaded.",
           ("kind",), {"kind": ("corrected", "uncorrected")}),
    Metric("gpu_remapped_rows_total", _COUNTER, Unit.COUNT, _GPU,
           "Remapped memory rows by the errors they had; `pending` and `failed` are 1 if there are any such.",
           ("kind",), {"kind": ("corrected", "uncorrected", "pending", "failed")}),
    Metric("gpu_xid_errors_total", _COUNTER, Unit.COUNT, _GPU,
           "XID events by number since inferwatch was started; kept while the GPU is lost.", ("xid",)),
    Metric("gpu_pcie_bytes_total", _COUNTER, Unit.BYTES, _GPU, "PCIe traffic.",
           ("direction",), {"direction": ("tx", "rx")}),
    Metric("gpu_nvlink_bytes_total", _COUNTER, Unit.BYTES, _GPU, "NVLink traffic.",
           ("direction",), {"direction": ("tx", "rx")}),
    Metric("gpu_nvlink_errors_total", _COUNTER, Unit.COUNT, _GPU, "NVLink errors of all links.",
           ("kind",), {"kind": ("replay", "recovery", "crc")}),
)  # fmt: skip

DROP_REASONS = (
    "nan", "not_known", "invalid_value", "ratio_out_of_range", "negative", "bucket_decreasing", "bucket_incomplete",
    "duplicate", "syntax", "too_many_models", "ambiguous",
)  # fmt: skip

GPU_DROP_REASONS = ("blank", "nan", "invalid_value", "ratio_out_of_range", "negative", "syntax")

_OWN = (
    Metric("inferwatch_build_info", _GAUGE, Unit.NONE, _SELF, "Always 1: the product's version and schema grid.",
           ("version", "grid")),
    Metric("inferwatch_scrape_duration_seconds", _GAUGE, Unit.SECONDS, _TARGET, "Time the last collection took."),
    Metric("inferwatch_scrape_errors_total", _COUNTER, Unit.COUNT, _TARGET, "Failed collections by reason.",
           ("reason",)),
    Metric("inferwatch_finding", _GAUGE, Unit.NONE, _TARGET,
           "Always 1 while it holds: something to act on; /debug tells the remedy.", ("reason", "severity")),
    Metric("inferwatch_unmapped_families", _GAUGE, Unit.COUNT, _TARGET,
           "Metric families of the server that its table neither maps nor ignores."),
    Metric("inferwatch_dropped_samples_total", _COUNTER, Unit.COUNT, _TARGET,
           "Samples not used, by reason.", ("reason",), {"reason": DROP_REASONS}),
    Metric("inferwatch_gpu_available", _GAUGE, Unit.NONE, _SELF,
           "1 if GPUs can be read, 0 with a finding that names the reason; absent where they are not asked for."),
    Metric("inferwatch_gpu_finding", _GAUGE, Unit.NONE, _SELF,
           "Always 1 while it holds: something to act on; `uuid` where it is of one GPU.",
           ("uuid", "reason", "severity")),
    Metric("inferwatch_gpu_read_duration_seconds", _GAUGE, Unit.SECONDS, _SELF,
           "Time the last reading of all GPUs took."),
    Metric("inferwatch_gpu_read_errors_total", _COUNTER, Unit.COUNT, _SELF, "Failed readings by reason.", ("reason",)),
    Metric("inferwatch_gpu_dropped_samples_total", _COUNTER, Unit.COUNT, _SELF,
           "Samples of dcgm-exporter's page that were not used, by reason; `blank` is DCGM's value for none.",
           ("reason",), {"reason": GPU_DROP_REASONS}),
    Metric("inferwatch_config_last_reload_successful", _GAUGE, Unit.NONE, _SELF,
           "1 if the last reload of the configuration was good; the running one stays in force otherwise."),
    Metric("inferwatch_config_last_reload_success_timestamp_seconds", _GAUGE, Unit.TIMESTAMP, _SELF,
           "When the configuration in force was loaded."),
    Metric("inferwatch_history_lag_seconds", _GAUGE, Unit.SECONDS, _SELF,
           "How far the newest stored minute lies behind now."),
    Metric("inferwatch_history_size_bytes", _GAUGE, Unit.BYTES, _SELF,
           "How large the history's database is; on PostgreSQL only inferwatch's tables are counted."),
    Metric("inferwatch_truncated_alerts_total", _COUNTER, Unit.COUNT, _SELF,
           "Alerts that Alertmanager left out of its notifications to the monitor, for its `max_alerts`."),
    Metric("inferwatch_alertmanager_failures_total", _COUNTER, Unit.COUNT, _SELF,
           "How often an Alertmanager could not be told of the alerts that the monitor judges itself."),
)  # fmt: skip

METRICS: dict[str, Metric] = {m.name: m for m in (*_SERVER, *_GPUS, *_OWN)}


def of_prefix(prefix: str) -> tuple[Metric, ...]:
    return tuple(m for m in METRICS.values() if m.name.startswith(prefix))
