"""A wheel: downloaded by pip and opened as the archive it is. Never installed, never imported."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from conformance.declarations import Declared, declared
from conformance.scopes import Sources

_MACHINE = "x86_64"
_PLATFORMS = (
    *(f"manylinux_2_{minor}_{_MACHINE}" for minor in range(40, 4, -1)),
    f"manylinux2014_{_MACHINE}",
    f"manylinux1_{_MACHINE}",
    f"linux_{_MACHINE}",
)
"""Serving frameworks build for Linux, whatever this machine is."""
_PYTHONS = ("3.12", "3.10", "3.13")
"""Tried in this order: a release may have wheels for some only."""
_NONE_FOR_IT = "No matching distribution found"
_TESTS = {"test", "tests"}


class NoWheel(Exception):
    """There is nothing to read; says why in one line."""


def download(package: str, release: str, folder: Path) -> Path:
    """The wheel of that release, or of the newest where `release` is empty. Raises NoWheel."""
    wanted = f"{package}=={release}" if release else package
    told = ""
    for python in _PYTHONS:
        told = _download(wanted, python, folder)
        if not told:
            return next(folder.glob("*.whl"))
        if _NONE_FOR_IT not in told:
            break
    raise NoWheel(f"could not download {wanted}: {told}")


def _download(wanted: str, python: str, folder: Path) -> str:
    """Empty, or what pip says is wrong."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--python-version", python]
    command += [part for platform in _PLATFORMS for part in ("--platform", platform)]
    done = subprocess.run(  # noqa: S603 the package is one of ours, the release a single argument
        [*command, "--dest", str(folder), "--", wanted], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    told = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines
    return "" if done.returncode == 0 else (told or ["pip failed and says nothing"])[-1]


def release_of(wheel: Path) -> str:
    """By its file name: NAME-RELEASE-…"""
    parts = wheel.name.split("-")
    return parts[1] if len(parts) > 2 else "?"


def read_wheel(wheel: Path, prefixes: tuple[str, ...]) -> Declared:
    """Raises NoWheel."""
    with _opened(wheel) as archive:
        paths = [name for name in archive.namelist() if name.endswith(".py") and not _is_test(name)]
        marks = (b"prometheus_client", *(f"{p}:".encode() for p in prefixes if p and not p.endswith("_")))
        with_metrics = [path for path in paths if any(mark in archive.read(path) for mark in marks)]
        found = declared(Sources(paths, archive.read), with_metrics, prefixes)
    if not any(family.kind for family in found.families):
        raise NoWheel(f"{wheel.name}: none of its {len(paths)} Python files declares a metric")
    return found


def _is_test(name: str) -> bool:
    return not _TESTS.isdisjoint(PurePosixPath(name).parts)


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if not any(name.endswith(".dist-info/WHEEL") for name in archive.namelist()):
                raise NoWheel(f"{wheel} is not a wheel: it has no .dist-info/WHEEL")
            yield archive
    except (OSError, zipfile.BadZipFile) as error:
        raise NoWheel(f"{wheel} is not a wheel: {error}") from error
