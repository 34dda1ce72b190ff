"""Pages that pass on the metrics of other servers: routers, gateways, Prometheus federation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporters.table import Frontend, Label, Series
from exporters.terms import terms
from exporters.wire import Page, WireSeries

_SERVER_LABELS = ("instance", "pod", "backend")
"""An engine may carry one as a label of its user's, with one value."""
_WORKER_LABELS = ("server", "server_url", "url", "worker", "worker_addr", "worker_url", "backend_url")
"""An engine has no reason to carry one with a URL in it."""
_URL = re.compile(r"https?://.+")


def servers_behind(frontend: Frontend, page: Page) -> str:
    """Which label tells the servers apart whose engine metrics the page passes on; "" where it is an engine's own."""
    names = {t.name for t in terms(frontend) if isinstance(t, Series | Label) and not t.name.startswith("@")}
    for label in (*_SERVER_LABELS, *_WORKER_LABELS):
        values = {s.labels[label] for name in names for s in _all(page, name) if label in s.labels}
        is_worker = label in _WORKER_LABELS and any(_URL.fullmatch(v) for v in values)
        if len(values) > 1 or is_worker:
            return f"{len(values)} server{'s' if len(values) > 1 else ''} by the label `{label}`"
    return ""


def _all(page: Page, name: str) -> Iterator[WireSeries]:
    for suffix in ("", "_count"):
        yield from page.find(name + suffix)
