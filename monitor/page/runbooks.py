"""Runbooks of conditions as HTML, rendered once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

import alerts
from alerts.conditions import CONDITIONS

_FOLDER = Path(alerts.__file__).parent / "runbooks"
_BELOW = {"h2": "h4", "h3": "h5"}
"""Headings stand below those of the page."""


@cache
def runbook(name: str) -> Markup | None:
    """None for alerts of others."""
    if name not in CONDITIONS:
        return None
    text = (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = _without_title(reader.parse(text))
    for token in tokens:
        token.tag = _BELOW.get(token.tag, token.tag)
        for child in token.children or ():
            _point_to_page(child)
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704 our own texts, HTML in them is escaped


def _without_title(tokens: list[Token]) -> list[Token]:
    """It is the alert's name."""
    return tokens[3:] if tokens and tokens[0].tag == "h1" else tokens


def _point_to_page(token: Token) -> None:
    href = token.attrGet("href")
    if isinstance(href, str) and href.endswith(".md"):
        name = Path(href).stem
        token.attrSet("href", f"/runbooks/{name}" if name in CONDITIONS else "/docs")
