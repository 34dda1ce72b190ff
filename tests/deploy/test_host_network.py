from __future__ import annotations

from tests.deploy.compose import HOST_NETWORK, Service, document, services
from tests.deploy.conftest import Built
from tests.deploy.stack import Stack, running
from tests.end_to_end.processes import until
from tests.end_to_end.recorded import VLLM, serving, vllm
from tests.end_to_end.web import get


def test_on_the_hosts_network_the_sidecar_finds_what_listens_on_loopback(built: Built) -> None:
    over = document(HOST_NETWORK)["services"]
    under = services()["sidecar"].content
    healthcheck = under["healthcheck"] | over["sidecar"]["healthcheck"]
    sidecar = Service("sidecar", {**under, **over["sidecar"], "healthcheck": healthcheck})
    stack = Stack(built.stage, {"sidecar": sidecar}, {"sidecar": built.ours("sidecar")}, {})
    with built.stage.network():
        server = serving(vllm(VLLM, "1-mid10"), 30000)
        with server, running(stack, [sidecar]):
            until(lambda: 'server="localhost:30000"' in get("http://127.0.0.1:9841/metrics").text)
    assert over["prometheus"] == {"extra_hosts": ["sidecar:host-gateway"]}
