"""`python -m conformance` from a wheel on disk, and pip asked for wheels in a folder in place of an index."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from conformance import wheel as wheels
from conformance.__main__ import main
from conformance.packages import PACKAGES
from tests.conformance.wheels import wheel

LMDEPLOY = """
import prometheus_client
for name in ("num_requests_running", "num_requests_waiting", "num_api_requests_waiting", "gpu_cache_usage_perc"):
    prometheus_client.Gauge(f"lmdeploy:{name}", "", ["model_name", "engine"])
"""
BOUNDS = "prometheus_client.Histogram('lmdeploy:e2e_request_latency_seconds', '', ['engine'], buckets=[0.3, 0.5])\n"
MANY = "manylinux2014_x86_64"
CAPTURES = Path(__file__).parent.parent / "captures" / "lmdeploy"


def lmdeploy(folder: Path, text: str = LMDEPLOY) -> str:
    return str(wheel(folder, {"lmdeploy/metrics.py": text}, "lmdeploy", "0.19.0"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, all that pip knows of."""
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_the_report_tells_what_is_unknown_gone_and_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lmdeploy(tmp_path, LMDEPLOY + "prometheus_client.Counter('lmdeploy:new_tokens', '')\n")
    assert main(["lmdeploy", path]) == 1
    text = capsys.readouterr().out
    assert text.startswith("lmdeploy 0.19.0, held to the table lmdeploy (0.9.2 to ")
    assert "declared: 5 families (1 counter, 4 gauge), read from 1 file\n" in text
    assert "unknown to the table: 1\n  lmdeploy:new_tokens_total  counter  lmdeploy/metrics.py:5\n" in text
    lines = [line.split() for line in text.splitlines()]
    instead = ["replaced", "by", "lmdeploy:num_api_requests_waiting"]
    assert ["lmdeploy:num_requests_unfinished", "llm_requests_waiting_api", *instead] in lines
    assert ["lmdeploy:prompt_tokens_total", "llm_prompt_tokens_total", "field", "lost"] in lines
    assert "not resolved: 0\n" in text
    assert text.splitlines()[-1].startswith("not good: 1 unknown name, ")
    assert " fields without a source: llm_prompt_tokens_total, " in text.splitlines()[-1]


def test_a_release_that_the_table_knows_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package that declares what a page of LMDeploy 0.18.0 shows."""
    page = min(path for path in CAPTURES.rglob("*.prom") if "0.18.0" in str(path)).read_text()
    types = re.findall(r"^# TYPE (lmdeploy:\w+) (\w+)$", page, re.MULTILINE)
    calls = "".join(f"prometheus_client.{kind.capitalize()}({name!r}, '')\n" for name, kind in types)
    assert main(["lmdeploy", lmdeploy(tmp_path, "import prometheus_client\n" + calls)]) == 0
    text = capsys.readouterr().out
    assert f"declared: {len(types)} families" in text
    assert text.endswith("good: the table knows every name, and every field has a source\n")


def test_the_report_as_json_holds_all_that_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = LMDEPLOY + BOUNDS + "def f(name):\n    prometheus_client.Gauge(name, '')\n"
    assert main(["lmdeploy", lmdeploy(tmp_path, source), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["framework"], data["release"], data["table"], data["good"]) == (
        "lmdeploy",
        "0.19.0",
        "lmdeploy",
        False,
    )
    assert data["declared"][0] == {
        "name": "lmdeploy:e2e_request_latency_seconds",
        "kind": "histogram",
        "place": {"file": "lmdeploy/metrics.py", "line": 5},
        "labels": ["engine"],
        "bounds": [0.3, 0.5],
    }
    assert data["unresolved"] == [
        {"place": {"file": "lmdeploy/metrics.py", "line": 7}, "name": "*",
         "why": "the source does not show the whole name here"}
    ]  # fmt: skip
    assert "llm_prompt_tokens_total" in data["lost"]
    assert {"name": "lmdeploy:prompt_tokens_total", "use": "llm_prompt_tokens_total", "instead": ""} in data["gone"]


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that there is."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_a_file_that_is_no_archive_is_not_a_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lmdeploy-0.19.0-py3-none-any.whl"
    path.write_text("<html>not found</html>")
    assert main(["lmdeploy", str(path)]) == 2
    assert told(capsys) == f"{path} is not a wheel: File is not a zip file"


def test_an_archive_without_the_marks_of_a_wheel_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lmdeploy-0.19.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lmdeploy/metrics.py", LMDEPLOY)
    assert main(["lmdeploy", str(path)]) == 2
    assert told(capsys) == f"{path} is not a wheel: it has no .dist-info/WHEEL"


def test_a_path_without_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lmdeploy-0.19.0-py3-none-any.whl"
    assert main(["lmdeploy", str(path)]) == 2
    assert told(capsys) == f"{path} is not a wheel: [Errno 2] No such file or directory: '{path}'"


def test_a_wheel_without_metrics_is_no_good_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lmdeploy", lmdeploy(tmp_path, "print('lmdeploy:x')")]) == 2
    assert told(capsys) == "lmdeploy-0.19.0-py3-none-any.whl: none of its 1 Python files declares a metric"


@pytest.mark.parametrize("arguments", [[], ["llama"], ["vllm", "1", "2"], ["--jsn", "vllm"]])
def test_wrong_arguments_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: python -m conformance" in capsys.readouterr().err


def test_every_package_is_held_to_a_table_of_its_framework() -> None:
    tables = {name: package.frontend.name for name, package in PACKAGES.items()}
    frameworks = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "tensorrt-llm": "trtllm_serve"}
    assert tables == frameworks


@pytest.mark.parametrize("tag", [f"cp310-cp310-{MANY}", f"cp38-abi3-{MANY}"])
def test_the_wheel_for_linux_is_downloaded_whatever_machine_this_is(
    tag: str, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(index, {"vllm/a.py": "import prometheus_client\nprometheus_client.Gauge('vllm:x', '')"}, tag=tag)
    assert main(["vllm", "0.33.0"]) == 1
    assert capsys.readouterr().out.startswith("vllm 0.33.0, held to the table vllm")


def test_the_newest_release_is_read_where_none_is_named(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for release in ("0.9.1", "0.33.0", "0.34.0rc1"):
        wheel(index, {"vllm/a.py": "import prometheus_client\nprometheus_client.Gauge('vllm:x', '')"}, release=release)
    main(["vllm"])
    assert capsys.readouterr().out.startswith("vllm 0.33.0, held to the table vllm")


def test_nothing_that_was_downloaded_is_left(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: list[Path] = []

    def download(package: str, release: str, folder: Path) -> Path:
        found.append(wheels.download(package, release, folder))
        return found[0]

    wheel(index, {"vllm/a.py": "import prometheus_client\nprometheus_client.Gauge('vllm:x', '')"})
    main(["vllm", "0.33.0"], download)
    assert not found[0].parent.exists()


def test_a_release_that_there_is_not_is_told_in_pips_words(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lmdeploy", "99"]) == 2
    assert told(capsys) == "could not download lmdeploy==99: No matching distribution found for lmdeploy==99"


def test_a_release_that_is_no_version_is_told_in_pips_words(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lmdeploy", "new est"]) == 2
    assert told(capsys).startswith("could not download lmdeploy==new est: Invalid requirement: 'lmdeploy==new est'")


def test_stubs_are_told(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (index / "tensorrt_llm-1.2.1.tar.gz").write_bytes(b"")
    assert main(["tensorrt-llm", "1.2.1"]) == 2
    line = told(capsys)
    assert line.startswith("could not download tensorrt-llm==1.2.1: No matching distribution found")
    assert "Its files on PyPI are stubs, source archives without the server's code" in line


def test_a_real_wheel_is_read_in_place_of_a_stub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "import prometheus_client\nprometheus_client.Histogram('trtllm_e2e_request_latency_seconds', '')"
    path = wheel(tmp_path, {"tensorrt_llm/metrics.py": source}, "tensorrt_llm", "1.3.0")
    assert main(["tensorrt-llm", str(path)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("tensorrt-llm 1.3.0, held to the table trtllm_serve")
    assert "unknown to the table: 0\n" in text
