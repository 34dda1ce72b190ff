from __future__ import annotations

from pathlib import Path

import pytest

from demo.standard import standard
from inferwatch.console import CommandError
from inferwatch.simulated import order_from
from tests.inferwatch.command import Command

START = 1_796_000_000.0
PLAN = """
# an evening of trouble
- {kind: hang, target: vllm-chat-1, after: 120}
- kind: xid
  target: sim-1/0
  after: 3600
  code: 31
"""


def ordered(file: Path, text: str) -> list[tuple[str, str, float, float]]:
    fleet = standard(seed=1, start=START)
    file.write_text(text)
    order_from(file, fleet, START + 600)
    return [(fault.kind, fault.target, fault.begins, fault.ends) for fault in fleet.schedule]


def test_a_file_of_orders_counts_from_the_start_of_the_demo_and_not_from_that_of_its_past(tmp_path: Path) -> None:
    begins = START + 600 + 120
    assert ordered(tmp_path / "plan.yml", PLAN) == [
        ("hang", "vllm-chat-1", begins, begins + 900),
        ("xid", "sim-1/0", START + 600 + 3600, START + 600 + 3601),
    ]


def test_a_file_may_be_what_is_sent_to_a_running_demo(tmp_path: Path) -> None:
    text = '{"kind": "outage", "target": "chat", "seconds": 60}'
    assert ordered(tmp_path / "plan.json", text) == [("outage", "chat", START + 600, START + 660)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {kind: hang, target: vllm-chat-1}\n- {kind: hnag, target: vllm-chat-2}",
         r"plan\.yml: \[1\]\.kind: 'hnag': allowed: restart, hang, .*; did you mean hang\?"),
        ("{kind: overload, target: vllm-chat-1, factor: 1000}",
         r"plan\.yml: factor: 1000: allowed: a number from 1\.1 to 200"),
        ("[{kind: xid, target: sim-1/0, code: 79.5}]",
         r"plan\.yml: \[0\]\.code: 79\.5: allowed: a whole number from 1 to 999"),
        ("- {kind: hang, target: vllm-chat-1}\n- {kind: hang, target: vllm-chat-1, after: 899}",
         r"plan\.yml: target: 'vllm-chat-1': allowed: no second hang while number 1 lasts"),
        ("", r"plan\.yml: order: None: allowed: an object with `kind` and `target`"),
        ("- {kind: hang, kind: down, target: vllm-chat-1}", r"plan\.yml: .*kind"),
        ("- {kind: hang", r"plan\.yml: line 1, column 14: .*: allowed: YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        ordered(tmp_path / "plan.yml", text)


def test_a_demo_does_not_start_with_a_wrong_file(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("up", "--demo", "--faults", str(tmp_path / "none.yml"), "--listen", "127.0.0.1:0")
    assert ran.status == 2
    assert "none.yml: could not be read: No such file or directory" in ran.err


def test_real_servers_are_ordered_no_faults(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("up", "--faults", str(tmp_path / "plan.yml"))
    assert ran.status == 2
    assert "--faults: only with --demo" in ran.err
