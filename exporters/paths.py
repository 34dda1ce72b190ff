"""At which address a server has its metrics page, as far as is known."""

from __future__ import annotations

from urllib.parse import urlsplit

from exporters.fetch import Body, Failure
from exporters.side import METRICS
from exporters.table import Frontend
from exporters.tables import FRONTENDS

_COMMON = "/metrics"


def usual() -> frozenset[str]:
    """Every path at which a frontend has its page by itself: naming one tells no more than the server's address."""
    pages = [frontend.document(METRICS) for frontend in FRONTENDS.values()]
    return frozenset({_COMMON, *(p.path for p in pages), *(p.older for p in pages)})


def url_of(server_url: str, path: str) -> str:
    """A path that starts with a port (`:8002/metrics`) stands for another port of the same host."""
    if not path.startswith(":"):
        return server_url + path
    parts = urlsplit(server_url)
    host = parts.netloc.removesuffix(f":{parts.port}") if parts.port is not None else parts.netloc
    return f"{parts.scheme}://{host}{path}"


def points_elsewhere(path: str, answer: Body | Failure) -> bool:
    """Some frontends answer 404, or JSON, where others have their metrics; some have them at another port."""
    if isinstance(answer, Failure):
        return answer.reason == "not_found" or (path.startswith(":") and not answer.answered)
    return answer.text.lstrip()[:1] in ("[", "{")


class MetricsPaths:
    """Where to ask, in order. What once worked stays, until it works no more."""

    def __init__(self, configured: str | None) -> None:
        self._configured = configured
        self._found: str | None = None
        self._is_spared = False

    def candidates(self, frontend: Frontend | None) -> list[str]:
        """`frontend` is what the server is known or said to be. Another port is asked for a known one's sake only."""
        own = [] if frontend is None else [frontend.document(METRICS).path]
        if self._configured or self._found:
            listed = [self._configured or self._found or ""]
        elif frontend is not None:
            listed = [*own, frontend.document(METRICS).older, _COMMON]
        else:
            others = (f.document(METRICS).path for f in FRONTENDS.values())
            listed = [p for p in (_COMMON, *others) if not p.startswith(":") and not (p == _COMMON and self._is_spared)]
        taken = {d.path for d in frontend.documents if d.destructive} if frontend else set()
        return [p for p in dict.fromkeys(listed) if p and p not in taken] or own

    def found(self, path: str) -> None:
        self._found = path

    def lost(self) -> None:
        """There is no page where it was."""
        self._found = None

    def forget(self) -> None:
        """Another server may answer next."""
        self._found, self._is_spared = None, False

    def judged(self, answer: Body | Failure) -> Body | Failure:
        """What an unknown server's answer comes to.

        An array of JSON may be records that reading takes away from somebody: it is asked for once.
        """
        if isinstance(answer, Body) and answer.text.lstrip().startswith("[") and not self._configured:
            self._is_spared = True
        elif self._is_spared and isinstance(answer, Failure) and answer.reason == "not_found":
            detail = f"an array at {_COMMON}, which is not asked for again: reading may take records from its reader"
            return Failure("json_body", detail, answer.status, answer.duration)
        return answer
