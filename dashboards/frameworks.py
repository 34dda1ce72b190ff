"""The frameworks side by side: what each makes of the load that it has."""

from __future__ import annotations

from collections.abc import Callable

from alerts import promql
from alerts.reference import FIRST_TOKEN_P99_SECONDS, SETTING, TOKENS_PER_SECOND, Figures, name_of
from dashboards import expressions as ask
from dashboards import parts, reference
from dashboards.model import (
    BarChart,
    Colour,
    Column,
    Dashboard,
    Look,
    Query,
    Row,
    Scatter,
    Table,
    Text,
    TimeSeries,
    Unit,
    Variable,
)
from exporters.schema import FRAMEWORKS

_SERVER = ("node", "server", "framework")
_BY = ("framework",)
_UNIFIED = promql.equals("role", "unified")
_REFERENCE = Variable("reference", "Reference estimates", options=(("shown", "1"), ("hidden", "0")))
_OF_REFERENCES = {
    "vllm": Colour.SKY, "sglang": Colour.YELLOW, "lmdeploy": Colour.GREY, "tensorrt_llm": Colour.RED,
}  # fmt: skip
_LOOKS = (
    *(Look(f"^{name}$", colour) for name, colour in parts.OF_FRAMEWORKS.items()),
    *(Look(f"^{name_of(name)}$", colour) for name, colour in _OF_REFERENCES.items()),
)
_ONLY_UNIFIED = "Servers that both prefill and decode; others have no concurrency of their own to compare."
_BANDS = (16, 32, 64, 128)


def _tokens(*more: promql.Matcher) -> str:
    """Prompt and generated, of each server."""
    prompt, generated = (
        ask.sum_by(_SERVER, ask.rate(f"llm_{kind}_tokens_total", _UNIFIED, *more)) for kind in ("prompt", "generation")
    )
    return promql.binary(prompt, "+", generated)


def _first_token(*more: promql.Matcher) -> str:
    return ask.quantile(ask.P99, "ttft", _SERVER, _UNIFIED, *more)


_CONCURRENCY = ask.sum_by(_SERVER, ask.gauge("llm_requests_running", _UNIFIED))
_BUSY = promql.binary(_CONCURRENCY, ">", "0")


def _against_concurrency(live: Callable[[promql.Matcher], str], figures: Figures) -> tuple[Query, ...]:
    """What runs at each server, then what it makes of it, framework by framework, and what the reference says."""
    return (
        Query(promql.first_of(_BUSY, reference.points())),
        *(Query(live(promql.equals("framework", name)), name) for name in FRAMEWORKS),
        *(Query(reference.points(figures, [name]), name_of(name)) for name in FRAMEWORKS),
    )


def _in_band(at_once: int) -> str:
    """Tokens per second of a server in the minutes in which so many requests ran, each minute of each server alike."""
    low, high = (promql.number(round(at_once * 2**half, 1)) for half in (-0.5, 0.5))
    held = promql.binary(promql.binary(_CONCURRENCY, ">=", low), "<", high)
    minutes = promql.each(promql.binary(_tokens(), "and", held), ask.RANGE, 60)
    made, counted = (ask.sum_by(_BY, promql.call(f"{f}_over_time", minutes)) for f in ("sum", "count"))
    return promql.labelled(promql.binary(made, "/", counted), "at_once", reference.band_name(at_once))


def _bands() -> str:
    live = promql.first_of(*map(_in_band, _BANDS))
    figures = ask.max_by(("framework", "at_once"), reference.points(TOKENS_PER_SECOND))
    return promql.first_of(live, figures)


_AGAINST = (
    Scatter(
        title="Tokens per second against concurrency",
        description="Prompt and generated tokens of each server against the requests that it runs, at each moment "
        f"that is shown. {_ONLY_UNIFIED} {SETTING}",
        unit=Unit.NUMBER,
        queries=_against_concurrency(_tokens, TOKENS_PER_SECOND),
        x_title="Requests at once",
        y_title="Tokens/s",
        looks=_LOOKS,
        width=12,
        height=11,
        minimum=0,
    ),
    Scatter(
        title="P99 of the time to first token against concurrency",
        description="Of each server, against the requests that it runs. What lies beyond a server's own buckets is "
        f"not drawn. {_ONLY_UNIFIED} {SETTING}",
        unit=Unit.SECONDS,
        queries=_against_concurrency(_first_token, FIRST_TOKEN_P99_SECONDS),
        x_title="Requests at once",
        y_title="TTFT P99",
        looks=_LOOKS,
        width=12,
        height=11,
        minimum=0,
    ),
    BarChart(
        title="Tokens per second at about so many requests at once",
        description="Mean prompt and generated tokens per second of a server in the minutes that are shown and in "
        f"which about so many requests ran there (up to √2 more or less). {_ONLY_UNIFIED} {SETTING}",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(Query(_bands()),),
        category="at_once",
        series_by="framework",
        looks=_LOOKS,
        width=16,
        height=10,
        minimum=0,
    ),
    Text(
        title="What the reference is",
        description="Where the reference estimates come from, and how they are read.",
        content=f"{SETTING}\n\nOther models, GPUs or lengths of prompts give other figures: compare with "
        "them only what is alike. Live numbers are of whatever your servers really do.",
        width=8,
        height=10,
    ),
)

_GPUS = ask.gpus_of_servers()
_FRAMEWORK_OF = ask.max_by(_SERVER, ask.gauge("llm_server_info", _UNIFIED))


def _of_gpus(number: str) -> str:
    """A number of each server's GPUs, summed by framework."""
    return ask.sum_by(_BY, promql.binary(_FRAMEWORK_OF, "*", number, on=ask.TARGET, group="left"))


def _where_known(of: str, number: str) -> str:
    return ask.sum_by(_BY, promql.binary(of, "and", number, on=ask.TARGET))


_ENERGY = ask.by_server(ask.gpu_watts())
_WHO_HAS = (
    "Of the servers that both prefill and decode and whose GPUs are known; a GPU that several share counts at each of "
    "them."
)
_EACH = (
    TimeSeries(
        title="Tokens per second and GPU",
        description=f"Prompt and generated tokens per second by GPUs. {_WHO_HAS}",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(Query(ask.per(_where_known(_tokens(), _GPUS), _of_gpus(_GPUS)), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
    ),
    TimeSeries(
        title="Requests per GPU",
        description=f"Requests that run by GPUs: what the numbers beside stand for. {_WHO_HAS}",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(ask.per(_where_known(_CONCURRENCY, _GPUS), _of_gpus(_GPUS)), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
    ),
    TimeSeries(
        title="Tokens per joule",
        description=f"Prompt and generated tokens by the energy of the GPUs. {_WHO_HAS}",
        unit=Unit.NUMBER,
        axis="tokens/J",
        queries=(Query(ask.per(_where_known(_tokens(), _ENERGY), _of_gpus(_ENERGY)), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
    ),
)


def _in_range(metric: str, by: tuple[str, ...] = _BY) -> str:
    return ask.sum_by(by, ask.increase(metric, _UNIFIED, over=ask.RANGE))


def _per_range_second(metric: str) -> str:
    return promql.binary(_in_range(metric), "/", promql.variable("__range_s"))


def _p99_in_range(metric: str) -> str:
    return promql.call("histogram_quantile", promql.number(ask.P99), _in_range(f"{metric}_bucket", (*_BY, "le")))


_SIDE_BY_SIDE = (
    Table(
        title="Side by side",
        description="Each framework over the time that is shown, of the servers that both prefill and decode. "
        "Percentiles are estimates over the shared grid; definitions of latencies differ, "
        "docs/reference/definitions.md says how.",
        queries=(
            Query(ask.count_by(_BY, _FRAMEWORK_OF)),
            Query(_per_range_second("llm_prompt_tokens_total")),
            Query(_per_range_second("llm_generation_tokens_total")),
            Query(_p99_in_range("llm_time_to_first_token_seconds")),
            Query(_p99_in_range("llm_inter_token_latency_seconds")),
            Query(_p99_in_range("llm_request_duration_seconds")),
            Query(
                ask.per(
                    _in_range("llm_prefix_cache_hit_tokens_total"), _in_range("llm_prefix_cache_query_tokens_total")
                )
            ),
        ),
        columns=(
            Column("framework", "Framework"),
            Column("A", "Servers now", Unit.NUMBER),
            Column("B", "Prompt tokens/s", Unit.NUMBER),
            Column("C", "Generated tokens/s", Unit.NUMBER),
            Column("D", "TTFT P99", Unit.SECONDS),
            Column("E", "Between tokens P99", Unit.SECONDS),
            Column("F", "Request P99", Unit.SECONDS),
            Column("G", "Prefix hits", Unit.RATIO),
        ),
        sort_by="Framework",
        width=24,
        height=6,
    ),
)


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.FRAMEWORKS,
        title="inferwatch / Frameworks",
        description="vLLM, SGLang, LMDeploy and TensorRT-LLM side by side, from what your servers do now.",
        variables=(*parts.CHOICES, _REFERENCE),
        links=(parts.ALL_DASHBOARDS,),
        rows=(
            Row("Against concurrency", _AGAINST),
            Row("Per GPU and per joule", _EACH),
            Row("Side by side", _SIDE_BY_SIDE),
            Row("Latency", tuple(parts.latency(phase) for phase in ("ttft", "itl", "e2e"))),
        ),
    )
