from __future__ import annotations

import math

from alerts.conditions.servers import LOOKED_UP
from exporters.flags import Flag, Purpose
from monitor.advise.model import Change, Confidence, Finding
from monitor.advise.prefix_caching_off import is_off
from monitor.advise.rule import Rule, confidence, each_server
from monitor.advise.world import HIT, PROMPT_P90, QUERIED, Server, World

NAME = "prompts_below_block"


def block_size(server: Server) -> tuple[int, bool] | None:
    """In tokens, and whether the server says so itself; else it is its release's default."""
    said = server.facts.get("block_size", "")
    if said.isdecimal():
        return int(said), True
    default = next((flag.default for flag in server.flags(Purpose.BLOCK) if flag.default), "")
    return (int(default), False) if default else None


def _judge(world: World, server: Server) -> Finding | str | None:
    if is_off(server):
        return None
    if (server.total(QUERIED) or 0.0) < LOOKED_UP.value:
        return f"{LOOKED_UP.shown} looked up in the prefix cache"
    if server.total(HIT):
        return None
    block = block_size(server)
    if block is None:
        return "the size of its KV blocks, which the server does not tell"
    longest = _nearly_longest(server)
    if longest > block[0]:
        return None
    best, why = Confidence.HIGH, f"the server says that a block holds {block[0]} tokens"
    if not block[1]:
        best, why = Confidence.MEDIUM, f"a block is taken to hold {block[0]} tokens, the default"
    sure, why = confidence(server, [QUERIED, HIT, PROMPT_P90], best, why)
    return Finding(
        name=NAME,
        target=server.target,
        text=f"Nothing is found in the prefix cache of {server.target.name}: nearly all prompts are shorter than a "
        f"block of {block[0]} tokens, and only whole blocks are found again.",
        evidence=(
            world.evidence(server, "hit tokens", HIT, 0.0, "tokens", list(server.of(HIT))),
            world.evidence(server, "P90 of prompt length, at most", PROMPT_P90, longest, "tokens",
                           list(server.of(PROMPT_P90))),
        ),
        confidence=sure,
        why=why,
        seconds=server.seconds(QUERIED),
        change=_change(server.flags(Purpose.BLOCK), block[0]),
        instead="With prompts as short as this there is little to save: it is no fault of the cache.",
    )  # fmt: skip


def _nearly_longest(server: Server) -> float:
    """What nine of ten prompts were certainly not longer than, in each step."""
    points = server.of(PROMPT_P90).values()
    return max(math.inf if point.upper is None else point.upper for point in points)


def _change(flags: tuple[Flag, ...], block: int) -> Change | None:
    """Blocks of the default size are as small as a release likes them."""
    larger = [flag for flag in flags if not flag.default or block > int(flag.default)]
    return Change(tuple(larger), "lower", f"{block}") if larger else None


RULE = Rule(
    name=NAME,
    title="Prompts shorter than a block",
    meaning="The hit ratio is 0 because prompts do not fill one KV block.",
    limits=(LOOKED_UP,),
    needs=(QUERIED, HIT, PROMPT_P90),
    judge=each_server(NAME, (QUERIED, HIT, PROMPT_P90), _judge),
)
