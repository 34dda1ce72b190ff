"""How many requests a server works off: by the terms of the queueing model, with a batch that stays as it is."""

from __future__ import annotations

from random import Random
from statistics import fmean

from demo.pace import PACES
from demo.server import Spec, scaled
from demo.workload import Mix

_DRAWN = 500
"""Requests whose mean lengths are taken for those of all."""
_ROOM = 0.75
"""Of the largest batch: with more at once requests would have to wait."""


def at_full_batch(spec: Spec, mix: Mix) -> float:
    """Requests per second that it works off at most. It is rather less: prefixes are taken to be found always."""
    return _rate(spec, mix, None)


def with_so_many(spec: Spec, mix: Mix, at_once: int) -> float:
    """Requests per second of which so many run at the same time in each engine, or as many as have room."""
    return _rate(spec, mix, at_once)


def _rate(spec: Spec, mix: Mix, at_once: int | None) -> float:
    """A request takes a step for each token, and computes its own part of the prompt."""
    chance, limits, pace = Random(mix.name), spec.limits, scaled(PACES[spec.framework], spec.slowness)
    drawn = [mix.request(n, 0.0, chance) for n in range(_DRAWN)]
    shared = fmean(r.prefix_tokens for r in drawn) if limits.prefix_caching else 0.0
    prompt = fmean(r.prompt_tokens for r in drawn) - shared
    output = 1.0 if spec.role == "prefill" else fmean(r.output_tokens for r in drawn)
    held = prompt + output / 2
    largest = min(limits.running, limits.kv_tokens / held)
    running = largest if at_once is None else min(at_once, _ROOM * largest)
    step = pace.step(max(1, round(running)), running * held, 0)
    return spec.engines * running / (output * step + running * prompt * pace.prefill)
