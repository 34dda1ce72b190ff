from __future__ import annotations

from alerts.conditions.condition import Limit
from exporters.flags import Purpose
from monitor.advise.model import Change, Confidence, Finding, Missing
from monitor.advise.rule import Judged, Rule, confidence, lacks
from monitor.advise.world import ACCEPTED, DRAFTED, Server, World

NAME = "speculation_loses"
ACCEPTANCE = Limit(
    "drafted tokens accepted, below", 0.3, "ratio",
    "drafting and checking cost more than three of ten tokens save, once the batch is not tiny",
)  # fmt: skip
HARDLY = Limit("and certainly a loss below", 0.1, "ratio", "then nearly every draft is thrown away")
COUNTED = Limit("tokens drafted, at least", 10_000, "tokens", "fewer are a few answers")


def _judge(world: World) -> Judged:
    """A server without drafts speculates not; most do not, and that is nothing to tell."""
    for server in world.servers:
        if server.total(DRAFTED):
            told = lacks(server, (DRAFTED, ACCEPTED)) or _of(world, server)
            if told:
                yield Missing(NAME, told, (server.target,)) if isinstance(told, str) else told


def _of(world: World, server: Server) -> Finding | str | None:
    drafted, accepted = server.total(DRAFTED) or 0.0, server.ratio(ACCEPTED, DRAFTED) or 0.0
    if drafted < COUNTED.value:
        return f"{COUNTED.shown} drafted; there are {drafted:.0f}"
    if accepted >= ACCEPTANCE.value:
        return None
    best = Confidence.HIGH if accepted < HARDLY.value else Confidence.MEDIUM
    sure, why = confidence(server, [DRAFTED, ACCEPTED], best, "what a draft costs depends on the drafting model")
    starts = list(server.of(DRAFTED))
    return Finding(
        name=NAME,
        target=server.target,
        text=f"{server.target.name} throws most of its drafted tokens away: speculation costs more than it saves.",
        evidence=(
            world.evidence(server, "drafted tokens accepted", ACCEPTED, accepted, "ratio", starts),
            world.evidence(server, "tokens drafted", DRAFTED, drafted, "tokens", starts),
        ),
        confidence=sure,
        why=why,
        seconds=server.seconds(DRAFTED),
        change=_change(server),
        instead="Or fewer tokens per draft, or a drafting model that is nearer to this one.",
    )


def _change(server: Server) -> Change | None:
    flags = server.flags(Purpose.SPECULATION)
    return Change(flags, "switch off") if flags else None


RULE = Rule(
    name=NAME,
    title="Speculation that loses",
    meaning="Few of the drafted tokens are accepted.",
    limits=(ACCEPTANCE, HARDLY, COUNTED),
    needs=(DRAFTED, ACCEPTED),
    judge=_judge,
)
