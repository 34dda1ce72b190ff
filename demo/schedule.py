"""Which faults begin and end when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from demo.faults import Fault, FaultError, Order

_REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class Edge:
    at: float
    what: Literal["begins", "ends"]
    fault: Fault


class Schedule:
    """Faults in all their time: those to come, those that are there, and the last that were."""

    def __init__(self) -> None:
        self._faults: dict[int, Fault] = {}
        self._begun: set[int] = set()
        self._over: set[int] = set()
        self._next = 1

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def add(self, orders: Iterable[Order], now: float) -> Sequence[Fault]:
        """All of them, or none where one clashes with what is planned: raises FaultError."""
        added: list[Fault] = []
        for number, order in enumerate(orders, self._next):
            begins = now + order.after
            fault = Fault(number, order.kind, order.target, begins, begins + order.seconds, order.values)
            self._check(fault, added)
            added.append(fault)
        self._next += len(added)
        self._faults |= {fault.number: fault for fault in added}
        self._forget()
        return added

    def end(self, number: int, now: float) -> Fault:
        """Now, before its time; one that has not begun never does. Raises FaultError."""
        fault = self._faults.get(number)
        if fault is None or number in self._over:
            going_on = [str(n) for n in self._faults if n not in self._over]
            raise FaultError("number", number, ", ".join(going_on) or "none: there is no fault")
        if number not in self._begun:
            self._begun.add(number)
            self._over.add(number)
        self._faults[number] = replace(fault, ends=min(fault.ends, now))
        return self._faults[number]

    def next(self, until: float) -> Edge | None:
        """The first that is due by then and was not passed yet."""
        return min((edge for edge in self._edges() if edge.at <= until), key=lambda edge: edge.at, default=None)

    def passed(self, edge: Edge) -> None:
        (self._begun if edge.what == "begins" else self._over).add(edge.fault.number)

    def state(self, fault: Fault) -> Literal["planned", "active", "over"]:
        if fault.number in self._over:
            return "over"
        return "active" if fault.number in self._begun else "planned"

    def _edges(self) -> Iterator[Edge]:
        for number, fault in self._faults.items():
            if number not in self._begun:
                yield Edge(fault.begins, "begins", fault)
            elif number not in self._over:
                yield Edge(fault.ends, "ends", fault)

    def _check(self, fault: Fault, added: Sequence[Fault]) -> None:
        """The same twice at a time would end with the first."""
        for other in (*self._faults.values(), *added):
            same = (other.kind, other.target) == (fault.kind, fault.target) and other.number not in self._over
            if same and other.begins < fault.ends and fault.begins < other.ends:
                raise FaultError("target", fault.target, f"no second {fault.kind} while number {other.number} lasts")

    def _forget(self) -> None:
        while len(self._over) > _REMEMBERED:
            oldest = min(self._over)
            self._over.discard(oldest)
            self._begun.discard(oldest)
            del self._faults[oldest]
