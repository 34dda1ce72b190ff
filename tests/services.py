"""Programs that the end-to-end tests start."""

from __future__ import annotations

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
    path = shutil.which(program) or shutil.which(program, path=os.pathsep.join(map(str, _off_path())))
    if path is not None:
        return path
    message = (
        f"{program} is not installed: run scripts/test-services as root, or install {packages()[program]} "
        "with your package manager"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def _off_path() -> list[Path]:
    """Debian's folders per release of PostgreSQL, the newest first; where they are is said in the script."""
    (pattern,) = re.findall(r"^off_path='/(.+)'$", SCRIPT.read_text(), re.MULTILINE)
    return sorted(Path("/").glob(pattern), key=lambda path: int(path.parent.name), reverse=True)
