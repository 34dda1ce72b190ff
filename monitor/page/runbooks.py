"""Runbooks of our alerts as HTML, rendered once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

import alerts
from alerts.conditions import CONDITIONS
from alerts.rules.burn import NAMES

_FOLDER = Path(alerts.__file__).parent / "runbooks"
_NAMES = {*CONDITIONS, *NAMES.values()}


@cache
def runbook(name: str, above: int = 3) -> Markup | None:
    """Its headings stand below one of the level `above`. None for alerts of others."""
    if name not in _NAMES:
        return None
    text = (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = list(_without_empty_heads(_without_title(reader.parse(text))))
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{int(token.tag[1]) + above - 1}"
        for child in token.children or ():
            _point_to_page(child)
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704 our own texts, HTML in them is escaped


def _without_title(tokens: list[Token]) -> list[Token]:
    """It is the alert's name."""
    return tokens[3:] if tokens and tokens[0].tag == "h1" else tokens


def _without_empty_heads(tokens: Iterable[Token]) -> Iterator[Token]:
    """Markdown wants a head for every table."""
    head: list[Token] = []
    for token in tokens:
        if head or token.type == "thead_open":
            head.append(token)
        else:
            yield token
        if token.type == "thead_close":
            yield from head if any(each.content for each in head) else ()
            head = []


def _point_to_page(token: Token) -> None:
    href = token.attrGet("href")
    if isinstance(href, str) and href.endswith(".md"):
        token.attrSet("href", f"/runbooks/{Path(href).stem}")
