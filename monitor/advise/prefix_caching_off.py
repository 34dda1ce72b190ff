from __future__ import annotations

from alerts.conditions.condition import Limit
from alerts.conditions.servers import LOOKED_UP, WORTH
from exporters.flags import Purpose
from monitor.advise.model import Change, Confidence, Finding, Missing
from monitor.advise.rule import Judged, Rule, lacks
from monitor.advise.world import HIT, PROMPTED, QUERIED, Server, World

NAME = "prefix_caching_off"
REPEATED = Limit(
    "hit ratio at the other server, above", WORTH.value, "ratio", "with less a cache saves hardly anything"
)


def _judge(world: World) -> Judged:
    for server in world.servers:
        if is_off(server) is False or not server.total(PROMPTED):
            continue
        needs = (PROMPTED,) if is_off(server) else (PROMPTED, HIT)
        told = lacks(server, needs) or _of(world, server)
        yield Missing(NAME, told, (server.target,)) if isinstance(told, str) else told


def is_off(server: Server) -> bool | None:
    """None where neither the server nor its counters tell."""
    said = server.facts.get("prefix_caching")
    if said:
        return said == "false"
    return False if server.total(HIT) else None


def hit_ratio(server: Server) -> float | None:
    looked_up = server.total(QUERIED)
    return None if looked_up is None or looked_up < LOOKED_UP.value else server.ratio(HIT, QUERIED)


def _of(world: World, server: Server) -> Finding | str:
    others = [(ratio, o) for o in world.servers if o.model == server.model and (ratio := hit_ratio(o)) is not None]
    ratio, other = max(others, key=lambda each: each[0], default=(0.0, server))
    if ratio <= REPEATED.value:
        return "whether prompts repeat: another server of the model with prefix caching on, or this one for an hour"
    is_said = is_off(server) is True
    return Finding(
        name=NAME,
        target=server.target,
        text=f"{server.target.name} computes prompts anew that other servers of {server.model} find in their cache.",
        evidence=(
            world.evidence(other, f"hit ratio at {other.target.name}", HIT, ratio, "ratio", list(other.of(HIT))),
            world.evidence(
                server, "prompt tokens computed", PROMPTED, server.total(PROMPTED) or 0.0, "tokens",
                list(server.of(PROMPTED)),
            ),
        ),
        confidence=Confidence.MEDIUM if is_said else Confidence.LOW,
        why="the server says that it is off; that its prompts are like those of the other is assumed"
        if is_said
        else "the server does not say whether it is on, only that nothing was found; its prompts may differ",
        seconds=server.seconds(PROMPTED),
        change=_change(server),
    )  # fmt: skip


def _change(server: Server) -> Change | None:
    flags = server.flags(Purpose.PREFIX_CACHING)
    return Change(flags, "switch on", "off" if is_off(server) else "") if flags else None


RULE = Rule(
    name=NAME,
    title="Prefix caching off although prompts repeat",
    meaning="The server keeps no prefixes, and at another server of the same model prompts begin alike.",
    limits=(REPEATED, LOOKED_UP),
    needs=(PROMPTED,),
    judge=_judge,
)
