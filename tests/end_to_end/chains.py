"""The whole chain: served bodies, sidecars, Prometheus with the rules, Alertmanager with its example, the monitor."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from tests.end_to_end.processes import DEADLINE, ROOT, free_port, running, until
from tests.end_to_end.recorded import Pages
from tests.end_to_end.recorded import serving as serving_pages
from tests.end_to_end.samples import Scrape, as_openmetrics, parsed
from tests.end_to_end.vllm_by_hand import Vllm
from tests.end_to_end.web import get
from tests.servers.alertmanager import Alertmanager
from tests.servers.prometheus import Prometheus
from tests.servers.server import Server, answers

GENERATED = ROOT / "alerts" / "generated"
RULES = ("slo-rules.yml", "conditions-rules.yml")
SCRAPE_SECONDS, LOOKBACK_SECONDS, RESEND_SECONDS = 30, 300, 60
_OF_PAST = ("llm_up", "llm_server_info", "llm_requests_", "llm_time_to_first_token", "llm_latency_native", "gpu_")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_IN_EXPRESSION = re.compile(r"(?<=\[)\d+s(?=\])|(?<=offset )\d+s")
_OF_RULES, _OF_ROUTES = ("interval", "for", "keep_firing_for"), ("group_wait", "group_interval", "repeat_interval")


def hurried(text: str, times: int) -> str:
    """A duration, such as 5m, so many times shorter."""
    return f"{1000 * int(text[:-1]) * _UNITS[text[-1]] // times}ms"


def _hurry(content: Any, keys: Sequence[str], times: int) -> Any:
    """The same, with the durations at these keys and those within expressions so many times shorter."""
    if isinstance(content, list):
        return [_hurry(each, keys, times) for each in content]
    if not isinstance(content, dict):
        return content
    found = {key: _hurry(value, keys, times) for key, value in content.items()}
    found |= {key: hurried(content[key], times) for key in keys if key in content}
    if "expr" in found:
        found["expr"] = _IN_EXPRESSION.sub(lambda match: hurried(match[0], times), str(found["expr"]))
    return found


@dataclass
class Node:
    """Servers and GPUs of one host, and the sidecar that reads them."""

    name: str
    servers: Mapping[str, Vllm]
    gpus: Pages = field(default_factory=lambda: Pages({}))
    url: str = ""

    def show_gpus(self, xids: Mapping[int, int]) -> None:
        """The last XID of each GPU that is there, by number, as a dcgm-exporter tells it."""
        lines = []
        for number, xid in xids.items():
            of = f'gpu="{number}",UUID="GPU-{self.name}-{number}",modelName="NVIDIA H100 80GB HBM3"'
            lines += [f"DCGM_FI_DEV_XID_ERRORS{{{of}}} {xid}", f"DCGM_FI_DEV_GPU_UTIL{{{of}}} 40"]
        self.gpus.bodies["/metrics"] = "\n".join([*lines, ""]).encode()

    def configured(self) -> list[dict[str, object]]:
        return [{"name": name, "url": f"http://127.0.0.1:{s.port}"} for name, s in self.servers.items()]

    @contextmanager
    def read(self, folder: Path) -> Iterator[None]:
        """By a sidecar of its own."""
        with ExitStack() as stack:
            dcgm = stack.enter_context(serving_pages(self.gpus))
            for server in self.servers.values():
                server.start()
                stack.callback(server.stop)
            port = free_port()
            config = {
                "node": self.name,
                "listen": {"port": port},
                "servers": self.configured(),
                "gpus": {"dcgm": f"http://127.0.0.1:{dcgm}/metrics"},
            }
            file = folder / f"{self.name}.yml"
            file.write_text(yaml.safe_dump(config))
            command = [sys.executable, "-m", "inferwatch", "exporter", "--config", str(file)]
            process = stack.enter_context(running(command, folder, environment={"PYTHONPATH": str(ROOT)}))
            self.url = f"http://127.0.0.1:{port}"
            until(lambda: get(f"{self.url}/healthz"), process)
            yield


class People:
    """Whom Alertmanager tells: notifications by the name of the receiver."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        people = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                people.told.append((self.path.strip("/"), json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not of interest."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    @contextmanager
    def listening(self) -> Iterator[None]:
        thread = Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def heard(self, receiver: str, **labels: str) -> list[str]:
        """Each time that this receiver was told of an alert with these labels: its status then."""
        alerts = [alert for told, body in self.told if told == receiver for alert in body["alerts"]]
        return [alert["status"] for alert in alerts if alert["labels"].items() >= labels.items()]


class Monitor(Server):
    """`inferwatch serve`. It reads the alerts of Prometheus as soon as it starts, and then every minute."""

    def __init__(self, folder: Path, port: int, prometheus: str) -> None:
        (folder / "token").write_text("secret")
        settings = {
            "prometheus": {"url": prometheus, "delay": "1s", "backfill": "30m", "max_requests_per_second": 20},
            "alertmanager": {"bearer_token_file": "token"},
            "history": {"path": "history.sqlite"},
            "listen": {"port": port},
            "slos": str(ROOT / "alerts" / "slo" / "default.yml"),
        }
        config = folder / "monitor.yml"
        config.write_text(yaml.safe_dump(settings))
        self.url = f"http://127.0.0.1:{port}"
        self.database = folder / "history.sqlite"
        command = [sys.executable, "-m", "inferwatch", "serve", "--config", str(config)]
        super().__init__(command, folder, answers(f"{self.url}/healthz"))

    def alerts(self) -> list[dict[str, Any]]:
        """The newest first."""
        found: list[dict[str, Any]] = get(f"{self.url}/api/v1/alerts").json()
        return found

    def stored(self) -> list[tuple[str, dict[str, str], float, float | None, float | None]]:
        """By SQL: name, labels, when it fired, until when, and when anybody was told."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=DEADLINE)) as connection:
            rows = connection.execute("SELECT name, labels, starts_at, ends_at, delivered_at FROM alerts").fetchall()
        return [(name, json.loads(labels), *moments) for name, labels, *moments in rows]


@dataclass(frozen=True)
class Chain:
    prometheus: Prometheus
    alertmanager: Alertmanager
    monitor: Monitor
    people: People

    def firing(self) -> set[tuple[str, ...]]:
        """As Prometheus says: names and what they are about."""
        found = get(f"{self.prometheus.url}/api/v1/alerts").json()["data"]["alerts"]
        return {subject(alert["labels"]) for alert in found if alert["state"] == "firing"}

    def held_back(self) -> set[tuple[str, ...]]:
        """As Alertmanager says."""
        found = get(f"{self.alertmanager.url}/api/v2/alerts").json()
        return {subject(alert["labels"]) for alert in found if alert["status"]["inhibitedBy"]}


def subject(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The alert's name, and what it is about: a server, a GPU or a model by an objective."""
    about = ("node", "server", "gpu", "xid", "slo", "model")
    return labels["alertname"], *(labels[name] for name in about if name in labels)


def quarter_of_an_hour(nodes: Sequence[Node], file: Path, times: int = 1) -> Path:
    """In which nothing happened: what each sidecar says now, as if it had been scraped before."""
    now = time.time()
    pages = {node.url.removeprefix("http://"): parsed(get(f"{node.url}/metrics").text) for node in nodes}
    of_past = {target: [s for s in page if s.name.startswith(_OF_PAST)] for target, page in pages.items()}
    scrapes = (
        Scrape(now - seconds / times, samples, ("inferwatch", target))
        for target, samples in of_past.items()
        for seconds in range(900, 0, -SCRAPE_SECONDS)
    )
    return as_openmetrics(scrapes, file)


@contextmanager
def chain(nodes: Sequence[Node], folder: Path, *, times: int = 1, past: Path | None = None) -> Iterator[Chain]:
    """Everything behind the sidecars, so many times faster than it is generated, with samples of the past."""
    folder.mkdir()
    people, port = People(), free_port()
    monitor = f"http://127.0.0.1:{port}"
    with (
        people.listening(),
        # It needs time: what holds an alert back has to be there before anybody is told.
        Alertmanager(example(monitor, people.address, folder, max(1, times // 2)), folder) as alertmanager,
    ):
        flags = [
            f"--query.lookback-delta={hurried(f'{LOOKBACK_SECONDS}s', times)}",
            f"--rules.alert.resend-delay={hurried(f'{RESEND_SECONDS}s', times)}",
        ]
        server = Prometheus(_prometheus(nodes, alertmanager.url, folder, times), folder, *flags)
        if past is not None:
            server.load(past)
        with server as prometheus, Monitor(folder, port, prometheus.url) as made:
            yield Chain(prometheus, alertmanager, made, people)


def _prometheus(nodes: Sequence[Node], alertmanager: str, folder: Path, times: int) -> str:
    for name in RULES:
        rules = yaml.safe_load((GENERATED / name).read_text(encoding="utf-8"))
        (folder / name).write_text(yaml.safe_dump(_hurry(rules, _OF_RULES, times)))
    every = hurried(f"{SCRAPE_SECONDS}s", times)
    targets = [node.url.removeprefix("http://") for node in nodes]
    settings = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "external_labels": {"cluster": "c1"}},
        "rule_files": [str(folder / name) for name in RULES],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]},
        "scrape_configs": [{"job_name": "inferwatch", "static_configs": [{"targets": targets}]}],
    }
    return yaml.safe_dump(settings)


def example(monitor: str, people: str, folder: Path, times: int) -> str:
    """Alertmanager's, with addresses of a test; the monitor is told again at every chance, and a witness beside it."""
    text = (GENERATED / "alertmanager.yml").read_text(encoding="utf-8")
    text = text.replace("http://monitor:9840", monitor).replace("localhost:9/", f"{people}/")
    config = _hurry(yaml.safe_load(text.replace("/etc/alertmanager/inferwatch-token", "token")), _OF_ROUTES, times)
    route, receiver = config["route"]["routes"][0], config["receivers"][0]
    assert route["receiver"] == receiver["name"] == "inferwatch"
    route["repeat_interval"] = route["group_interval"]
    receiver["webhook_configs"].append({"url": f"http://{people}/inferwatch"})
    (folder / "token").write_text("secret")
    return yaml.safe_dump(config)
