"""What can be wrong with an inference server."""

from __future__ import annotations

from alerts.burn import DAY, MINUTE
from alerts.conditions.condition import Condition, Limit
from alerts.conditions.expression import Expression, Match, Merged, Now, Over, Rise, SinceUp, firing
from alerts.conditions.sentence import Sentence
from alerts.rules.known import BY_SCRAPING
from exporters.findings import OF_NOTHING
from exporters.rhythm import STICKS
from exporters.schema import IDENTITY, Scope

TARGET = IDENTITY[Scope.TARGET]
_EMPTY_BODY, _MISSING = "empty_body", "MetricsMissing"
STICKS_WHEN_IDLE = Now(
    "llm_field_info", (Match("field", ("llm_requests_running",)), Match("reason", (STICKS,), "holds"))
)
_KEPT = Limit("kept firing after it", 10 * MINUTE, "seconds", "load comes in waves: one alert, not one for each")
_A_MOMENT = Limit("for", 5 * MINUTE, "seconds", "a server that was just started has few readings to average")

_DOWN_WINDOW = Limit(
    "share of time up, over", 9 * MINUTE, "seconds",
    "a restart that loads a model takes minutes and is no alert; a crash loop, up for a moment between two crashes, is",
)  # fmt: skip
_DOWN = Limit("below", 0.49, "ratio", "and down now: most of the window, half of it is not enough")
_READ = Limit("read for", 3 * MINUTE, "seconds", "after a pause the first reading says little of the time before")
_NEVER_UP = Limit(
    "of a server that was not up for a day, known for", 15 * MINUTE, "seconds", "a new one loads its model first"
)


def _was_read(ago: Limit) -> Expression:
    return Over("last", "llm_up", _DOWN_WINDOW.seconds - _READ.seconds, ago=ago.seconds)


def _down() -> Expression:
    """Long enough by the window alone: a `for` would come on top of it, and end long after the server is back."""
    down = Now("llm_up").equal(0).where(_was_read(_READ))
    was_up = Over("max", "llm_up", DAY).above(0).otherwise(_was_read(_NEVER_UP))
    return Over("avg", "llm_up", _DOWN_WINDOW.seconds).below(_DOWN.value).where(down).where(was_up)


DOWN = Condition(
    name="ServerDown",
    severity="page",
    meaning="The server does not answer HTTP at all, or only now and then.",
    summary=Sentence("{server} on {node} is down, or up for moments only"),
    first="read the end of its log, and of the kernel's on its node (`dmesg`), then start it again.",
    expression=_down(),
    after=5 * MINUTE,
    limits=(_DOWN_WINDOW, _DOWN, _READ, _NEVER_UP),
    keep=Limit("kept firing after it", 3 * MINUTE, "seconds", "a crash loop is one alert, not one for each crash"),
)

_WAS_FULL = Limit(
    "of a page that was full since the server was down last, an empty one too, for", DAY, "seconds",
    "one that has counted nothing yet shows an empty page, and one that has does not",
)  # fmt: skip
_UNTIL_IT_FIRES = 30 * MINUTE


def _counted_nothing() -> Expression:
    empty = Now("inferwatch_finding", (Match("reason", (_EMPTY_BODY,)),))
    was_full = SinceUp("llm_metrics_available", _WAS_FULL.seconds, _UNTIL_IT_FIRES)
    emptied = empty.where(was_full, on=TARGET).otherwise(empty.where(firing(_MISSING), on=TARGET))
    return Now("inferwatch_finding", (Match("reason", tuple(sorted(OF_NOTHING))),)).unless(emptied, on=TARGET)


METRICS_MISSING = Condition(
    name=_MISSING,
    severity="ticket",
    meaning="The server answers, and its engine metrics cannot be read: nothing else is known of it.",
    summary=Sentence("{server} on {node} is up, but its metrics cannot be read"),
    first="run `inferwatch check URL`, or open the server's page of the monitor: both name the reason and the remedy.",
    expression=Now("llm_up")
    .equal(1)
    .where(Now("llm_metrics_available").equal(0))
    .unless(_counted_nothing(), on=TARGET),
    after=11 * MINUTE,
    limits=(_WAS_FULL,),
    hold=Limit("for", 10 * MINUTE, "seconds", "a server that starts answers before its engine has metrics"),
)

_SATURATED_WINDOW = Limit("mean over", 10 * MINUTE, "seconds", "a single long prompt fills the cache for a moment")
SATURATED = Limit("KV cache in use above", 0.95, "ratio", "what is left holds no further request of usual length")
QUEUED = Limit("requests waiting above", 1, "", "a full cache that nobody waits for is a cache well used")
AT_LIMIT = Limit(
    "unless running, of the largest batch, at least", 0.95, "ratio", "then they wait for a place in the batch"
)


def _of_window(metric: str) -> Expression:
    return Over("avg", metric, _SATURATED_WINDOW.seconds)


KV_SATURATED = Condition(
    name="KvCacheSaturated",
    severity="ticket",
    meaning="Requests wait because the KV cache is full.",
    summary=Sentence(
        "KV cache of {model} at {server} on {node}: {value} in use over 10 minutes while requests waited", "ratio"
    ),
    first="see whether other replicas of the model have room, and send requests there.",
    expression=_of_window("llm_kv_cache_utilization_ratio")
    .above(SATURATED.value)
    .where(_of_window("llm_requests_waiting").above(QUEUED.value))
    .where(Rise("llm_generation_tokens_total", _SATURATED_WINDOW.seconds).above(0))
    .unless(
        _of_window("llm_requests_running").at_least(_of_window("llm_requests_running_limit").times(AT_LIMIT.value))
    ),
    after=15 * MINUTE,
    limits=(_SATURATED_WINDOW, SATURATED, QUEUED, AT_LIMIT),
    hold=_A_MOMENT,
    keep=_KEPT,
)

_QUEUE_WINDOW = Limit("mean over", 10 * MINUTE, "seconds", "and the same time before it, to compare with")
_LONG = Limit("requests waiting above", 10, "", "a short queue is how batches are filled")
_GROWTH = Limit("times the mean before, above", 1.5, "", "arrivals outrun the server, it is no ripple")
QUEUE_GROWING = Condition(
    name="QueueGrowing",
    severity="ticket",
    meaning="More requests arrive than the server works off.",
    summary=Sentence("The queue of {model} at {server} on {node} grew to {value} requests"),
    first="see whether more requests arrive or fewer finish: the first wants replicas, the second has a cause.",
    expression=Now("llm_requests_waiting")
    .above(_LONG.value)
    .where(
        Over("avg", "llm_requests_waiting", _QUEUE_WINDOW.seconds).above(
            Over("avg", "llm_requests_waiting", _QUEUE_WINDOW.seconds, ago=_QUEUE_WINDOW.seconds).times(_GROWTH.value)
        )
    ),
    after=11 * MINUTE,
    limits=(_QUEUE_WINDOW, _LONG, _GROWTH),
    hold=_A_MOMENT,
    keep=_KEPT,
)

PREEMPTION_WINDOW = Limit("over", 15 * MINUTE, "seconds", "long enough that requests finish within it")
PREEMPTED = Limit(
    "preemptions per finished request, above", 0.1, "ratio", "each throws work away that is done again: a tenth shows"
)
PREEMPTIONS_COUNTED = Limit("preemptions, at least", 10, "", "fewer say nothing of the load")


def finished(seconds: int) -> Expression:
    """By server and model: some servers with several engines do not count it apart for each."""
    return Merged("sum", Rise("llm_requests_finished_total", seconds), without=("reason", "engine"))


def _preempted() -> Expression:
    return Merged("sum", Rise("llm_preemptions_total", PREEMPTION_WINDOW.seconds), without=("engine",))


PREEMPTIONS = Condition(
    name="PreemptionsFrequent",
    severity="ticket",
    meaning="Requests are thrown out of the batch and worked on again, because the KV cache is too small for the load.",
    summary=Sentence("{server} on {node}: more than one preemption for every ten finished requests of {model}"),
    first="send part of its load to other replicas; in the long run it wants a smaller batch, or more memory.",
    expression=_preempted()
    .per(finished(PREEMPTION_WINDOW.seconds))
    .above(PREEMPTED.value)
    .where(_preempted().at_least(PREEMPTIONS_COUNTED.value)),
    after=13 * MINUTE,
    limits=(PREEMPTION_WINDOW, PREEMPTED, PREEMPTIONS_COUNTED),
    hold=_A_MOMENT,
    keep=_KEPT,
)

_BEFORE = Limit("against the time before it, over", DAY, "seconds", "its own past, day and night in it")
_HIT_WINDOW = Limit("over", 30 * MINUTE, "seconds", "a cache that was emptied by a restart has filled again")
COLLAPSE = Limit("hit ratio, of that before, below", 0.5, "ratio", "half of it is no change of the hour")
WORTH = Limit("hit ratio before, above", 0.2, "ratio", "a cache that never helped cannot fail")
LOOKED_UP = Limit("tokens looked up, at least", 100_000, "tokens", "fewer are a handful of prompts")


def _hits(window: int, least: float = 0, ago: int = 0) -> Expression:
    hits = Rise("llm_prefix_cache_hit_tokens_total", window, ago=ago)
    looked_up = Rise("llm_prefix_cache_query_tokens_total", window, ago=ago)
    return hits.per(looked_up.at_least(least) if least else looked_up)


PREFIX_HITS = Condition(
    name="PrefixHitsCollapsed",
    severity="ticket",
    meaning="The prefix cache finds far less than it used to: the same prompts cost more.",
    summary=Sentence(
        "Prefix-cache hits of {model} at {server} on {node} fell to {value}, less than half of those of the day before",
        "ratio",
    ),
    first="look what changed then: the prompts, the routing, or the server (a restart, a version, a flag).",
    expression=_hits(_HIT_WINDOW.seconds, LOOKED_UP.value).below(
        _hits(_BEFORE.seconds, ago=_HIT_WINDOW.seconds).above(WORTH.value).times(COLLAPSE.value)
    ),
    after=20 * MINUTE,
    limits=(_HIT_WINDOW, _BEFORE, COLLAPSE, WORTH, LOOKED_UP),
    hold=_A_MOMENT,
    keep=_KEPT,
)

_LATENCY_WINDOW = Limit("mean over", 30 * MINUTE, "seconds", "longer than a burst; a worse one burns an SLO")
_TWICE = Limit("times the mean before, above", 2, "", "by the hour it varies less")
_ENOUGH = Limit("observations in the window, at least", 100, "", "a mean of fewer is chance")
_PAST = Limit("observations before, at least", 1000, "", "a past to compare with")
_SLOW_START = Limit("and above", 0.2, "seconds", "nobody notices what is faster")
_SLOW_TOKENS = Limit("and above", 0.02, "seconds", "nobody reads 50 tokens a second")


def _mean(metric: str, window: int, least: float, ago: int = 0) -> Expression:
    """Of requests, never of averages."""
    return Rise(f"{metric}_sum", window, ago=ago).per(Rise(f"{metric}_count", window, ago=ago).at_least(least))


def _regressed(metric: str, floor: Limit) -> Expression:
    past = _mean(metric, _BEFORE.seconds, _PAST.value, ago=_LATENCY_WINDOW.seconds)
    return _mean(metric, _LATENCY_WINDOW.seconds, _ENOUGH.value).above(floor.value).above(past.times(_TWICE.value))


FIRST_TOKEN = Condition(
    name="TimeToFirstTokenRegressed",
    severity="ticket",
    meaning="Requests wait far longer for their first token than at the same server a day before.",
    summary=Sentence(
        "Mean time to first token of {model} at {server} on {node} rose to {value}, more than twice that of the day "
        "before",
        "seconds",
    ),
    first="see on the server's page whether its queue grew, or its prompts got longer.",
    expression=_regressed("llm_time_to_first_token_seconds", _SLOW_START),
    after=15 * MINUTE,
    limits=(_LATENCY_WINDOW, _BEFORE, _TWICE, _SLOW_START, _ENOUGH, _PAST),
    hold=_A_MOMENT,
    keep=_KEPT,
)

INTER_TOKEN = Condition(
    name="InterTokenLatencyRegressed",
    severity="ticket",
    meaning="Tokens come far more slowly than at the same server a day before.",
    summary=Sentence(
        "Mean time between tokens of {model} at {server} on {node} rose to {value}, more than twice that of the day "
        "before",
        "seconds",
    ),
    first="see whether its batch is larger than before; where it is not, look at the clocks of its GPUs.",
    expression=_regressed("llm_inter_token_latency_seconds", _SLOW_TOKENS),
    after=15 * MINUTE,
    limits=(_LATENCY_WINDOW, _BEFORE, _TWICE, _SLOW_TOKENS, _ENOUGH, _PAST),
    hold=_A_MOMENT,
    keep=_KEPT,
)

_ASIDE = Match("state", ("draining", "sleeping", "starting"))
_LOAD_WINDOW = Limit("running and waiting requests, mean over", 15 * MINUTE, "seconds", "long requests even out")
APART = Limit("the busiest replica, times the idlest, above", 3, "", "less is chance, or different GPUs")
BUSY = Limit("and above", 16, "", "with less load it does not matter where it is")
OF_ONE_REPLICA = ("node", "server", "engine", *sorted(BY_SCRAPING))
"""What replicas differ in. Whatever else a fleet labels servers with tells apart what shares no load: environments,
clusters, teams."""


def _loads() -> Expression:
    load = Over("avg", "llm_requests_running", _LOAD_WINDOW.seconds).plus(
        Over("avg", "llm_requests_waiting", _LOAD_WINDOW.seconds)
    )
    return load.unless(Now("llm_server_state", (_ASIDE,)), on=IDENTITY[Scope.ENGINE])


def _busy() -> Expression:
    """What a gauge that sticks says of a server that finishes nothing is long over."""
    idle = STICKS_WHEN_IDLE.unless(finished(_LOAD_WINDOW.seconds).above(0), on=TARGET)
    return _loads().unless(idle, on=TARGET)


IMBALANCE = Condition(
    name="ReplicasImbalanced",
    severity="ticket",
    meaning="Of replicas of one model some have most of the requests, while others have few.",
    summary=Sentence(
        "The busiest replica of {model} ({framework}) had {value} requests, more than three times as many as the idlest"
    ),
    first="compare its replicas on the fleet's page, and see whether the load balancer reaches the idle one.",
    expression=Merged("max", _busy(), without=OF_ONE_REPLICA)
    .above(BUSY.value)
    .above(Merged("min", _loads(), without=OF_ONE_REPLICA).times(APART.value)),
    after=17 * MINUTE,
    limits=(_LOAD_WINDOW, APART, BUSY),
    hold=Limit("for", 10 * MINUTE, "seconds", "a replica that was just started takes its share by and by"),
    keep=_KEPT,
)

SERVERS = (
    DOWN, METRICS_MISSING, KV_SATURATED, QUEUE_GROWING, PREEMPTIONS, PREFIX_HITS, FIRST_TOKEN, INTER_TOKEN, IMBALANCE,
)  # fmt: skip
