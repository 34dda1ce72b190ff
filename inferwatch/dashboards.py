from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inferwatch.console import CommandError, plural


def build(folder: Path, slos: Sequence[Path]) -> None:
    """Files that are there already are replaced; others are left alone."""
    from inferwatch.slo import load

    grouped = {label for file in slos for slo in load(file).slos for label in slo.groups}
    try:
        import grafanalib  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError("grafanalib is not installed: install inferwatch with the extra `generate`") from error
    from dashboards import DASHBOARDS
    from dashboards.files import files
    from dashboards.objectives import GROUPS, grouped_by

    own = sorted(grouped - set(GROUPS))
    found = files(grouped_by(each, own) for each in DASHBOARDS)
    for name, text in found.items():
        _write(folder / name, text)
    print(f"{plural(len(found), 'file')} written under {folder}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"could not write {path}: {error.strerror}") from error
