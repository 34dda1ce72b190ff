from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.end_to_end.processes import until
from tests.servers.prometheus import Prometheus
from tests.servers.victoria_metrics import VictoriaMetrics

AT_ONCE = "-search.latencyOffset=0s"
HISTORY = """\
# TYPE requests counter
requests_total{server="a"} 3 1700000000
requests_total{server="a"} 10 1700000060.5
# EOF
"""


def test_loaded_history_is_answered_and_outlives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "history.om"
    file.write_text(HISTORY)
    with VictoriaMetrics("", tmp_path) as victoria:
        victoria.load(file)
        assert victoria.number("requests_total", time="1700000090") == 10
        victoria.restart()
        (raw,) = victoria.ask("requests_total[3m]", time="1700000120")
    assert raw["values"] == [[1700000000, "3"], [1700000060.5, "10"]]


def test_prometheus_writes_to_it(tmp_path: Path) -> None:
    with VictoriaMetrics("", tmp_path, AT_ONCE) as victoria:
        scrape = {"job_name": "victoria", "static_configs": [{"targets": [victoria.url.removeprefix("http://")]}]}
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [scrape],
            "remote_write": [{"url": f"{victoria.url}/api/v1/write", "queue_config": {"batch_send_deadline": "100ms"}}],
        }
        with Prometheus(yaml.safe_dump(settings), tmp_path) as prometheus:
            (up,) = until(lambda: victoria.ask("up == 1"), prometheus.process)
    assert (up["metric"]["job"], up["value"][1]) == ("victoria", "1")


def test_a_configuration_that_it_refuses_fails_the_test_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="field no_such_thing not found"):
        VictoriaMetrics("no_such_thing: 1", tmp_path).start()
