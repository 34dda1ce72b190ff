from __future__ import annotations

import subprocess
import sys

import pytest

from tests.end_to_end.processes import DEADLINE

PROBE = """
import sys
from inferwatch.__main__ import main
sys.argv = ["inferwatch", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""
HEAVY = {"alembic", "fastapi", "jinja2", "sqlalchemy", "monitor", "dashboards"}


def imported(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True, timeout=DEADLINE
    )
    return set(done.stdout.rpartition("imported: ")[2].split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_imports_nothing_that_takes_time(option: str) -> None:
    found = imported(option)
    assert not found & (HEAVY | {"demo", "httpx", "pydantic", "starlette", "uvicorn", "yaml"})


@pytest.mark.parametrize(
    "arguments",
    [("exporter", "--listen", "nowhere"), ("check", "/no/such"), ("normalize", "/no/such")],
    ids=lambda a: a[0],
)
def test_the_sidecar_and_the_doctor_import_no_monitor(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    assert "exporters" in found
    assert not found & (HEAVY | {"demo"})
