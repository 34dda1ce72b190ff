from __future__ import annotations

import pytest

from exporters.config import Config, Server
from exporters.sidecar import Sidecar
from monitor.history.minutes import State, Window, advance
from monitor.sources.sidecar_url import SidecarUrl
from tests.end_to_end.processes import DEADLINE
from tests.exporters.servers import pages, response, serving

NOW = 1_800_000_000.0
OWNED = {"/v1/models": response('{"data": [{"id": "m", "owned_by": "sglang"}]}', content_type="application/json")}
BURST = response(
    'sglang:prompt_tokens_total{model_name="m"} 800\n'
    'sglang:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} 98\n'
    'sglang:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 100\n'
    'sglang:time_to_first_token_seconds_count{model_name="m"} 100\n'
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that come are waited for, also on a machine that stands still for a while."""
    monkeypatch.setattr("exporters.target._SETTLE_SECONDS", DEADLINE)


async def minutes(first: bytes, documents: dict[str, bytes]) -> list[Window]:
    """What the history makes of a server that answers `first` and 15 seconds later the burst: by the sidecar of its own
    process, and by the page of one elsewhere."""
    here, there = State(), State()
    at = [NOW]
    answers, shown = dict(documents), {"/metrics": response("\n")}
    async with serving(pages(answers)) as served, serving(pages(shown)) as elsewhere:
        servers = (Server.model_validate({"url": served.url, "name": "s1", "timeout": DEADLINE}),)
        sidecar = Sidecar(Config(node="n1", servers=servers), clock=lambda: at[0])
        far = SidecarUrl(elsewhere.url, DEADLINE, clock=lambda: at[0])
        for page in (first, BURST):
            answers["/metrics"] = page
            collected = await sidecar.collect()
            shown["/metrics"] = response(sidecar.page(collected))
            advance(here, collected[0].observation, 30)
            advance(there, (await far.observe())[0], 30)
            at[0] += 15
        await sidecar.aclose()
        await far.aclose()
    return [state.window for state in (here, there) if state.window is not None]


@pytest.mark.parametrize(
    ("first", "documents", "tokens", "requests"),
    [
        (response(""), OWNED, [800], [100]),
        (response(""), {}, [], []),
        (response(status=404), OWNED, [], []),
        (response(status=503), OWNED, [], []),
    ],
    ids=["an empty page", "an empty page of nobody", "no page", "an error"],
)
async def test_a_sidecar_anywhere_tells_whether_the_first_requests_are_new(
    first: bytes, documents: dict[str, bytes], tokens: list[float], requests: list[float]
) -> None:
    found = await minutes(first, documents)
    assert len(found) == 2
    for window in found:
        counted = [m.counters for m in window.rows.values() if m.counters]
        assert [counters["llm_prompt_tokens_total", ""] for counters in counted] == tokens
        assert [h.count for m in window.rows.values() for h in m.histograms.get("ttft", ())] == requests
