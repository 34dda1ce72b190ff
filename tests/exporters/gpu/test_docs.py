from __future__ import annotations

import re
from pathlib import Path

from exporters import schema
from exporters.gpu.xids import XIDS, Class

PAGE = (Path(__file__).parents[3] / "docs" / "gpus.md").read_text()


def test_every_metric_has_a_row_that_says_where_it_comes_from() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `gpu_")]
    assert {metric for row in rows for metric in re.findall(r"`(\w+)`", row)} == {
        metric.name for metric in schema.of_prefix("gpu_")
    }


def test_every_xid_is_listed_with_its_class() -> None:
    for kind in set(Class) - {Class.OTHER}:
        found = re.search(rf"`{kind.value}` for[^()]*\(([0-9,\s]+)\)", PAGE)
        assert found
        assert [int(n) for n in found[1].split(",")] == [xid for xid, each in XIDS.items() if each.kind is kind]
