import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
OURS = {*PACKAGES, "migrations", "tests", "bench", "conformance"}
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def top_level_names(distribution: Distribution) -> set[str]:
    return {path.parts[0].removesuffix(".py") for path in distribution.files or ()}


def test_no_dependency_claims_a_name_of_ours() -> None:
    claims = {
        f"{distribution.name}: {name}"
        for distribution in distributions()
        if distribution.name != PYPROJECT["project"]["name"]
        for name in top_level_names(distribution) & OURS
    }
    assert not claims


def test_every_package_is_in_the_wheel_and_under_the_import_rules() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench", "conformance", "migrations"}
    assert found == set(PACKAGES) == set(PYPROJECT["tool"]["importlinter"]["root_packages"])


def test_the_makefile_documents_the_targets_that_people_are_told_of() -> None:
    documented = re.findall(r"^([a-z]+):.*## \S", (ROOT / "Makefile").read_text(), re.MULTILINE)
    expected = {"help", "setup", "run", "test", "static", "check", "bench", "conformance", "generate", "lock", "clean"}
    assert set(documented) == expected
    told = re.findall(r"\bmake ([a-z]+)\b", (ROOT / ".ci" / "run").read_text())
    assert set(told) <= expected


def locked(path: Path) -> dict[str, list[str]]:
    """Hashes by requirement line."""
    text = path.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return {line.split("--hash")[0].strip(): re.findall(r"--hash=sha256:[0-9a-f]{64}\b", line) for line in lines}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_locked_requirement_is_pinned_and_hashed(lock: Path) -> None:
    requirements = locked(lock)
    assert requirements
    for requirement, hashes in requirements.items():
        assert re.match(r"[a-z0-9-]+==[0-9]", requirement)
        assert hashes


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_names_no_package_index(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert "index-url" not in lock.read_text()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_what_runs_is_locked_to_what_was_tested(lock: Path) -> None:
    assert locked(lock).items() <= locked(ROOT / "requirements" / "dev.txt").items()


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[<>=~ \[]", requirement)[0].lower() for requirement in requirements}


def wanted() -> dict[str, set[str]]:
    """What each lock must have of what pyproject.toml names."""
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"]
    sidecar, extras = names(project["dependencies"]), project["optional-dependencies"]
    everything = sidecar.union(*(names(extra) for extra in extras.values())) | names(groups["build"])
    return {
        "build": names(groups["build"]),
        "dev": everything,
        "monitor": sidecar | names(extras["monitor"]),
        "run": everything,
        "sidecar": sidecar,
    }


def test_every_dependency_of_ours_is_in_the_locks_for_what_needs_it() -> None:
    found = {lock.stem: names(locked(lock)) for lock in LOCKS}
    assert found.keys() == wanted().keys()
    missing = {name: of - found[name] for name, of in wanted().items() if of - found[name]}
    assert not missing


def test_the_sidecar_is_locked_without_sql_and_web_framework() -> None:
    found = names(locked(ROOT / "requirements" / "sidecar.txt"))
    assert not found & {"alembic", "altair", "fastapi", "hatchling", "jinja2", "numpy", "psycopg", "sqlalchemy"}
