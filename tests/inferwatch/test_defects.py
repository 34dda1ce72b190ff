"""What a user sees where inferwatch itself fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.processes import DEADLINE
from tests.end_to_end.recorded import VLLM, serving, vllm

PAGE = str(VLLM.page("1-mid10"))
BROKEN = """
import sys
from inferwatch.__main__ import main
import exporters.detect, exporters.normalise
def fail(*_, **__):
    raise KeyError("\\x1b[2J")
{broken} = fail
sys.argv = ["inferwatch", *sys.argv[1:]]
main()
"""
DETECT, NORMALISE = "exporters.detect.detect", "exporters.normalise.Normaliser.normalise"


def ran(broken: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = BROKEN.format(broken=broken)
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=DEADLINE
    )


@pytest.mark.parametrize("broken", [DETECT, NORMALISE])
@pytest.mark.parametrize("command", ["check", "normalize"])
def test_a_defect_is_one_line_and_a_traceback_only_on_demand(command: str, broken: str) -> None:
    quiet, verbose = ran(broken, command, PAGE), ran(broken, command, PAGE, "--verbose")
    assert (quiet.returncode, verbose.returncode) == (1, 1)
    assert "Traceback" not in quiet.stdout + quiet.stderr
    assert len(quiet.stderr.splitlines()) <= 1
    assert "error internal_error: " in quiet.stdout + quiet.stderr
    assert "(KeyError)" in quiet.stdout + quiet.stderr
    assert "--verbose" in quiet.stdout + quiet.stderr
    assert "\n    Traceback" in verbose.stderr
    assert "\x1b" not in verbose.stderr


@pytest.mark.parametrize("broken", [DETECT, NORMALISE])
def test_a_defect_on_what_a_server_answers_is_a_finding(broken: str) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        quiet, verbose = (ran(broken, "check", f":{port}", *more) for more in ([], ["--verbose"]))
    assert (quiet.returncode, quiet.stderr) == (1, "")
    assert "error internal_error: " in quiet.stdout
    assert "--verbose" in quiet.stdout
    assert "Traceback" in verbose.stderr


def test_a_defect_on_one_page_hides_no_other(tmp_path: Path) -> None:
    web_page = tmp_path / "page.html"
    web_page.write_text("<html>")
    done = ran(NORMALISE, "check", PAGE, str(web_page))
    assert "error html_body" in done.stdout
    assert "error internal_error" in done.stderr
