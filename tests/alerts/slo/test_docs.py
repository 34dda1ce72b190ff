from __future__ import annotations

import re
from pathlib import Path

from alerts.budget import State
from alerts.burn import WINDOWS_30D, duration, windows
from alerts.slo.spec import PHASES, Slo, read
from exporters.schema import DEFAULT_BOUNDS

PAGE = (Path(__file__).parents[3] / "docs" / "slo.md").read_text(encoding="utf-8")


def rows(section: str) -> list[str]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_every_key_and_state_has_its_row() -> None:
    assert rows("Keys") == list(Slo.model_fields)
    assert rows("States") == [state.value for state in State]


def test_the_example_is_good(tmp_path: Path) -> None:
    block = PAGE.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "slo.yml").write_text(block)
    assert len(read(tmp_path / "slo.yml").slos) == 3


def test_burn_windows_are_told_as_they_are() -> None:
    rows = re.findall(
        r"^\| (page|ticket) \| ([\d.]+) \| (\d+) (h|d) \| (\d+) (min|h) \| (\d+) % \|$", PAGE, re.MULTILINE
    )
    assert rows == [
        (
            w.severity,
            str(w.factor),
            duration(w.long)[:-1],
            duration(w.long)[-1],
            *_spaced(w.short),
            f"{w.share(30):.0%}"[:-1],
        )
        for w in WINDOWS_30D
    ]
    for w in windows(7):
        assert f"{w.factor} over {' '.join(_spaced(w.long))} and {' '.join(_spaced(w.short))}" in PAGE


def _spaced(seconds: int) -> tuple[str, str]:
    text = duration(seconds)
    return text[:-1], {"m": "min", "h": "h", "d": "d"}[text[-1]]


def test_shared_bounds_are_told_as_they_are() -> None:
    shared = {
        phase: set.intersection(*(set(b) for name, b in DEFAULT_BOUNDS[phase].items() if name not in ("triton", "nim")))
        for phase in PHASES
    }
    assert {0.1, 1, 10, 20, 40} <= shared["ttft"]
    assert {1, 10, 20, 40, 60} <= shared["e2e"]
    assert {0.1, 0.2, 0.4, 1} <= shared["itl"]
