from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from exporters.file_sd import TargetFiles, read
from exporters.loader import ConfigError
from exporters.tables import FRONTENDS

ONE = '[{"targets": ["gpu-1:8000"]}]'
TWO = '[{"targets": ["gpu-1:8000", "gpu-2:8000"]}]'


def names(files: TargetFiles) -> list[str]:
    return [s.name for s in files.servers]


def replaced(path: Path, text: str) -> None:
    """As a deployment does it: another file takes its place."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    groups = [
        {"targets": ["gpu-1:8000", "https://gpu-2.example/llm"], "labels": {"team": "search"}},
        {
            "targets": ["gpu-3:8000"],
            "labels": {
                "__scheme__": "https", "__metrics_path__": "/prometheus/metrics", "__frontend__": "vllm",
                "__role__": "prefill", "__meta_zone": "b",
            },
        },
    ]  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(groups))
    (tmp_path / "a.yml").write_text(
        """
- targets: ["gpu-1:8000", "https://gpu-2.example/llm"]
  labels: {team: search}
- targets: ["gpu-3:8000"]
  labels:
    __scheme__: https
    __metrics_path__: /prometheus/metrics
    __frontend__: vllm
    __role__: prefill
    __meta_zone: b
"""
    )
    servers = read(tmp_path / "a.json")
    assert servers == read(tmp_path / "a.yml")
    assert [(s.name, s.url) for s in servers] == [
        ("gpu-1:8000", "http://gpu-1:8000"),
        ("gpu-2.example:443", "https://gpu-2.example/llm"),
        ("gpu-3:8000", "https://gpu-3:8000"),
    ]
    assert [dict(s.labels) for s in servers] == [{"team": "search"}, {"team": "search"}, {}]
    assert (servers[2].metrics_path, servers[2].frontend, servers[2].role) == ("/prometheus/metrics", "vllm", "prefill")


def test_a_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(ONE)
    files = TargetFiles([path])
    assert files.refresh()
    assert names(files) == ["gpu-1:8000"]
    assert not files.refresh()
    replaced(path, TWO)
    assert files.refresh()
    assert names(files) == ["gpu-1:8000", "gpu-2:8000"]


def test_a_change_of_the_same_size_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(ONE)
    os.utime(path, (1000, 1000))
    files = TargetFiles([path])
    files.refresh()
    path.write_text(ONE.replace("gpu-1", "gpu-9"))
    os.utime(path, (2000, 2000))
    assert files.refresh()
    assert names(files) == ["gpu-9:8000"]


@pytest.mark.parametrize(
    ("name", "broken", "problem"),
    [
        ("a.json", '[{"targets": ["b:1"], "targets": ["c:1"]}]', "`targets`: duplicate key"),
        ("a.json", '[{"targets": ["b:1"], "labels": {"t": "x", "t": "x"}}]', "`t`: duplicate key"),
        ("a.yml", "- {targets: ['b:1'], targets: ['c:1']}", "line 1: `targets`: duplicate key, first on line 1"),
        ("a.json", "[" * 100_000, "nested too deeply: allowed: JSON"),
        ("a.yml", "[" * 20_000, "nested too deeply: allowed: YAML"),
        ("a.json", ONE + " " * 2**20, "more than 1048576 bytes: allowed: at most 1 MiB"),
        ("a.yml", "- targets: ['b:1/?token=s3cr3t']",
         "[0].targets[0]: 'http://b:1/?(not shown)': allowed: a URL without query and fragment"),
    ],
)  # fmt: skip
def test_a_file_that_would_lose_servers_is_broken(tmp_path: Path, name: str, broken: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(TWO)
    files = TargetFiles([path])
    files.refresh()
    replaced(path, broken)
    files.refresh()
    assert names(files) == ["gpu-1:8000", "gpu-2:8000"]
    assert files.problems == [f"{path}: {problem}"]


def test_a_pipe_in_the_place_of_a_file_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(ONE)
    files = TargetFiles([path])
    files.refresh()
    path.unlink()
    os.mkfifo(path)
    files.refresh()
    assert names(files) == ["gpu-1:8000"]
    assert files.problems == [f"{path}: allowed: a regular file"]


@pytest.mark.parametrize("broken", ["", "[{", '{"targets": []}', '[{"targets": "gpu-1:8000"}]', "[1]", "\x00"])
def test_a_broken_file_keeps_its_last_good_targets(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(TWO)
    files = TargetFiles([path])
    files.refresh()
    replaced(path, broken)
    assert files.refresh()
    assert names(files) == ["gpu-1:8000", "gpu-2:8000"]
    assert len(files.problems) == 1
    assert files.problems[0].startswith(f"{path}: ")
    replaced(path, ONE)
    files.refresh()
    assert names(files) == ["gpu-1:8000"]
    assert files.problems == []


def test_a_file_that_went_away_keeps_its_last_good_targets(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(ONE)
    files = TargetFiles([path])
    files.refresh()
    path.unlink()
    assert files.refresh()
    assert names(files) == ["gpu-1:8000"]
    assert files.problems == [f"{path}: could not be read: No such file or directory"]


def test_a_file_that_is_not_there_yet_is_a_problem_until_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    files = TargetFiles([path])
    assert files.refresh()
    assert (names(files), len(files.problems)) == ([], 1)
    path.write_text(ONE)
    assert files.refresh()
    assert (names(files), files.problems) == (["gpu-1:8000"], [])


def test_a_pattern_follows_the_files_that_match(tmp_path: Path) -> None:
    files = TargetFiles([tmp_path / "*.json"])
    files.refresh()
    assert (names(files), files.problems) == ([], [])
    (tmp_path / "b.json").write_text('[{"targets": ["b:1"]}]')
    (tmp_path / "a.json").write_text('[{"targets": ["a:1"]}]')
    files.refresh()
    assert names(files) == ["a:1", "b:1"]
    (tmp_path / "a.json").unlink()
    files.refresh()
    assert (names(files), files.problems) == (["b:1"], [])


def test_everything_that_is_wrong_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text(
        """
- targets: ["gpu-1:8000", "gpu-1:port"]
  labels: {model: a}
- targets: ["gpu-2:8000"]
  labels: {__frontend__: vlm}
"""
    )
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert [p.removeprefix(f"{path}: ") for p in caught.value.problems] == [
        "[0].labels.model: 'model': allowed: a name that the schema does not use itself",
        "[0].targets[1]: 'http://gpu-1:port': allowed: http or https URL, such as http://localhost:8000",
        f"[1].frontend: 'vlm': allowed: {' or '.join(sorted(FRONTENDS))}; did you mean vllm?",
    ]


def test_keys_that_are_not_known_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("- targets: ['a:1']\n  label: {}\n- target: ['a:1']\n")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert [p.removeprefix(f"{path}: ") for p in caught.value.problems] == [
        "[0].label: unknown key: did you mean `labels`?",
        "[1].targets: missing: a value is required",
        "[1].target: unknown key: did you mean `targets`?",
    ]
