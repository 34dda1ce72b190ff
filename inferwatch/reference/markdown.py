from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make generate`: change the code, not this page. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", GENERATED, *(block for block in blocks if block)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def number(value: float) -> str:
    return f"{value:.12g}"
