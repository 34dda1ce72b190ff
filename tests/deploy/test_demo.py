from __future__ import annotations

from demo.standard import SPECS
from tests.deploy.compose import services
from tests.deploy.conftest import Built
from tests.deploy.stack import Stack, running
from tests.end_to_end.web import get


def test_the_demo_serves_a_simulated_fleet_for_prometheus_and_ends_in_order(built: Built) -> None:
    stack = Stack(built.stage, services(), {"demo": built.ours("monitor")}, {})
    with running(stack, [stack.services["demo"]]):
        with built.stage.network():
            page = get("http://127.0.0.1:9841/metrics").text
        assert stack.stop("demo") == 0
    up = [line for line in page.splitlines() if line.startswith("llm_up{")]
    assert len(up) == len(SPECS)
    assert all('source="simulated"' in line for line in up)
