"""Puts together what Prometheus saw and what Alertmanager told: one firing is one row, whoever tells first. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.alert_history.alert import Alert, Delivery
from monitor.alert_history.fingerprint import fingerprint
from monitor.alert_history.firings import Firing, is_of
from monitor.alert_history.notification import Notified

Key = tuple[str, float]
_Rows = dict[Key, Alert]


class _InOrder(dict[Key, Alert]):
    """Firings of one alert, which are looked up by their starts: there may be thousands."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[Key] = []
        self._open: set[Key] = set()
        """Those of which neither Prometheus nor Alertmanager has told the end."""

    def __setitem__(self, key: Key, row: Alert) -> None:
        if key not in self:
            insort(self._starts, key, key=_start)
        if row.ends_at is None and row.last_seen is None:
            self._open.add(key)
        super().__setitem__(key, row)

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        del self._starts[bisect_left(self._starts, _start(key), key=_start)]
        self._open.discard(key)

    def begun_by(self, moment: float) -> list[Alert]:
        """The last, and one before it, which may have ended when the last began."""
        index = bisect_right(self._starts, moment, key=_start)
        return [self[key] for key in self._starts[max(index - 2, 0) : index]]

    def open_before_next(self) -> list[tuple[Alert, Alert]]:
        """Each with the next one."""
        found = [(key, bisect_right(self._starts, _start(key), key=_start)) for key in self._open]
        return [(self[key], self[self._starts[after]]) for key, after in found if after < len(self._starts)]


def _start(key: Key) -> float:
    return key[1]


class Ledger:
    """Rows, and what became of them. It must hold all that may be of the same firing as what it is told."""

    def __init__(self, rows: Iterable[Alert]) -> None:
        self._stored = {row.key: row for row in rows}
        self._rows: _Rows = {}
        # When much breaks there are thousands: what may be of one firing is looked up, not searched for.
        self._by_fingerprint: defaultdict[str, _InOrder] = defaultdict(_InOrder)
        self._by_label: defaultdict[tuple[str, str], _Rows] = defaultdict(dict)
        self._untold: defaultdict[tuple[str, ...], defaultdict[tuple[str | None, ...], _InOrder]] = defaultdict(
            lambda: defaultdict(_InOrder)
        )
        """By the names of all labels, then by their values."""
        for row in self._stored.values():
            self._put([], row)

    def changed(self) -> list[Alert]:
        return [row for key, row in self._rows.items() if self._stored.get(key) != row]

    def gone(self) -> list[Key]:
        """Those that became part of another."""
        return [key for key in self._stored if key not in self._rows]

    def see(self, firing: Firing) -> None:
        alike = min((self._by_label[label] for label in firing.labels), key=len, default=self._rows)
        parts = list(_one_alert([row for row in alike.values() if _is_part(row, firing)]))
        self._put(parts, _seen(parts, firing))

    def tell(self, notified: Notified, receiver: str, now: float) -> None:
        """`now` in unix seconds is when `receiver` was told."""
        known = [self._by_fingerprint[notified.fingerprint], *self._untold_with_no_more_than(notified.labels)]
        row = _told_of((row for of in known for row in of.begun_by(notified.starts_at)), notified)
        self._put([row] if row else [], _told(row, notified, receiver, now))
        self._end_before_next(notified.fingerprint)

    def _put(self, instead_of: Iterable[Alert], row: Alert) -> None:
        for key in (*(old.key for old in instead_of), row.key):
            if old := self._rows.get(key):
                for rows in self._indexes(old):
                    del rows[key]
        for rows in self._indexes(row):
            rows[row.key] = row

    def _indexes(self, row: Alert) -> Iterator[_Rows]:
        yield self._rows
        yield self._by_fingerprint[row.fingerprint]
        yield from (self._by_label[label] for label in row.labels.items())
        if not row.deliveries:
            yield self._untold[tuple(row.labels)][tuple(row.labels.values())]

    def _untold_with_no_more_than(self, labels: Mapping[str, str]) -> Iterator[_InOrder]:
        for names, rows in self._untold.items():
            if (of := rows.get(tuple(map(labels.get, names)))) is not None:
                yield of

    def _end_before_next(self, of: str) -> None:
        """An alert that fires anew has ended before, also where its end was never told."""
        for row, following in self._by_fingerprint[of].open_before_next():
            self._put([], replace(row, ends_at=following.starts_at))


def _is_part(row: Alert, firing: Firing) -> bool:
    began_before = row.starts_at < firing.known_until or row.starts_at == firing.starts_at
    went_on = row.ends_at > firing.active_since if row.ends_at is not None else row.known_until >= firing.active_since
    return began_before and went_on and is_of(row, firing.labels)


def _one_alert(rows: Sequence[Alert]) -> Iterator[Alert]:
    """Of several that Alertmanager tells apart, by external labels, the one with the fewest."""
    delivered = {row.fingerprint: row for row in rows if row.deliveries}
    chosen = min(delivered, key=lambda name: (len(delivered[name].labels), name), default=None)
    return (row for row in rows if not row.deliveries or row.fingerprint == chosen)


def _seen(parts: Sequence[Alert], firing: Firing) -> Alert:
    row = _joined(parts) if parts else _new(firing)
    last_seen = max(firing.last_seen, row.last_seen or firing.last_seen)
    ends_at = firing.ends_at
    if row.last_seen is not None and (row.last_seen > firing.last_seen or ends_at is None):
        # Read before, and further.
        ends_at = row.ends_at if row.last_seen >= firing.last_seen else None
    return replace(
        row,
        starts_at=min(row.starts_at, firing.starts_at),
        last_seen=last_seen,
        ends_at=ends_at,
        annotations=firing.annotations or row.annotations,
    )


def _new(firing: Firing) -> Alert:
    labels = dict(firing.labels)
    return Alert(fingerprint(labels), firing.starts_at, labels)


def _joined(parts: Sequence[Alert]) -> Alert:
    """What Alertmanager told last goes before what it told earlier."""
    ordered = sorted(parts, key=lambda row: row.starts_at)
    told = [row for row in ordered if row.deliveries]
    newest = [row for row in ordered if row.last_seen is not None] or ordered
    return replace(
        told[-1] if told else ordered[0],
        starts_at=ordered[0].starts_at,
        last_seen=max((row.last_seen for row in parts if row.last_seen is not None), default=None),
        ends_at=newest[-1].ends_at,
        deliveries=_deliveries(told),
    )


def _deliveries(told: Sequence[Alert]) -> Mapping[str, Delivery]:
    """An end that was told before it fired anew is none."""
    found: dict[str, Delivery] = {}
    for row in told:
        for receiver, delivery in row.deliveries.items():
            first = found.get(receiver, delivery).delivered_at
            found[receiver] = Delivery(min(first, delivery.delivered_at))
    resolved = told[-1].deliveries if told else {}
    return {r: replace(d, resolved_at=resolved[r].resolved_at) if r in resolved else d for r, d in found.items()}


def _told_of(rows: Iterable[Alert], notified: Notified) -> Alert | None:
    """Rather one that it told of before; else the one with the most labels."""
    fits = [row for row in rows if _is_same(row, notified) and row.starts_at <= notified.starts_at <= row.known_until]
    return max(fits, key=lambda row: (bool(row.deliveries), len(row.labels), row.starts_at), default=None)


def _is_same(row: Alert, notified: Notified) -> bool:
    return row.fingerprint == notified.fingerprint or (
        not row.deliveries and row.labels.items() <= notified.labels.items()
    )


def _told(row: Alert | None, notified: Notified, receiver: str, now: float) -> Alert:
    before = row or Alert(notified.fingerprint, notified.starts_at, notified.labels)
    deliveries, is_reopened = _delivered(before.deliveries, notified, receiver, now)
    return replace(
        before,
        fingerprint=notified.fingerprint,
        labels=notified.labels,
        annotations=notified.annotations,
        generator_url=notified.generator_url or before.generator_url,
        deliveries=deliveries,
        ends_at=before.ends_at if before.last_seen is not None else _told_end(before, notified, is_reopened),
    )


def _delivered(
    before: Mapping[str, Delivery], notified: Notified, receiver: str, now: float
) -> tuple[Mapping[str, Delivery], bool]:
    """And whether the receiver is told that it fires after it was told that it ended: all others will be, too."""
    known = before.get(receiver, Delivery(now))
    if notified.is_resolved:
        return {**before, receiver: replace(known, resolved_at=known.resolved_at or now)}, False
    if known.resolved_at is None:
        return {**before, receiver: known}, False
    return {name: replace(delivery, resolved_at=None) for name, delivery in before.items()}, True


def _told_end(row: Alert, notified: Notified, is_reopened: bool) -> float | None:
    if not notified.is_resolved:
        return None if is_reopened else row.ends_at
    end = max(notified.starts_at, notified.ends_at or notified.starts_at)
    return max(end, row.ends_at or end)
