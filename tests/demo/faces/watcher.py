"""What the product makes of a face from one reading to the next: how much was added meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from demo.model import Face
from exporters import documents
from exporters.delta import Deltas, Increase
from exporters.detect import detect
from exporters.documents import keep
from exporters.normalise import Normaliser, Reading
from exporters.table import Form, Frontend
from tests.exporters.recorded import IDENTITY


@dataclass(slots=True)
class Watcher:
    """Reads a face time and again. Its page must be recognised as the frontend's, unless it is empty."""

    face: Face
    frontend: Frontend
    reading: Reading = field(init=False)
    increase: Increase = field(init=False)
    _normaliser: Normaliser = field(init=False)
    _deltas: Deltas = field(init=False, default_factory=Deltas)

    def __post_init__(self) -> None:
        self._normaliser = Normaliser(self.frontend, IDENTITY)

    def read(self, now: float) -> Reading:
        self.reading = self._normaliser.normalise(self._page(now), self._documents(now))
        self.increase = self._deltas.advance(
            now,
            self.reading.values,
            self.reading.histograms,
            start_time=self.reading.start_time,
            proves_absence=self.reading.proves_absence,
        )
        return self.reading

    def _page(self, now: float) -> str:
        answer = self.face.answer(_path(self.frontend.document("metrics").path), now)
        text = answer.body.decode()
        found = detect(text, answer.content_type)
        assert (found.frontend, found.finding) == (self.frontend, None) or not text
        return text

    def _documents(self, now: float) -> dict[str, object]:
        """As the sidecar asks for them: those that have a body, pruned."""
        found: dict[str, object] = {}
        for document in self.frontend.documents:
            if document.form is Form.JSON:
                answer = self.face.answer(_path(document.path), now)
                if answer.status == 200:
                    found[document.name] = keep(self.frontend, document.name, documents.parse(answer.body.decode()))
        return found

    def total(self, metric: str, **where: str) -> float | None:
        """Of the last reading; None where there is none."""
        values = self.reading.values.items()
        found = [v for s, v in values if s.metric == metric and where.items() <= dict(s.labels).items()]
        return sum(found) if found else None

    def info(self) -> dict[str, str]:
        """The labels of llm_server_info."""
        return next(dict(s.labels) for s in self.reading.values if s.metric == "llm_server_info")

    def added(self, metric: str, **where: str) -> float:
        found = self.increase.values.items()
        return sum(v for s, v in found if s.metric == metric and where.items() <= dict(s.labels).items())

    def observed(self, metric: str) -> tuple[float, float]:
        """How many were added, and their sum."""
        found = [h for s, h in self.increase.histograms.items() if s.metric == metric]
        return sum(h.count for h in found), sum(h.sum or 0.0 for h in found)


def _path(path: str) -> str:
    """Without a port of its own."""
    return "/" + path.partition("/")[2]
