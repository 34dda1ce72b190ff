"""The strip as a browser without JavaScript sees it."""

from __future__ import annotations

import re

import httpx
import pytest
from fastapi import FastAPI

from exporters.findings import finding
from exporters.gpu.gathered import Gathered
from monitor.page.routes import router
from tests.monitor.gpu_data import bare_host, busy_host, gathered, lost, reading
from tests.monitor.page.fleet_data import FLEET, HOSTILE, NOW, Past, Server, clock, fleet_of
from tests.monitor.page.test_routes import Elements, seen

CHAT = FLEET[0]


async def html(path: str, *told: Gathered, node: str = "gpu-07", servers: tuple[Server, ...] = (CHAT,)) -> str:
    fleet, app = fleet_of(*servers), FastAPI()
    for each in told:
        fleet.gpus.update(node, each)
    app.include_router(router(fleet, Past(*servers), clock=clock))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as monitor:
        return (await monitor.get(path)).text


def strip(text: str) -> str:
    return "".join(re.findall(r'<section class="gpus".*?</section>', text, re.DOTALL))


@pytest.mark.parametrize("path", ["/", "/servers/gpu-10/batch"])
async def test_a_server_that_is_down_names_the_lost_gpu_as_the_cause_first(path: str) -> None:
    (batch,) = (server for server in FLEET if server.server == "batch")
    before = gathered(NOW - 30, reading("0"), reading("3"), node="gpu-10", on={"3": "batch"})
    text = await html(
        path, before, gathered(NOW, reading("0"), lost("3"), node="gpu-10"), node="gpu-10", servers=(batch,)
    )
    assert Elements(text).wrong == []
    told = seen(text)
    assert "probable cause: GPU 3 is lost, and this server was on it. error: " in told
    assert "/runbooks/" not in text, "there are none where no alerts are judged"
    assert told.index("probable cause") < told.index("http://gpu-10:8000/metrics")


async def test_gpus_are_listed_below_the_servers_by_node() -> None:
    text = await html("/", *busy_host(NOW))
    told = seen(strip(text))
    assert text.index("</table>") < text.index('<section class="gpus"')
    assert told.startswith(
        "GPUs gpu-07 GPU 0 NVIDIA H100 80GB HBM3 up Utilisation 93 % SMs 41 % Memory 71.2 / 79.6 GiB"
    )
    assert "Power 642 / 700 W Temperature 54 °C memory 61 °C runs chat-a" in told
    assert "It says “not idle”, never “how full”." in told
    assert '<a href="/servers/gpu-07/chat-a">chat-a</a>' in strip(text)


async def test_a_lost_gpu_shows_dashes_with_the_reason() -> None:
    told = seen(strip(await html("/", *busy_host(NOW))))
    lost = told[told.index("GPU 2 ") : told.index("GPU 3 ")]
    assert "lost : error" not in lost
    assert "XID 79 : XID 79: the GPU has fallen off the bus" in lost
    assert lost.count("– not known: the GPU does not answer: nothing is known of it now") == 4
    assert not re.search(r"\b0\b", lost)


async def test_a_gpu_that_is_back_is_up_again() -> None:
    before, after = busy_host(NOW - 30)
    assert "lost" in seen(strip(await html("/", before, after)))
    back = seen(strip(await html("/", before, after, gathered(NOW, reading("2")))))
    assert "lost" not in back
    assert "GPU 2 NVIDIA H100 80GB HBM3 up Utilisation 93 %" in back


async def test_instances_stand_within_their_gpu() -> None:
    told = seen(strip(await html("/", *busy_host(NOW))))
    split = told[told.index("GPU 3 ") : told.index("GPU 4 ")]
    assert "Instance 3:0 1g.10gb up" in split
    assert "Memory 4.5 / 9.8 GiB" in split
    assert "runs unknown:8000" in split
    assert "Power" not in split[split.index("Instance") :]


async def test_findings_say_which_gpu_and_what_to_do() -> None:
    told = seen(strip(await html("/", *busy_host(NOW))))
    assert "error: GPU 4: Uncorrected ECC errors: memory lost data. 2 since the driver was loaded Restart" in told
    assert "Power – not known: not permitted to this process / 700 W" in told


async def test_a_host_without_gpus_has_one_quiet_line_with_the_reason() -> None:
    text = await html("/", bare_host(NOW))
    assert seen(strip(text)).startswith("gpu-07: gpu: unavailable, There is no NVIDIA GPU here, as far as this process")
    assert "(libnvidia-ml.so.1 is not here)" in strip(text)
    assert "<h2>" not in strip(text)


async def test_where_gpus_are_switched_off_there_is_nothing() -> None:
    assert strip(await html("/")) == ""


async def test_the_page_of_a_server_shows_its_gpus() -> None:
    told = seen(strip(await html("/servers/gpu-07/chat-a", *busy_host(NOW))))
    assert told.startswith("GPUs of this server gpu-07 GPU 0 ")
    assert "GPU 1 " in told
    assert "GPU 2 " not in told
    assert strip(await html("/servers/gpu-08/chat-b", *busy_host(NOW), servers=FLEET)) == ""


async def test_hostile_names_of_gpus_do_nothing() -> None:
    info = {"name": HOSTILE, "mig_profile": HOSTILE}
    gpu = reading(HOSTILE, info=info, findings=(finding("gpu_ecc_uncorrected", HOSTILE),))
    told = gathered(NOW, gpu, node=HOSTILE, on={HOSTILE: HOSTILE}, findings=(finding("gpu_not_here", HOSTILE),))
    for path in ("/", "/fragments/fleet"):
        text = await html(path, told, node=HOSTILE)
        elements = Elements(text)
        assert elements.wrong == []
        assert "<script>alert" not in text
        assert strip(text).count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 6
    quiet = await html("/", gathered(NOW, node=HOSTILE, findings=(finding("gpu_none", HOSTILE),)), node=HOSTILE)
    assert "<script>alert" not in quiet


async def test_the_html_is_well_formed() -> None:
    for path in ("/", "/servers/gpu-07/chat-a"):
        elements = Elements(await html(path, *busy_host(NOW)))
        assert elements.wrong == []
        assert [tag for tag, attrs in elements.found if "style" in attrs] == []
        ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
        assert len(ids) == len(set(ids))
