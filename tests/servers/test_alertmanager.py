from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.processes import until
from tests.end_to_end.web import get
from tests.servers.alertmanager import Alertmanager
from tests.servers.server import ran
from tests.services import require

NOBODY = "{route: {receiver: nobody}, receivers: [{name: nobody}]}"


def test_it_takes_an_alert(tmp_path: Path) -> None:
    with Alertmanager(NOBODY, tmp_path) as alertmanager:
        ran([require("amtool"), f"--alertmanager.url={alertmanager.url}", "alert", "add", "TooSlow", "server=a"])
        (alert,) = until(lambda: get(f"{alertmanager.url}/api/v2/alerts").json(), alertmanager.process)
    assert (alert["labels"], alert["status"]["state"]) == ({"alertname": "TooSlow", "server": "a"}, "active")


def test_it_is_at_the_same_place_after_a_restart(tmp_path: Path) -> None:
    with Alertmanager(NOBODY, tmp_path) as alertmanager:
        url = alertmanager.url
        alertmanager.restart()
        status = get(f"{url}/api/v2/status").json()
    assert status["cluster"]["status"] == "disabled"


def test_a_configuration_that_it_refuses_fails_the_test_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no routes provided"):
        Alertmanager("receivers: []", tmp_path).start()
