"""Objectives and alerts of a small fleet: days of minutes made by hand, judged by the monitor, shown on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy import Engine

from exporters.observation import Labels, labels
from monitor.alert_history.firings import Firing
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.app import create_app
from monitor.config import AlertmanagerSection
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.watch import Watch
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.minutes import Minute, Window
from monitor.history.upsert import Progress
from tests.end_to_end.browser import serving
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.evaluate.minutes import minute, up, write
from tests.monitor.page.fleet_data import HOSTILE

DAY, HOUR = 86_400, 3600
UNTIL = 1_796_031_660
"""2026-11-30 09:41:00 UTC"""
NOW = UNTIL + 35.0
_AT_ONCE = 480
"""Minutes in one transaction."""
_KV = "llm_kv_cache_utilization_ratio"
_VLLM, _SGLANG = (0.25, 0.5, 1.0, 2.5), (0.2, 0.4, 0.6, 1.0)
"""Bounds of the time to first token; 0.5 s is none of SGLang's."""
SPEC = """
version: 1
user_labels: [team]
slos:
  - name: first-token
    description: Answers begin within half a second.
    objective: 95%
    window: 7d
    indicator: {latency: {phase: ttft, below: 0.5s}}
  - name: availability
    description: Requests end well; minutes in which no server of the model is up are bad.
    objective: 99.5%
    window: 7d
    indicator: {availability: {}}
  - name: kv-headroom
    objective: 99%
    window: 7d
    indicator: {slices: {metric: llm_kv_cache_utilization_ratio, across: max, is: below, value: 0.95}}
    alerts: [ticket]
"""


@dataclass(frozen=True)
class Shown:
    """A server that does the same each minute, but for its last ones."""

    node: str
    server: str
    framework: str
    model: str
    usual: Minute
    lately: Mapping[range, Minute] = field(default_factory=dict)
    """By minutes before the end."""
    down: range = range(0)

    def rows(self, before: int) -> dict[Labels, Minute]:
        place = {"node": self.node, "server": self.server}
        is_down = before in self.down
        found = {labels(place): up(0.0 if is_down else 1.0, UNTIL)}
        if not is_down:
            of = {**place, "framework": self.framework, "model": self.model, "role": "unified", "engine": "0"}
            found[labels(of)] = next((m for r, m in self.lately.items() if before in r), self.usual)
        return found


def work(
    first_tokens: Sequence[float], *, bounds: tuple[float, ...] = _VLLM, failed: float = 0, kv: float = 0.6
) -> Minute:
    """`first_tokens` are requests by bucket."""
    total = sum(first_tokens)
    finished = {"stop": total - failed, "error": failed}
    return minute(finished=finished, counts={"ttft": first_tokens}, bounds=bounds, gauges={_KV: kv})


CHAT, CODE, LLAMA = "Qwen2.5-7B-Instruct", "Qwen2.5-Coder-32B-Instruct", "Llama-3.1-70B-Instruct"
IDLE = work((0, 0, 0, 0, 0), kv=0.0)
FLEET = [
    Shown("gpu-07", "chat-a", "vllm", CHAT, work((80, 18, 1, 1, 0))),
    Shown("gpu-08", "chat-b", "sglang", CHAT, work((60, 34, 4, 2, 0), bounds=_SGLANG)),
    Shown(
        "gpu-09", "code", "vllm", CODE, work((40, 18, 1, 1, 0)),
        {range(90): work((0, 18, 34, 8, 0), kv=0.97), range(600, 640): work((10, 40, 8, 2, 0), kv=0.96)},
    ),
    Shown(
        "gpu-10", "llama", "trtllm", LLAMA, work((25, 14, 1, 0, 0)),
        {range(300, 500): work((25, 14, 1, 0, 0), failed=12)}, down=range(14),
    ),
    Shown("gpu-11", "night", "vllm", "Mistral-Small-24B", IDLE),
    Shown("gpu-12", "trial", "vllm", "gemma-3-27b", IDLE, {range(30, 50): work((1, 1, 0, 0, 0))}),
]  # fmt: skip
HOSTILE_FLEET = [Shown("n" * 80, HOSTILE, "vllm", HOSTILE + "m" * 120, work((80, 18, 1, 1, 0)))]


def firing(name: str, since: float, until: float | None = None, **more: str) -> Firing:
    """As Prometheus told it, which is not known to Alertmanager."""
    of = labels({"alertname": name, **more})
    return Firing(of, since, since, until or UNTIL, until or UNTIL, until)


def told(
    name: str, summary: str, since: float, until: float | None = None, servers: str = "", **more: str
) -> dict[str, object]:
    """As Alertmanager told it; `servers` are those on the GPU that it is of."""
    texts = {"summary": summary, **({"servers": servers} if servers else {})}
    return alert(since, until, labels={"alertname": name, **more}, annotations=texts)


ALERTS = [
    told(
        "SloBurnPage", f"SLO first-token (model={CODE} role=unified) burns its error budget", UNTIL - 80 * 60,
        slo="first-token", severity="page", model=CODE, role="unified",
    ),
    told(
        "GpuLost", "GPU 3 on gpu-10 was lost (GPU-5f0c3f6e-7d1a-44d1-9c36-0d6a9f4f21b7)", UNTIL - 12 * 60,
        servers="llama", severity="page", node="gpu-10", gpu="3", uuid="GPU-5f0c3f6e-7d1a-44d1-9c36-0d6a9f4f21b7",
    ),
    told(
        "KvCacheSaturated", f"KV cache of {CODE} at code on gpu-09: 97% in use over 10 minutes while requests waited",
        UNTIL - 75 * 60,
        severity="ticket", node="gpu-09", server="code", framework="vllm", model=CODE, role="unified", engine="0",
    ),
    told("Watchdog", "Alerts are evaluated and sent", UNTIL - 6 * DAY, severity="none"),
    told(
        "SloBurnTicket", f"SLO availability (model={LLAMA} role=unified) burns its error budget", UNTIL - 9 * HOUR,
        UNTIL - 3 * HOUR, slo="availability", severity="ticket", model=LLAMA, role="unified",
    ),
    told(
        "GpuXidApplication",
        "GPU 0 on gpu-07 reported XID 31: memory page fault: an access to an address that is not mapped",
        UNTIL - 30 * HOUR, UNTIL - 30 * HOUR + 600,
        severity="ticket", node="gpu-07", gpu="0", uuid="GPU-0b6b7a21-52f5-4a37-8d6c-3c0a2a0f8f55", xid="31",
    ),
]  # fmt: skip
SEEN = [
    firing("ServerDown", UNTIL - 6 * 60, severity="page", node="gpu-10", server="llama"),
    firing("MetricsMissing", UNTIL - 40 * HOUR, UNTIL - 39 * HOUR, severity="ticket", node="gpu-11", server="night"),
    firing("DiskWillFillUp", UNTIL - 50 * HOUR, UNTIL - 49 * HOUR, instance="gpu-08:9100"),
]
HOSTILE_ALERTS = [told(HOSTILE, HOSTILE, UNTIL - 600, severity=HOSTILE, server=HOSTILE, model="m" * 300)]


@dataclass
class Judged:
    """A monitor whose clock stands still."""

    store: AlertStore
    url: str = ""

    def tell(self, *alerts: dict[str, object]) -> None:
        self.store.tell(notification(*alerts), UNTIL)


@contextmanager
def judged(
    folder: Path,
    fleet: Sequence[Shown] = tuple(FLEET),
    *,
    alerts: Sequence[dict[str, object]] = tuple(ALERTS),
    seen: Sequence[Firing] = tuple(SEEN),
    spec: str | None = SPEC,
    minutes: int = 1440,
) -> Iterator[Judged]:
    folder.mkdir(parents=True, exist_ok=True)
    database = open_database(sqlite_url(folder / "history.sqlite"))
    upgrade(database)
    store = AlertStore(database)
    _keep(database, fleet, minutes)
    store.see(seen, Progress("alerts", UNTIL - 60, UNTIL))
    for receiver in ("inferwatch", "oncall"):
        store.tell(notification(*alerts, receiver=receiver), UNTIL - 30)
    made = Judged(store)
    with serving(_app(database, store, _objectives(folder, spec))) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made
    database.dispose()


def _objectives(folder: Path, spec: str | None) -> Objectives:
    file = folder / "slo.yml"
    file.write_text(spec or "")
    return Objectives([] if spec is None else [file])


def _app(database: Engine, store: AlertStore, objectives: Objectives) -> FastAPI:
    watch = Watch(database, objectives, delay=30, clock=lambda: NOW)
    watch.turn()
    alerts = AlertHistory(store, access=AlertmanagerSection(), clock=lambda: NOW)
    return create_app(Fleet(), History(database), alerts=alerts, watch=watch, node="gpu-07", clock=lambda: NOW)


def _keep(database: Engine, fleet: Sequence[Shown], minutes: int) -> None:
    for first in range(minutes, 0, -_AT_ONCE):
        write(database, [_window(fleet, n) for n in range(first, max(0, first - _AT_ONCE), -1)])


def _window(fleet: Sequence[Shown], before: int) -> Window:
    return Window(UNTIL - 60 * before, {of: row for each in fleet for of, row in each.rows(before - 1).items()})
