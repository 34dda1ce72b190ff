"""The settings of servers by what they are for: a part of a server's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from exporters.wire import parse_version


class Purpose(StrEnum):
    BATCH = "batch"
    """The largest batch."""
    KV_MEMORY = "kv_memory"
    """How much of a GPU's memory the KV cache gets."""
    PREFIX_CACHING = "prefix_caching"
    STATISTICS = "statistics"
    CONTEXT = "context"
    """Prompt and output of one request."""
    PREFILL = "prefill"
    """Tokens that one step computes at most."""
    BLOCK = "block"
    """Tokens of a KV block: only whole blocks are found again."""
    SPECULATION = "speculation"


@dataclass(frozen=True, slots=True)
class Flag:
    """`name` is as people write it; several that go together are separated by ", ".

    `since` is the first release that has it, `before` the first that has it no more; "" is not limited. `default` is
    said in words, "" where it depends on the model or the GPU. One that is `off` switches off what it is for.
    """

    name: str
    since: str = ""
    before: str = ""
    default: str = ""
    off: bool = False

    @property
    def releases(self) -> str:
        """In words."""
        ends = (("since", self.since), ("before", self.before))
        return ", ".join(f"{end} {release}" for end, release in ends if release)

    def is_of(self, version: str) -> bool:
        at = parse_version(version)
        return not (
            (self.since and at < parse_version(self.since)) or (self.before and at >= parse_version(self.before))
        )


Flags = Mapping[Purpose, Sequence[Flag]]
"""The newest first."""


def flags_of(flags: Flags, purpose: Purpose, version: str) -> list[Flag]:
    """That of a release, or all where the release is not known: the newest first."""
    known = flags.get(purpose, ())
    return [flag for flag in known if flag.is_of(version)] if parse_version(version) else list(known)
