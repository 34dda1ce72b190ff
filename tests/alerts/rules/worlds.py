"""Small worlds for promtool: a few servers, what they count minute by minute, and what fires when."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from alerts.burn import BurnWindow
from alerts.rules.model import Alert, Recording
from alerts.rules.scope import PIECE, Scope
from alerts.rules.slo import groups_of
from alerts.rules.text import rule_file
from alerts.slo.spec import Slo, read
from exporters.exposition import format_bound
from exporters.histogram import Histogram, on_grid
from exporters.schema import DEFAULT_BOUNDS, PHASES
from exporters.tables import FRONTENDS
from tests.services import require

SAMPLES_PER_MINUTE = 2
Segment = tuple[int, float]
"""Minutes, and how much is added in each."""


def slo_of(folder: Path, **keys: str) -> Slo:
    told = {"name": "chat", "objective": "99%"} | keys
    path = folder / "slo.yml"
    path.write_text("version: 1\nslos:\n  - " + "\n    ".join(f"{k}: {v}" for k, v in told.items()) + "\n")
    return read(path).slos[0]


def rules_of(slo: Slo, windows: Sequence[BurnWindow] | None = None) -> str:
    """promtool evaluates every group each minute, whatever its interval: pieces are made in every fifth alone."""
    groups = groups_of(Scope(slo), slo.burn_windows()[0] if windows is None else windows)
    return rule_file(replace(g, rules=tuple(map(_in_every_fifth_minute, g.rules))) for g in groups)


def _in_every_fifth_minute(rule: Recording | Alert) -> Recording | Alert:
    if not isinstance(rule, Recording) or not rule.record.endswith(f":{PIECE}"):
        return rule
    return replace(rule, expr=f"({rule.expr}) and on () (minute() % 5 == 0)")


def counter(*segments: Segment | int, start: float = 0.0) -> str:
    """In promtool's notation. A segment is (minutes, per minute); a number is minutes away, then it starts at 0."""
    parts, value, fresh = [], start, True
    for segment in segments:
        if isinstance(segment, int):
            parts.append(f"_x{segment * SAMPLES_PER_MINUTE}")
            value, fresh = 0.0, True
            continue
        step, steps = segment[1] / SAMPLES_PER_MINUTE, segment[0] * SAMPLES_PER_MINUTE
        first = value if fresh else value + step
        parts.append(f"{first!r}+{step!r}x{steps if fresh else steps - 1}")
        value, fresh = value + step * steps, False
    return " ".join(parts)


def gauge(*segments: tuple[int, float] | int) -> str:
    parts = []
    for segment in segments:
        if isinstance(segment, int):
            parts.append(f"_x{segment * SAMPLES_PER_MINUTE}")
        else:
            parts.append(f"{segment[1]!r}x{segment[0] * SAMPLES_PER_MINUTE - 1}")
    return " ".join(parts)


@dataclass(frozen=True)
class Engine:
    frontend: str = "vllm"
    server: str = "s1"
    model: str = "m"
    role: str = "unified"

    def labels(self, **more: str) -> str:
        found = {
            "node": "n1", "server": self.server, "framework": FRONTENDS[self.frontend].framework, "model": self.model,
            "role": self.role, "engine": "0", **more,
        }  # fmt: skip
        return "{" + ",".join(f'{k}="{v}"' for k, v in found.items()) + "}"

    def series(self, metric: str, values: str, **more: str) -> dict[str, str]:
        return {metric + self.labels(**more): values}

    def up(self, values: str) -> dict[str, str]:
        return {f'llm_up{{node="n1",server="{self.server}"}}': values}

    def info(self, values: str, version: str = "1") -> dict[str, str]:
        return self.series("llm_server_info", values, version=version, frontend=self.frontend)

    def latencies(
        self, phase: str, minutes: Sequence[tuple[int, Mapping[float, float]] | int], bounds: Iterable[float] = ()
    ) -> dict[str, str]:
        """Per segment how many requests a minute take how long; through the server's bounds onto the shared grid."""
        native = tuple(bounds) or tuple(map(float, DEFAULT_BOUNDS[phase][self.frontend]))
        grid, metric = PHASES[phase].grid, PHASES[phase].metric
        found: dict[str, str] = {}
        for i, le in enumerate([*grid, float("inf")]):
            segments = [s if isinstance(s, int) else (s[0], _on_grid(native, grid, s[1]).counts[i]) for s in minutes]
            found |= self.series(f"{metric}_bucket", counter(*segments), le=format_bound(le))
        totals = [s if isinstance(s, int) else (s[0], sum(s[1].values())) for s in minutes]
        present = gauge(*(s if isinstance(s, int) else (s[0], 1.0) for s in minutes))
        text = ",".join(map(format_bound, native))
        return {
            **found,
            **self.series(f"{metric}_count", counter(*totals)),
            **self.series("llm_latency_native_bounds_info", present, phase=phase, bounds=text),
            **self.info(present),
        }

    def finished(self, **reasons: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for reason, values in reasons.items():
            found |= self.series("llm_requests_finished_total", values, reason=reason)
        return found


def _on_grid(native: tuple[float, ...], grid: tuple[float, ...], latencies: Mapping[float, float]) -> Histogram:
    counts = [sum(n for latency, n in latencies.items() if latency <= b) for b in native]
    return on_grid(Histogram(native, (*counts, sum(latencies.values()))), grid)


def expect(
    folder: Path,
    rules: str,
    series: Mapping[str, str],
    asked: Mapping[tuple[int, str], Mapping[str, float]],
    step: int = 1,
    sample_seconds: int = 60 // SAMPLES_PER_MINUTE,
) -> None:
    """`asked`: by minute and expression, the labels and values that it has then; rules run every `step` minutes."""
    (folder / "rules.yml").write_text(rules)
    names = [group["name"] for group in yaml.safe_load(rules)["groups"]]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{step}m",
        "group_eval_order": names,
        "tests": [
            {
                "interval": f"{sample_seconds}s",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
                    }
                    for (minute, expr), samples in asked.items()
                ],
            }
        ],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(test))
    ran = subprocess.run(
        [require("promtool"), "test", "rules", str(folder / "test.yml")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def alerts(
    folder: Path, rules: str, series: Mapping[str, str], expected: Mapping[int, Iterable[str]], step: int = 1
) -> None:
    """By minute, what fires: `SloBurnPage`, or `SloBurnPage m-b` where the model is not `m`."""
    expr = 'count by (alertname, model) (ALERTS{alertstate="firing"})'
    asked = {(minute, expr): {_labels(name): 1.0 for name in names} for minute, names in expected.items()}
    expect(folder, rules, series, asked, step)


def _labels(name: str) -> str:
    alert, _, model = name.partition(" ")
    return f'{{alertname="{alert}", model="{model or "m"}"}}'
