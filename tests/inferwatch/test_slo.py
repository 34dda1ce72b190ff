from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from alerts.slo.published import DEFAULT
from inferwatch.generate import ROOT
from tests.exporters.servers import unused_url
from tests.inferwatch.command import Command
from tests.servers.prometheus import Prometheus

OPENSLO = ROOT / "tests" / "alerts" / "slo" / "openslo"


def test_the_first_objectives_are_written_once(inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "slo.yml"
    assert inferwatch("slo", "init", str(file)).out == f"written: {file}\n"
    assert file.read_text() == DEFAULT.read_text()
    again = inferwatch("slo", "init", str(file))
    assert (again.status, again.err) == (2, f"inferwatch: {file}: there is one already: --overwrite replaces it\n")
    assert inferwatch("slo", "init", str(file), "--overwrite").status == 0


def test_a_folder_that_is_not_there_is_told(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("slo", "init", str(tmp_path / "no" / "slo.yml"))
    assert (ran.status, ran.err.endswith("could not be written: No such file or directory\n")) == (2, True)


def test_the_first_objectives_are_good_with_warnings(inferwatch: Command) -> None:
    ran = inferwatch("slo", "check", str(DEFAULT))
    assert ran.status == 0
    assert ran.out.endswith(f"{DEFAULT}: 6 objectives, no error\n")
    assert f"{DEFAULT}: warning: slos[2] inter-token: triton: does not measure itl" in ran.out


def test_bad_objectives_end_the_command_with_their_message(inferwatch: Command) -> None:
    file = ROOT / "tests" / "alerts" / "slo" / "bad" / "threshold-off-the-grid.yml"
    ran = inferwatch("slo", "check", str(file))
    assert (ran.status, ran.out) == (2, "")
    told = f"{file}: slos[0].indicator.latency.below: '3s': allowed: a bound of the grid of ttft: 2.5 or 4.0"
    assert ran.err == f"inferwatch: {told}\n"


@pytest.mark.parametrize("name", ["latency", "availability", "slices"])
def test_what_is_imported_is_good(name: str, inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("slo", "import", str(OPENSLO / f"{name}.yml"))
    file = tmp_path / "slo.yml"
    file.write_text(ran.out)
    assert inferwatch("slo", "check", str(file)).status == 0


def test_what_cannot_be_imported_is_told(inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "o.yml"
    file.write_text("apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: x}\nspec: {}\n")
    ran = inferwatch("slo", "import", str(file))
    assert (ran.status, ran.err) == (2, f"inferwatch: {file}: x: spec.objectives: allowed: at least one\n")
    file.write_text("a: [")
    assert inferwatch("slo", "import", str(file)).status == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: SLO\nkind: SLI\napiVersion: openslo/v1\n", "line 2: `kind`: duplicate key, first on line 1"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested too deeply: allowed: YAML"),
        ("a: !!python/object:os.system {}", "could not determine a constructor for the tag"),
        ("metadata: {name: 2026-13-45T00:00:00Z}", "apiVersion: nothing: allowed: openslo/v1"),
        ("apiVersion: [&a [x, x], *a]", "apiVersion: a list: allowed: openslo/v1"),
    ],
)
def test_a_file_that_is_no_openslo_is_told_in_a_line(text: str, told: str, inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "o.yml"
    file.write_text(text)
    ran = inferwatch("slo", "import", str(file))
    assert (ran.status, ran.out, told in ran.err) == (2, "", True)
    assert len(ran.err.splitlines()) == 1


def test_an_imported_threshold_has_to_be_on_the_grid(inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "o.yml"
    file.write_text((OPENSLO / "latency.yml").read_text().replace('le="1"', 'le="3"'))
    ran = inferwatch("slo", "import", str(file))
    assert (ran.status, ran.out) == (2, "")
    assert "slos[0].indicator.latency.below: 3.0: allowed: a bound of the grid of ttft: 2.5 or 4.0" in ran.err


GENERATED = ROOT / "alerts" / "generated"


@pytest.mark.parametrize(("part", "name"), [("objectives", "slo"), ("conditions", "conditions")])
def test_the_rules_of_the_first_objectives_and_of_conditions_are_those_that_are_checked_in(
    inferwatch: Command, part: str, name: str
) -> None:
    file = str(DEFAULT) if part == "objectives" else "none.yml"
    ran = inferwatch("rules", "build", file, "--only", part)
    assert ran.out == (GENERATED / f"{name}-rules.yml").read_text()
    ran = inferwatch("rules", "build", file, "--only", part, "--format", "operator", "--name", f"inferwatch-{name}")
    assert ran.out == (GENERATED / f"{name}-prometheusrule.yml").read_text()


def test_the_rules_are_those_of_objectives_and_of_conditions(inferwatch: Command) -> None:
    built, *parts = (yaml.safe_load(text)["groups"] for text in (
        inferwatch("rules", "build", str(DEFAULT)).out,
        (GENERATED / "slo-rules.yml").read_text(),
        (GENERATED / "conditions-rules.yml").read_text(),
    ))  # fmt: skip
    assert built == [group for part in parts for group in part]


@pytest.mark.parametrize("name", ["Foo Bar", "", "a_b", "-a", "a" * 254, "a..b"])
def test_an_object_is_named_as_kubernetes_names_objects(name: str, inferwatch: Command) -> None:
    ran = inferwatch("rules", "build", str(DEFAULT), "--format", "operator", "--name", name)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"inferwatch: --name: {name!r}: allowed: lower-case letters, digits, - and .")


def test_rules_that_name_what_there_is_are_good(inferwatch: Command) -> None:
    ran = inferwatch(
        "rules", "check", *(str(path) for path in sorted((ROOT / "alerts" / "generated").glob("*rule*.yml")))
    )
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith("every metric and label is there\n")


def test_rules_that_name_what_there_is_not_end_the_command_with_a_line_for_each(
    inferwatch: Command, tmp_path: Path
) -> None:
    file = tmp_path / "rules.yml"
    file.write_text("groups: [{name: g, rules: [{alert: A, expr: 'sum by (team) (llm_upp)'}]}]")
    ran = inferwatch("rules", "check", str(file))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        f"inferwatch: {file}: g: A: llm_upp: no metric of the schema; did you mean `llm_up`?",
        f"inferwatch: {file}: g: A: no label `team` of the schema",
    ]
    file.write_text(file.read_text().replace("upp", "up"))
    assert inferwatch("rules", "check", str(file), "--label", "team").status == 0


def test_a_file_that_holds_no_rules_is_told(inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text("a: 1")
    ran = inferwatch("rules", "check", str(file))
    assert (ran.status, "allowed: rules (`groups`)" in ran.err) == (2, True)


AT_NOW = """\
# TYPE llm_up gauge
llm_up{{node="n",server="s"}} 1 {now}
# TYPE llm_server_info gauge
llm_server_info{{node="n",server="s",framework="vllm",model="m"}} 1 {now}
llm_server_info{{node="n",server="t",framework="sglang",model="other"}} 1 {now}
# TYPE llm_field_info gauge
llm_field_info{{node="n",server="s",field="llm_queue_time_seconds",quality="unavailable",reason="too old"}} 1 {now}
# TYPE llm_latency_native_bounds_info gauge
llm_latency_native_bounds_info{{node="n",server="s",framework="vllm",model="m",phase="ttft",bounds="0.5,2.0"}} 1 {now}
llm_latency_native_bounds_info{{node="n",server="t",framework="sglang",model="other",phase="ttft",bounds="4.0"}} 1 {now}
# EOF
"""


def test_with_a_prometheus_the_bounds_and_series_that_there_really_are_count(
    inferwatch: Command, tmp_path: Path
) -> None:
    (tmp_path / "now.txt").write_text(AT_NOW.format(now=time.time() - 60))
    (tmp_path / "slo.yml").write_text(
        "version: 1\nslos:\n"
        "- {name: a, objective: 99%, indicator: {latency: {phase: ttft, below: 1s}}, select: {model: m}}\n"
        "- {name: b, objective: 99%, indicator: {availability: {}}, select: {model: mm}}\n"
    )
    expression = "llm_up + llm_requests_running + llm_queue_time_seconds_sum + gpu_up + llm_probe_success"
    (tmp_path / "rules.yml").write_text(f"groups: [{{name: g, rules: [{{alert: A, expr: '{expression}'}}]}}]")
    prometheus = Prometheus("", tmp_path)
    prometheus.load(tmp_path / "now.txt")
    with prometheus:
        checked = inferwatch("slo", "check", str(tmp_path / "slo.yml"), "--prometheus", prometheus.url)
        rules = inferwatch("rules", "check", str(tmp_path / "rules.yml"), "--prometheus", prometheus.url)
    warned = [line.split("warning: ")[1] for line in checked.out.splitlines()[:-1]]
    assert [line[:92] for line in warned] == [
        "slos[0] a: vllm (1 server with 2 bounds up to 2.0): 1.0 s is none of its own bounds of ttft:",
        "slos[1] b: selects no server that there was within the last hour",
    ]
    assert rules.status == 1
    assert rules.out.splitlines() == [
        f"gpu_up: no series at {prometheus.url}: no GPU is watched that tells it",
        f"llm_probe_success: no series at {prometheus.url}: no server has a `synthetic_request`",
        f"llm_queue_time_seconds_sum: no series at {prometheus.url}: too old",
    ]
    assert len(rules.err.splitlines()) == 1
    told = f"g: A: llm_requests_running: no metric at {prometheus.url}"
    assert rules.err.startswith(f"inferwatch: {tmp_path}/rules.yml: {told}")


@pytest.mark.parametrize(
    ("url", "told"),
    [("no url", "--prometheus: no url: allowed: the URL of a Prometheus"), ("http://127.0.0.1:9", "could not ask")],
)
def test_a_prometheus_that_cannot_be_asked_is_told(url: str, told: str, inferwatch: Command) -> None:
    ran = inferwatch("slo", "check", str(DEFAULT), "--prometheus", url)
    assert ran.status in (1, 2)
    assert told in ran.err


@pytest.mark.parametrize("command", ["slo", "rules"])
def test_a_prometheus_that_is_away_is_told_in_one_line(command: str, tmp_path: Path) -> None:
    """In a process of its own: here another handler takes what is logged."""
    file = DEFAULT if command == "slo" else tmp_path / "rules.yml"
    (tmp_path / "rules.yml").write_text("groups: [{name: g, rules: [{alert: A, expr: llm_up == 0}]}]")
    asked = [sys.executable, "-m", "inferwatch", command, "check", str(file), "--prometheus", unused_url()]
    ran = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert ran.stderr.startswith("inferwatch: could not ask Prometheus at http://")
