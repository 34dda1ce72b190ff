"""Every kind of fault of the simulated fleet that no setting of a server does away with: the advice says nothing wrong
of it, neither while it lasts nor after it. Those that advice is about are in `test_simulated_advice.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from alerts.slo.published import DEFAULT
from alerts.slo.spec import read
from demo.faults import KINDS
from demo.fleet import Service
from demo.model import Limits
from demo.server import Spec
from demo.workload import CHAT, Rate
from tests.end_to_end.advised import HOUR, MINUTE, NODE, START, Lived, lived, names
from tests.end_to_end.advised_days import Copy, copy

BEGINS, LASTS, AFTER = 20 * MINUTE, 25 * MINUTE, 15 * MINUTE
ENDS = BEGINS + LASTS
ILL = ENDS - 5 * MINUTE
"""When the adviser is asked while everything is ill."""
END = ENDS + AFTER
FRONTENDS = {
    "vllm": "0.32.0", "sglang": "0.5.23", "lmdeploy": "0.18.0", "trtllm_serve": "1.3.0", "triton": "24.11",
}  # fmt: skip
_LIMITS = Limits(running=64, waiting=256, kv_tokens=80_000)


def _spec(name: str, gpu: int, frontend: str = "vllm") -> Spec:
    return Spec(
        name, NODE, frontend, FRONTENDS[frontend], f"m-{name}", (gpu,), _LIMITS, slowness=4.0,
        renamed={"vllm:time_to_first_token_seconds": "vllm:ttft_seconds"}, tells_iterations=frontend != "trtllm_serve",
    )  # fmt: skip


AT: Mapping[str, Sequence[str]] = {
    "gpu": ("xid", "ecc", "thermal", "restart"),
    "page": ("slow_body", "frozen_gauges", "errors"),
    **{kind: (kind,) for kind in (
        "silent", "down", "truncated_body", "renamed", "unauthorized", "empty", "outage", "gpu_lost",
    )},
}  # fmt: skip
"""Faults by the server that has them. What does no harm to advice comes together: it does none all the more."""
HANGING = {f"hang-{frontend}": frontend for frontend in FRONTENDS}
SPECS = tuple(_spec(name, gpu, HANGING.get(name, "vllm")) for gpu, name in enumerate((*AT, *HANGING)))
SERVICES = tuple(Service(f"of-{spec.name}", (spec.name,), CHAT, Rate(0.05)) for spec in SPECS)


def _order(kind: str, server: str, **more: object) -> dict[str, object]:
    targets = {"server": server, "service": f"of-{server}", "gpu": f"{NODE}/{[*AT, *HANGING].index(server)}"}
    return {"kind": kind, "target": targets[KINDS[kind].on], "after": BEGINS, "seconds": LASTS, **more}


FAULTS = [
    *(_order(kind, server) for server, kinds in AT.items() for kind in kinds),
    *(_order("hang", server) for server in HANGING),
    *(_order("overload", server, after=BEGINS - 2 * MINUTE, factor=12) for server in HANGING),
]
"""So many requests that those which hang have much to do: what waits at them looks like too much load."""
HARMLESS_TO_ADVICE = KINDS.keys() - {"kv_exhaustion", "prefix_collapse", "overload", "imbalance"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder, slos = tmp_path_factory.mktemp("faults"), read(DEFAULT).slos
    with lived(SPECS, SERVICES, END, folder, orders=FAULTS, slos=slos, looks=(ILL,)) as made:
        yield made


def test_every_kind_of_fault_happens_that_no_setting_does_away_with() -> None:
    assert {str(order["kind"]) for order in FAULTS} - {"overload"} == HARMLESS_TO_ADVICE


def test_nothing_is_advised_while_faults_last(fleet: Lived) -> None:
    assert names(fleet.meanwhile[ILL]) == {}


@pytest.mark.parametrize("now", [END, None], ids=["with what servers say", "from the history alone"])
def test_nothing_is_advised_after_them(fleet: Lived, now: float | None) -> None:
    assert names(fleet.advice(0, END, now=now)) == {}


def test_nothing_is_advised_where_the_window_is_all_fault(fleet: Lived) -> None:
    assert names(fleet.advice(BEGINS, ENDS)) == {}


@pytest.fixture(scope="module")
def hours(fleet: Lived) -> Lived:
    """The faults lasted for fourteen hours before: the same quarter of an hour again and again."""
    ill = int(START + BEGINS + 5 * MINUTE), int(START + ENDS - 5 * MINUTE)
    copy(fleet.history.engine, [Copy(*ill, int(START) - n * 15 * MINUTE) for n in range(14 * 4, 0, -1)])
    return fleet


@pytest.mark.parametrize("since", [-7 * HOUR, -14 * HOUR], ids=["at steps of five minutes", "at steps of an hour"])
def test_nothing_is_advised_where_faults_last_for_hours(hours: Lived, since: float) -> None:
    """The GPU of a server that hangs is not taken for idle."""
    assert names(hours.advice(since, END)) == names(hours.advice(since, 0)) == {}


@pytest.mark.parametrize("server", ["hang-vllm", "hang-lmdeploy"])
def test_servers_that_hung_looked_as_if_they_had_too_much_to_do(fleet: Lived, server: str) -> None:
    """The others show what waited when they still moved."""
    asked = ("llm_requests_waiting", None, START + BEGINS, START + ENDS, LASTS, ("server",), {"server": server}, "max")
    (told,) = fleet.history.ask(*asked)
    assert max(point.value for point in told.points) > 100


def test_what_the_history_cannot_tell_of_unreadable_servers_is_said(fleet: Lived) -> None:
    """From the history alone nobody knows whether a flag, credentials or a proxy is at fault."""
    advice = fleet.advice(BEGINS, ENDS).advice
    (unknown,) = [missing for missing in advice.missing if missing.name == "metrics_missing"]
    assert unknown.needs == "why its engine metrics can be read no more: `inferwatch check` tells it"
    assert {target.server for target in unknown.targets} == {"truncated_body", "unauthorized", "empty"}
