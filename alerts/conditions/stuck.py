"""Servers that hang while they still answer, told by the rhythm of their tables."""

from __future__ import annotations

from alerts.burn import MINUTE
from alerts.conditions.condition import Condition, Limit
from alerts.conditions.expression import Expression, Match, Merged, Now, Over, Rise
from alerts.conditions.sentence import Sentence
from alerts.conditions.servers import STICKS_WHEN_IDLE, TARGET, finished
from exporters.rhythm import COUNTED_AT_FINISH, TokenTiming
from exporters.schema import IDENTITY, Scope
from exporters.tables import FRONTENDS

LIVE = tuple(sorted(name for name, f in FRONTENDS.items() if f.rhythm.token_timing is TokenTiming.LIVE))
_RUNNING, _WAITING, _TOKENS = "llm_requests_running", "llm_requests_waiting", "llm_generation_tokens_total"
_LATE = Now("llm_field_info", (Match("field", (_TOKENS,)), Match("reason", (COUNTED_AT_FINISH,), "holds")))
JUDGED_LIVE = (
    Now("llm_server_info", (Match("frontend", LIVE),)).unless(STICKS_WHEN_IDLE, on=TARGET).unless(_LATE, on=TARGET)
)
_MAY_WAIT_FOR_EVER = Now("llm_field_info", (Match("field", (_WAITING,)),))
"""Where the queue is not told exactly, some servers show one while they are idle."""
_ANSWERS = Now("llm_probe_success").equal(1)
_ASLEEP = Now("llm_server_state", (Match("state", ("sleeping",)),))
_NOT_SERVING = Now("llm_server_state", (Match("state", ("draining", "sleeping", "starting")),))

_UNHEALTHY = Now("inferwatch_finding", (Match("reason", ("unhealthy",)),))

_STILL = Limit("no token, over", 2 * MINUTE, "seconds", "longer than any gauge of these servers is old (30 s)")
_GROWS = Limit(
    "where the queue is not told exactly, longer than before, over", 5 * MINUTE, "seconds",
    "some servers show for ever what waited once",
)  # fmt: skip
_HANGS = Limit("for", 5 * MINUTE, "seconds", "the prefill of the longest prompts shows no token for a minute or two")


def _standing_still(work: Expression, progress: Expression) -> Expression:
    """A server that sleeps keeps its page, and some their gauges."""
    still = work.where(progress.equal(0))
    return still.unless(_ANSWERS, on=TARGET).unless(_ASLEEP, on=TARGET)


def _waiting() -> Expression:
    """At a server that hung while it was idle: it takes nothing in of what comes."""
    waiting = Now(_WAITING)
    grows = waiting.above(Over("max", _WAITING, _GROWS.seconds, ago=_GROWS.seconds))
    return waiting.above(0).unless(_MAY_WAIT_FOR_EVER, on=TARGET).otherwise(grows)


def _waiting_unhealthy() -> Expression:
    """A full queue no longer grows, and what its server then says of itself is no second alert."""
    return Now(_WAITING).above(0).where(_UNHEALTHY, on=TARGET)


def _hanging() -> Expression:
    generated = Rise(_TOKENS, _STILL.seconds)
    work = Now(_RUNNING).above(0).otherwise(_waiting()).otherwise(_waiting_unhealthy())
    hanging = _standing_still(work, generated).unless(Rise("llm_prompt_tokens_total", _STILL.seconds).above(0))
    return hanging.where(JUDGED_LIVE, on=TARGET)


def _probed() -> Expression:
    failed = Now("llm_probe_success").equal(0).where(Now("llm_up").equal(1), on=TARGET)
    return failed.unless(_NOT_SERVING, on=TARGET)


def _says_so() -> Expression:
    """By its health: some try a token for it, and all know when their engine is dead. While tokens come it is busy."""
    unhealthy = Now("llm_up").equal(1).where(_UNHEALTHY, on=TARGET).unless(_NOT_SERVING, on=TARGET)
    return unhealthy.unless(Rise(_TOKENS, _STILL.seconds).above(0), on=TARGET).unless(_ANSWERS, on=TARGET)


STUCK = Condition(
    name="ServerStuck",
    severity="page",
    meaning="The server answers HTTP, but makes no tokens or fails its health check: requests run or wait in vain, the "
    "synthetic request fails, or its health answers an error or nothing.",
    summary=Sentence(
        "{server} on {node} answers HTTP, but makes no tokens or fails its health check, all the time or now and then"
    ),
    first="take it out of the load balancer and restart it; where a GPU of its node had an error, drain the node.",
    expression=_hanging().otherwise(_probed().otherwise(_says_so()).unless(_hanging(), on=TARGET)),
    after=7 * MINUTE,
    limits=(_STILL, _GROWS),
    hold=_HANGS,
    keep=Limit("kept firing after it", 5 * MINUTE, "seconds", "a server that comes back and hangs again is one alert"),
)

_LONG = Limit("nothing finished, over", 5 * MINUTE, "seconds", "with the time below it is longer than a generation")
_USED = Limit("GPU utilisation above", 0.5, "ratio", "where the gauge sticks when idle, only a busy GPU says otherwise")


def _busy() -> Expression:
    gpu = IDENTITY[Scope.GPU]
    used = Merged("max", Now("gpu_utilization_ratio"), by=gpu)  # of copies, where two jobs scrape one sidecar
    return Merged("max", Now("gpu_server_info").times(used, on=gpu), by=TARGET).above(_USED.value)


def _unknown() -> Expression:
    """By server and model, as `finished` is."""
    running, waiting, tokens = (
        Merged("sum", each, without=("engine",)) for each in (Now(_RUNNING), _waiting(), Rise(_TOKENS, _LONG.seconds))
    )
    runs = running.above(0).unless(STICKS_WHEN_IDLE.unless(_busy(), on=TARGET), on=TARGET)
    still = _standing_still(runs.otherwise(waiting), tokens.otherwise(finished(_LONG.seconds)))
    return still.unless(JUDGED_LIVE, on=TARGET)


PROGRESS_UNKNOWN = Condition(
    name="ProgressUnknown",
    severity="ticket",
    meaning="Requests run or wait and none finishes, at a server that counts only then: it hangs, or works on long "
    "ones.",
    summary=Sentence(
        "Nothing has finished at {server} on {node} for half an hour while requests run or wait: it may hang"
    ),
    first="send it a request of a few tokens: where no answer comes, it hangs.",
    expression=_unknown(),
    after=35 * MINUTE,
    limits=(_LONG, _GROWS, _USED),
    hold=Limit("for", 30 * MINUTE, "seconds", "no usual generation takes longer"),
)

STILL = (STUCK, PROGRESS_UNKNOWN)
