"""Writes everything that is generated from the code: `python -m inferwatch.generate [ROOT]`."""

from __future__ import annotations

import sys
from pathlib import Path

from inferwatch.reference import pages

ROOT = Path(__file__).parent.parent


def generated() -> dict[str, str]:
    """Text by path below the root of the repository."""
    return {f"docs/reference/{name}": text for name, text in pages().items()}


def main(root: Path = ROOT) -> None:
    for name, text in generated().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path}")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
