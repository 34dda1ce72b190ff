"""A face as the sidecar reads it: its pages, and the documents beside them."""

from __future__ import annotations

from demo.model import Face
from exporters import documents
from exporters.detect import detect
from exporters.documents import keep
from exporters.normalise import Identity, Normaliser, Reading
from exporters.observation import Series
from exporters.table import Form, Frontend


class Sidecar:
    """Follows one face. Raises AssertionError where its page is not that of the frontend."""

    def __init__(self, face: Face, frontend: Frontend) -> None:
        self._face = face
        self._frontend = frontend
        self._normaliser = Normaliser(frontend, Identity("host", "simulated"))

    def read(self, now: float) -> Reading:
        page = self._face.answer("/metrics", now)
        text = page.body.decode()
        assert detect(text, page.content_type).frontend is self._frontend
        return self._normaliser.normalise(text, self._beside(now))

    def read_fresh(self, now: float) -> Reading:
        """Of a server that may have nothing to show yet."""
        return self._normaliser.normalise(self._face.answer("/metrics", now).body.decode(), self._beside(now))

    def _beside(self, now: float) -> dict[str, object]:
        found: dict[str, object] = {}
        for document in self._frontend.documents:
            answer = self._face.answer(document.path, now)
            if answer.status == 404 and document.older:
                answer = self._face.answer(document.older, now)
            if document.form is Form.STATUS:
                found[document.name] = answer.status
            elif document.form is Form.JSON and answer.status == 200:
                body = documents.parse(answer.body.decode())
                found[document.name] = keep(self._frontend, document.name, body)
        return found


def total(reading: Reading, metric: str, **where: str) -> float:
    """Sum over the series; it fails where there is none."""
    found = [v for s, v in reading.values.items() if _is(s, metric, where)]
    assert found, f"no {metric}{where}"
    return sum(found)


def counted(reading: Reading, metric: str) -> tuple[float, float]:
    """Number and sum of a histogram's observations."""
    found = [h for s, h in reading.histograms.items() if s.metric == metric]
    assert found, f"no {metric}"
    return sum(h.count for h in found), sum(h.sum or 0.0 for h in found)


def info(reading: Reading) -> Series:
    return next(s for s in reading.values if s.metric == "llm_server_info")


def qualities(reading: Reading) -> dict[str, str]:
    return {f.field: f.quality for f in reading.fields}


def reasons(reading: Reading) -> list[str]:
    """Of its findings."""
    return [f.reason for f in reading.findings]


def _is(series: Series, metric: str, where: dict[str, str]) -> bool:
    return series.metric == metric and all(series.label(k) == v for k, v in where.items())
