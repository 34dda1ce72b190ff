"""A rule fires in a real Prometheus, a real Alertmanager tells of it, and the monitor keeps what became of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.end_to_end.processes import free_port, until
from tests.end_to_end.web import get
from tests.servers.alertmanager import Alertmanager
from tests.servers.postgres import Postgres
from tests.servers.prometheus import Prometheus
from tests.servers.server import Server, answers

RULE = {
    "alert": "Faulty",
    "expr": "last_over_time(fault[1m]) > 0",  # a page that is missed, as where the machine stands still, is no end
    "labels": {"severity": "page"},
    "annotations": {"summary": "{{ $labels.server }} is faulty"},
}
SERIES = {"alertname": "Faulty", "server": "a", "severity": "page", "job": "faults"}


class Faults:
    """A page with one series, for Prometheus to scrape."""

    def __init__(self) -> None:
        self.value = 0
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f'fault{{server="a"}} {page.value}\n'.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not of interest."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @contextmanager
    def served(self) -> Iterator[str]:
        thread = Thread(target=self.server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{self.server.server_port}"
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


class Monitor(Server):
    """`inferwatch serve`. It reads the alerts of Prometheus as soon as it starts, and then every minute."""

    def __init__(self, folder: Path, port: int, prometheus: str, history: dict[str, str]) -> None:
        (folder / "token").write_text("secret")
        settings = {
            "prometheus": {"url": prometheus, "delay": "1s"},
            "alertmanager": {"bearer_token_file": "token"},
            "history": history,
            "listen": {"port": port},
        }
        config = folder / "monitor.yml"
        config.write_text(yaml.safe_dump(settings))
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "inferwatch", "serve", "--config", str(config)]
        super().__init__(command, folder, answers(f"{self.url}/healthz"))

    def rows(self) -> list[dict[str, Any]]:
        """The newest first."""
        found: list[dict[str, Any]] = get(f"{self.url}/api/v1/alerts").json()
        return found

    def row(self) -> dict[str, Any]:
        (only,) = self.rows()
        return only

    def reads(self) -> dict[str, Any]:
        """The only row once it was seen in Prometheus: newer samples each time."""
        self.restart()
        return until(lambda: self.row() if self.row()["last_seen"] else None, self.process)

    def sees_the_end(self) -> dict[str, Any]:
        """Each start reads at once, which may be before Prometheus tells of the end: then another start is needed."""
        for _ in range(4):
            self.restart()
            with suppress(AssertionError):
                return until(lambda: self.row() if self.row()["ends_at"] else None, self.process, within=30)
        raise AssertionError(self.process.output())


def alertmanager_of(monitor: str) -> str:
    """Two receivers, both of which are the monitor."""
    webhook = {
        "url": f"{monitor}/alertmanager",
        "http_config": {"authorization": {"credentials": "secret"}},
    }
    names = ("first", "second")
    route = {
        "receiver": names[-1],
        "routes": [{"receiver": name, "continue": True} for name in names],
        "group_wait": "0s",
        "group_interval": "1s",
        "repeat_interval": "1h",
    }
    receivers = [{"name": name, "webhook_configs": [webhook]} for name in names]
    return yaml.safe_dump({"route": route, "receivers": receivers})


def prometheus_of(target: str, alertmanager: str, rules: Path) -> str:
    rules.write_text(yaml.safe_dump({"groups": [{"name": "g", "interval": "1s", "rules": [RULE]}]}))
    settings = {
        "global": {
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "external_labels": {"cluster": "c1", "prometheus_replica": "p0"},
        },
        "rule_files": [str(rules)],
        "alerting": {
            "alert_relabel_configs": [{"action": "labeldrop", "regex": "prometheus_replica"}],
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}],
        },
        "scrape_configs": [{"job_name": "faults", "static_configs": [{"targets": [target]}]}],
    }
    return yaml.safe_dump(settings)


@pytest.fixture(params=["sqlite", "postgresql"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "sqlite":
        return {"path": str(tmp_path / "history.sqlite")}
    return {"url": request.getfixturevalue("postgres_url")}


@contextmanager
def everything(folder: Path, history: dict[str, str]) -> Iterator[tuple[Faults, Prometheus, Alertmanager, Monitor]]:
    faults, port = Faults(), free_port()
    with (
        faults.served() as target,
        Alertmanager(alertmanager_of(f"http://127.0.0.1:{port}"), folder) as alertmanager,
    ):
        config = prometheus_of(target, alertmanager.url, folder / "rules.yml")
        # An alert that Prometheus tells no more of is over for Alertmanager after four times this: if that were a few
        # seconds, it would be over where the machine stands still.
        with (
            Prometheus(config, folder, "--rules.alert.resend-delay=5s") as prometheus,
            Monitor(folder, port, prometheus.url, history) as monitor,
        ):
            until(lambda: prometheus.number("count_over_time(fault[5m])") >= 2, prometheus.process)
            yield faults, prometheus, alertmanager, monitor


def delivered(row: dict[str, Any]) -> dict[str, bool]:
    """Whether each receiver was told of the end."""
    return {receiver["name"]: receiver["resolved_at"] is not None for receiver in row["receivers"]}


def test_one_firing_is_one_row_from_its_start_to_its_end(tmp_path: Path, history: dict[str, str]) -> None:
    with everything(tmp_path, history) as (faults, prometheus, alertmanager, monitor):
        faults.value = 1

        def told(ends: bool) -> dict[str, Any]:
            row = monitor.rows()[0]
            assert delivered(row) == {"first": ends, "second": ends}
            return row

        first = until(lambda: told(False), alertmanager.process)
        (known,) = get(f"{alertmanager.url}/api/v2/alerts").json()
        assert (first["fingerprint"], first["labels"]) == (known["fingerprint"], known["labels"])
        assert first["labels"].items() >= {**SERIES, "cluster": "c1"}.items()
        assert (first["state"], first["annotations"]) == ("firing", {"summary": "a is faulty"})

        seen = monitor.reads()
        assert (seen["fingerprint"], seen["starts_at"]) == (first["fingerprint"], first["starts_at"])
        (samples,) = prometheus.ask('ALERTS{alertstate="firing"}[1h]')
        assert seen["starts_at"] == samples["values"][0][0], "Alertmanager and the samples agree"

        prometheus.stop()
        lost = until(lambda: told(True), alertmanager.process)
        assert lost["ends_at"] is None, "Alertmanager gave it up, but nobody saw it end"
        prometheus.start()
        until(lambda: told(False), alertmanager.process)
        until(lambda: prometheus.ask('ALERTS{alertstate="firing"}'), prometheus.process)
        back = monitor.reads()
        assert (back["starts_at"], back["ends_at"], back["state"]) == (seen["starts_at"], None, "firing")
        assert delivered(back) == {"first": False, "second": False}

        monitor.stop()
        faults.value = 0
        until(lambda: "connection refused" in alertmanager.process.output(), alertmanager.process)
        until(lambda: not prometheus.ask('ALERTS{alertstate="firing"}'), prometheus.process)
        monitor.start()
        until(lambda: told(True), alertmanager.process)

        end = monitor.sees_the_end()
        (samples,) = prometheus.ask('ALERTS{alertstate="firing"}[1h]')
        assert (end["starts_at"], end["state"]) == (first["starts_at"], "resolved")
        assert end["ends_at"] == pytest.approx(samples["values"][-1][0] + 1, abs=0.001), "one evaluation later"

        faults.value = 1
        until(lambda: len(monitor.rows()) == 2, alertmanager.process)
        again, before = monitor.rows()
        assert (again["state"], before) == ("firing", end)
        assert again["starts_at"] > end["ends_at"]


def test_what_cannot_be_stored_is_told_again(tmp_path: Path, postgres: Postgres, postgres_url: str) -> None:
    with everything(tmp_path, {"url": postgres_url}) as (faults, _, alertmanager, monitor):
        postgres.stop()
        faults.value = 1
        until(lambda: "unexpected status code 503" in alertmanager.process.output(), alertmanager.process)
        postgres.start()
        # The monitor may see it in Prometheus before it is told again.
        delivered = until(lambda: monitor.row()["delivered"], alertmanager.process)
    assert delivered is True
