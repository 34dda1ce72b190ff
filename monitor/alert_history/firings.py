"""Activations and what is known of the time between them, as firings. Pure.

A firing ends where Prometheus is known to have said so. A sample that is missing says nothing by itself: Prometheus
may have been down. It said so where it marked the series as gone, or where it has had other data for a while since.
Until then the alert fires on, also through a restart that forgets since when it was active.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporters.observation import Labels, labels
from monitor.alert_history.alert import Alert
from monitor.alert_history.samples import Activation

MINUTE = 60
_GRACE_SECONDS = 300.0
"""As long as Prometheus looks back: after a pause rules may take so long to say again what they said before."""
_SAID_TWICE = 2.0


@dataclass(frozen=True, slots=True)
class Firing:
    """As far as the samples tell. Moments are unix seconds."""

    labels: Labels
    active_since: float
    starts_at: float
    last_seen: float
    """The newest sample of ALERTS."""
    known_until: float
    """Of the newest sample of any kind, or the end."""
    ends_at: float | None
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Samples have none; who judges by itself knows them."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside the samples of the alerts themselves."""

    gone: frozenset[tuple[Labels, float]]
    """Series that were marked as gone after their sample at that moment."""
    alive: Sequence[int]
    """Ends of the minutes of which Prometheus has data, in order."""
    until: float
    """Nothing later was looked at."""


@dataclass(frozen=True, slots=True)
class _Piece:
    since: float
    first_firing: float | None
    last_firing: float | None
    last: float
    interval: float
    is_gone: bool
    is_stored: bool

    def __or__(self, later: _Piece) -> _Piece:
        """Both are of one firing; `later` began later."""
        newest = max(self, later, key=lambda piece: (piece.last, piece.is_gone, piece.interval))
        firing = [at for piece in (self, later) for at in (piece.first_firing, piece.last_firing) if at is not None]
        return replace(
            newest,
            since=self.since,
            first_firing=min(firing, default=None),
            last_firing=max(firing, default=None),
            is_stored=self.is_stored or later.is_stored,
        )


def undecided(activations: Iterable[Activation], stored: Iterable[Alert], known: Known) -> list[float]:
    """The last samples after which only the time since can tell whether that was the end."""
    found = _by_labels(activations, stored, known).values()
    return [last for pieces in found for last in _pauses(pieces, known.until)]


def firings(
    activations: Iterable[Activation], stored: Iterable[Alert], known: Known, settled: float
) -> Iterator[Firing]:
    """`stored` are those that fired when Prometheus was last read. What ended by `settled` is left as it was."""
    for of, pieces in _by_labels(activations, stored, known).items():
        for piece, ends_at in _apart(pieces, known):
            if piece.first_firing is None or piece.last_firing is None:
                continue  # it only was about to fire
            if piece.last > settled or piece.is_stored:
                until = piece.last if ends_at is None else ends_at
                yield Firing(of, piece.since, piece.first_firing, piece.last_firing, until, ends_at)


def _by_labels(activations: Iterable[Activation], stored: Iterable[Alert], known: Known) -> dict[Labels, list[_Piece]]:
    found: defaultdict[Labels, list[_Piece]] = defaultdict(list)
    for a in activations:
        found[a.labels].append(
            _Piece(a.since, a.first_firing, a.last_firing, a.last, a.interval, _is_gone(a, known), is_stored=False)
        )
    keys = list(found)
    for alert in stored:
        if alert.starts_at <= known.until:
            found[_labels_of(alert, keys)].append(_stored(alert))
    return {of: sorted(pieces, key=lambda piece: piece.since) for of, pieces in found.items()}


def _stored(alert: Alert) -> _Piece:
    last = alert.known_until
    return _Piece(alert.starts_at, alert.starts_at, last, last, 0.0, is_gone=False, is_stored=True)


def _labels_of(alert: Alert, keys: Collection[Labels]) -> Labels:
    """Those that Prometheus has, where Alertmanager was told more."""
    fits = [key for key in keys if is_of(alert, key)]
    return max(fits, key=len) if fits else labels(alert.labels)


def is_of(alert: Alert, of: Labels) -> bool:
    """Whether Prometheus has these labels for it. With external labels Alertmanager has more."""
    if alert.deliveries:
        return all(alert.labels.get(name) == value for name, value in of)
    return dict(of) == alert.labels


def _pauses(pieces: Sequence[_Piece], until: float) -> Iterator[float]:
    current = pieces[0]
    for after in pieces[1:]:
        if after.since > current.last and not current.is_gone:
            yield current.last
        current |= after
    if not current.is_gone and _first_minute(current) + _GRACE_SECONDS <= until:
        yield current.last


def _apart(pieces: Sequence[_Piece], known: Known) -> Iterator[tuple[_Piece, float | None]]:
    """Each firing as one piece, and its end."""
    current = pieces[0]
    for after in pieces[1:]:
        end = None if after.since <= current.last else _end(current, known.alive, after.since)
        if end is None:
            current |= after
        else:
            yield current, min(end, after.since)
            current = after
    yield current, _end(current, known.alive, known.until)


def _end(piece: _Piece, alive: Sequence[int], until: float) -> float | None:
    """None where nothing says by `until` that it ended."""
    if piece.is_gone:
        return round(piece.last + piece.interval, 3)
    index = bisect_left(alive, _first_minute(piece))
    return float(alive[index]) if index < len(alive) and alive[index] + _GRACE_SECONDS <= until else None


def _first_minute(piece: _Piece) -> float:
    """The earliest end of a whole minute in which a sample was due."""
    return piece.last + _SAID_TWICE * piece.interval + MINUTE


def _is_gone(activation: Activation, known: Known) -> bool:
    return (activation.series, activation.last) in known.gone
