from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus

NOTHING = "global: {scrape_interval: 1h}"
HISTORY = """\
# HELP requests Made by hand: a restart after the second sample.
# TYPE requests counter
requests_total{server="a"} 3 1700000000
requests_total{server="a"} 10 1700000060.5
requests_total{server="a"} 2 1700000120
# EOF
"""


@pytest.fixture
def openmetrics(tmp_path: Path) -> Path:
    file = tmp_path / "history.om"
    file.write_text(HISTORY)
    return file


def test_loaded_history_is_answered_and_outlives_a_restart(tmp_path: Path, openmetrics: Path) -> None:
    prometheus = Prometheus(NOTHING, tmp_path)
    prometheus.load(openmetrics)
    with prometheus:
        url = prometheus.url
        prometheus.restart()
        assert prometheus.url == url
        assert prometheus.number("requests_total", time="1700000090") == 10
        assert prometheus.number("resets(requests_total[3m])", time="1700000120") == 1
        (raw,) = prometheus.ask("requests_total[3m]", time="1700000120")
    assert raw["values"] == [[1700000000, "3"], [1700000060.5, "10"], [1700000120, "2"]]


def test_a_stopped_one_refuses_connections(tmp_path: Path) -> None:
    with Prometheus(NOTHING, tmp_path) as prometheus:
        prometheus.stop()
        with pytest.raises(OSError, match="refused"):
            prometheus.ask("up")
        prometheus.start()
        assert prometheus.ask("up") == []


def test_flags_reach_it(tmp_path: Path) -> None:
    with Prometheus(NOTHING, tmp_path, "--web.enable-remote-write-receiver") as prometheus:
        flags = get(f"{prometheus.url}/api/v1/status/flags").json()["data"]
    assert flags["web.enable-remote-write-receiver"] == "true"


def test_a_configuration_that_it_refuses_fails_the_test_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="field no_such_thing not found"):
        Prometheus("no_such_thing: 1", tmp_path).start()


def test_history_that_promtool_refuses_fails_the_test_with_its_words(tmp_path: Path, openmetrics: Path) -> None:
    openmetrics.write_text(HISTORY.removesuffix("# EOF\n"))
    with pytest.raises(AssertionError, match="does not end with # EOF"):
        Prometheus(NOTHING, tmp_path).load(openmetrics)
