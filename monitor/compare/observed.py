"""What the history holds of the servers that are compared. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.compare.rows import Flags, Rows
from monitor.history.packed import Ints


@dataclass(frozen=True, slots=True)
class Server:
    """One model in one role at one server: all its engines together."""

    node: str
    server: str
    framework: str
    model: str
    role: str
    frontend: str
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A name for each row."""

    names: tuple[str, ...]
    of: Ints


@dataclass(frozen=True, slots=True)
class Observed:
    """Minutes of servers, in parallel. `changed` are those in which a server restarted or became another."""

    servers: tuple[Server, ...]
    rows: Rows
    partial: Flags
    changed: Flags
    version: Named
    gpu: Named
    kept_since: int = 0
    """Minutes before that moment may be gone."""
