"""What a comparison is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

BY_VERSION = "version"
"""The split at each server's newest change of version."""


class By(StrEnum):
    """What is told apart beside framework, model, type of GPU and role."""

    VERSION = "version"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one GPU for an hour: for each type, or one for all types without their own."""

    by_type: Mapping[str, float] = field(default_factory=dict)
    of_any: float | None = None
    currency: str = ""

    def of(self, gpu: str) -> float | None:
        return self.by_type.get(gpu, self.of_any) if gpu else None


NO_PRICES = Prices()


@dataclass(frozen=True, slots=True)
class Asked:
    """Moments are unix seconds. `split` is `BY_VERSION`, a moment, or None. An empty `model` is all models."""

    since: int
    until: int
    model: str = ""
    by: By | None = None
    matched: bool = False
    split: str | float | None = None
