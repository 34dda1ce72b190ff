from __future__ import annotations

from pathlib import Path

from tests.alerts.rules.worlds import expect, gauge

PAGE = (Path(__file__).parents[3] / "docs" / "rules.md").read_text(encoding="utf-8")
RULES = next(block.split("```")[0] for block in PAGE.split("```yaml\n")[1:] if "NothingWatched" in block)
AT = 'job="inferwatch",instance="n1:9840"'
FIRING = 'count by (alertname, severity) (ALERTS{alertstate="firing"})'


def watched(up: str) -> dict[str, str]:
    """One server, that is heard of for half an hour, and the process that read it."""
    server = {f'llm_up{{node="n1",server="a",{AT}}}': f"{gauge((30, 1))} stale"}
    return server | {f'inferwatch_build_info{{node="n1",{AT}}}': f"{gauge((30, 1))} stale", f"up{{{AT}}}": up}


def test_the_alert_for_an_empty_fleet_fires_once_nothing_is_watched(tmp_path: Path) -> None:
    fires = {'{alertname="NothingWatched", severity="page"}': 1.0}
    asked: dict[tuple[int, str], dict[str, float]] = {(29, FIRING): {}, (39, FIRING): {}, (40, FIRING): fires}
    expect(tmp_path, RULES, watched(f"{gauge((30, 1))} stale"), asked)
    expect(tmp_path, RULES, watched(gauge((60, 1))), asked)  # it still answers, and has no server any more


def test_the_alert_for_an_empty_fleet_leaves_to_others_what_does_not_answer(tmp_path: Path) -> None:
    expect(tmp_path, RULES, watched(gauge((30, 1), (30, 0))), {(45, FIRING): {}, (59, FIRING): {}})
