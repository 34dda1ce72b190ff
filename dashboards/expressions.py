"""What panels ask: numbers of the schema under the dashboard's choices, put together with `alerts/promql.py`.

Copies of a series that differ in other labels alone (two scrapes of one sidecar) are one. Rates look back over
`$__rate_interval`, so that they hold whatever the scrape interval and the time range are.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts import promql
from exporters import schema
from exporters.schema import IDENTITY, METRICS, Scope

TARGET, ENGINE, GPU = ("node", "server"), IDENTITY[Scope.ENGINE], ("node", "uuid")
GROUP = ("framework", "role")
"""Prefill and decode servers do not measure the same thing: they are never added up."""
INTERVAL, RANGE = "__rate_interval", "__range"
P50, P99 = schema.QUANTILES
_CHOICES = {
    Scope.TARGET: ("node", "server"),
    Scope.ENGINE: ("node", "server", "framework", "model", "role"),
    Scope.GPU: ("node",),
    Scope.SELF: ("node",),
}
_PARTS = {"_bucket": ("le",), "_sum": (), "_count": ()}


def chosen(metric: str, *more: promql.Matcher) -> str:
    """The series of a metric, or of a part of a histogram, that the variables above the dashboard choose."""
    of = _metric(metric)[0]
    return promql.series(metric, *(promql.matching(name, f"${name}") for name in _CHOICES[of.scope]), *more)


def _metric(name: str) -> tuple[schema.Metric, tuple[str, ...]]:
    """With the labels that this part of it has beside."""
    for part, labels in _PARTS.items():
        if (of := METRICS.get(name.removesuffix(part))) and of.type is schema.Type.HISTOGRAM and name.endswith(part):
            return of, labels
    return METRICS[name], ()


def _each(metric: str, of: str) -> str:
    """Each series once."""
    found, more = _metric(metric)
    labels = dict.fromkeys((*_identity(found), *found.labels, *more))
    return promql.aggregate("max", tuple(labels), of)


def _identity(metric: schema.Metric) -> tuple[str, ...]:
    return IDENTITY[metric.scope]


def gauge(metric: str, *more: promql.Matcher) -> str:
    return _each(metric, chosen(metric, *more))


def rate(metric: str, *more: promql.Matcher) -> str:
    """Per second."""
    return _each(metric, promql.call("rate", promql.within(chosen(metric, *more), INTERVAL)))


def increase(metric: str, *more: promql.Matcher, over: str = INTERVAL) -> str:
    return _each(metric, promql.call("increase", promql.within(chosen(metric, *more), over)))


def of_chosen(of: str) -> str:
    """A number of servers, without those whose framework, model or role is not chosen, and that are only there as one
    on another host has their name. Those that never said what they are stay.
    """
    known, fitting = (
        promql.call("last_over_time", promql.within(promql.series("llm_server_info", *matchers), RANGE))
        for matchers in (
            [promql.matching(name, f"${name}") for name in names]
            for names in (TARGET, (*TARGET, "framework", "model", "role"))
        )
    )
    return promql.binary(of, "unless", promql.binary(known, "unless", fitting, on=TARGET), on=TARGET)


def if_any(of: str) -> str:
    """For bars of what seldom happens: kinds of it that never do need no place in a legend."""
    return promql.binary(of, ">", "0")


def none_of_any(of: str) -> str:
    """0 at moments at which it is known of some kind, and happened of none."""
    return promql.binary(promql.binary(max_by((), of), "*", "0"), "unless", if_any(of), on=())


def sum_by(by: Sequence[str], of: str) -> str:
    return promql.aggregate("sum", by, of)


def max_by(by: Sequence[str], of: str) -> str:
    return promql.aggregate("max", by, of)


def min_by(by: Sequence[str], of: str) -> str:
    return promql.aggregate("min", by, of)


def count_by(by: Sequence[str], of: str) -> str:
    return promql.aggregate("count", by, of)


def median_by(by: Sequence[str], of: str) -> str:
    return promql.aggregate_with("quantile", "0.5", by, of)


def per(a: str, b: str, on: Sequence[str] | None = None) -> str:
    """Nothing where there is nothing to divide by."""
    return promql.binary(a, "/", promql.binary(b, ">", "0"), on=on)


def holds(of: str, comparison: str, value: float) -> str:
    """1 or 0."""
    return promql.binary(of, f"{comparison} bool", promql.number(value))


def none_as_zero(of: str, where: str) -> str:
    """0 where nothing was found among what there is: not where nothing is known."""
    return promql.first_of(of, promql.binary(where, "*", "0"))


def n_of_m(value: str, n: str, m: str) -> str:
    """A single value, with the labels `n` and `m`: of how many it tells, and how many there are."""
    first, second = (promql.aggregate_with("count_values", f'"{name}"', (), of) for name, of in (("n", n), ("m", m)))
    both = promql.binary(first, "*", second, on=(), group="left", bring=("m",))
    return promql.binary(value, "*", both, on=(), group="left", bring=("n", "m"))


# Ratios


def kv_mean(by: Sequence[str]) -> str:
    """Weighted by capacity, over the engines that tell theirs."""
    used, capacity = gauge("llm_kv_cache_utilization_ratio"), gauge("llm_kv_cache_capacity_tokens")
    weighed = promql.binary(capacity, "and", used)
    return promql.binary(sum_by(by, promql.binary(used, "*", capacity)), "/", sum_by(by, weighed))


def kv_mean_of_all() -> str:
    used, capacity = gauge("llm_kv_cache_utilization_ratio"), gauge("llm_kv_cache_capacity_tokens")
    n, m = count_by((), promql.binary(used, "and", capacity)), count_by((), used)
    return n_of_m(kv_mean(()), n, m)


def hit_ratio(by: Sequence[str]) -> str:
    """From counters: hits by look-ups, of whoever counts both."""
    hits, queries = (rate(f"llm_prefix_cache_{kind}_tokens_total") for kind in ("hit", "query"))
    return per(sum_by(by, promql.binary(hits, "and", queries)), sum_by(by, queries))


# Tokens


def prompt_tokens(by: Sequence[str]) -> str:
    """Per second, counted where prompts are worked on: a decode server sees them again."""
    return sum_by(by, rate("llm_prompt_tokens_total", promql.none_of("role", ("decode",))))


def generated_tokens(by: Sequence[str]) -> str:
    """Per second, without the one that a prefill server makes."""
    return sum_by(by, rate("llm_generation_tokens_total", promql.none_of("role", ("prefill",))))


def all_tokens(by: Sequence[str]) -> str:
    return promql.binary(prompt_tokens(by), "+", generated_tokens(by))


# Requests


def finished(by: Sequence[str]) -> str:
    """Per second. A request that ends well at a prefill server goes on at a decode server, and ends there."""
    of = "llm_requests_finished_total"
    elsewhere, badly = promql.none_of("role", ("prefill",)), promql.none_of("reason", ("stop", "length"))
    return sum_by(by, promql.first_of(rate(of, elsewhere), rate(of, badly)))


# Latency


def quantile(q: float, phase: str, by: Sequence[str], *more: promql.Matcher) -> str:
    """An estimate over the shared grid; not where the rank lies beyond the servers' own bounds."""
    return promql.binary(_estimate(q, phase, by, *more), "unless", _beyond(q, phase, by, *more), on=by)


def at_least(q: float, phase: str, by: Sequence[str]) -> str:
    """Where the rank lies beyond the servers' own bounds: the smallest of their largest bounds is all that is known."""
    of_phase = promql.equals("phase", phase)
    bounds = gauge("llm_latency_native_max_seconds", of_phase)
    exceeded = promql.binary(increase("llm_latency_overflow_total", of_phase), ">", "0")
    largest = promql.binary(bounds, "and", exceeded, on=ENGINE)
    return promql.binary(min_by(by, largest), "and", _beyond(q, phase, by), on=by)


def _estimate(q: float, phase: str, by: Sequence[str], *more: promql.Matcher) -> str:
    buckets = sum_by((*by, "le"), rate(f"{schema.PHASES[phase].metric}_bucket", *more))
    return promql.call("histogram_quantile", promql.number(q), buckets)


def _beyond(q: float, phase: str, by: Sequence[str], *more: promql.Matcher) -> str:
    overflow = sum_by(by, rate("llm_latency_overflow_total", promql.equals("phase", phase), *more))
    every = sum_by(by, rate(f"{schema.PHASES[phase].metric}_count", *more))
    return promql.binary(promql.binary(overflow, "/", every), ">", promql.number(round(1 - q, 6)))


def mean(phase: str, by: Sequence[str]) -> str:
    """Of observations, never of averages."""
    total, count = (sum_by(by, rate(f"{schema.PHASES[phase].metric}{part}")) for part in ("_sum", "_count"))
    return per(total, count)


# GPUs


def of_servers(of: str) -> str:
    """Only the GPUs that the chosen servers run on."""
    return promql.binary(of, "and", _running(GPU), on=GPU)


def by_server(of: str) -> str:
    """A number of GPUs summed for each server: one that several share counts at each of them."""
    return sum_by(TARGET, promql.binary(_running((*GPU, "server")), "*", max_by(GPU, of), on=GPU, group="left"))


def gpus_of_servers() -> str:
    return count_by(TARGET, _running((*GPU, "server")))


def _running(by: Sequence[str]) -> str:
    return max_by(by, promql.series("gpu_server_info", *(promql.matching(n, f"${n}") for n in TARGET)))


def gpu_watts() -> str:
    """From the energy counter, as the power gauge is one moment; from the gauge where a GPU has no counter."""
    return promql.first_of(rate("gpu_energy_joules_total"), gauge("gpu_power_watts"))
