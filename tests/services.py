"""Programs that the end-to-end tests start."""

import os
import re
import shutil
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "test-services"


def packages() -> dict[str, str]:
    """Debian package by program, from the table in scripts/test-services."""
    return dict(re.findall(r'^ {2}"(\S+) +(\S+) ', SCRIPT.read_text(), re.MULTILINE))


def require(program: str) -> str:
    """The program's path. Without it the test is skipped, or fails under CI=true."""
    path = shutil.which(program)
    if path is not None:
        return path
    message = (
        f"{program} is not installed: run scripts/test-services as root, or install {packages()[program]} "
        "with your package manager"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
