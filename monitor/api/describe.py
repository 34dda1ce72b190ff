"""The API's description for people, from its OpenAPI document; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { overflow-wrap: anywhere; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; }
code { font: .9em ui-monospace, monospace; } h2 { margin-top: 2.5rem; }
:root { color-scheme: light dark; }
"""


def html(openapi: Mapping[str, Any]) -> str:
    body = "".join(_operations(openapi))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(openapi["info"]["title"])} API</title>'
        '<link rel="icon" href="/favicon.svg" type="image/svg+xml">'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        '<p><a href="/">← Fleet</a></p>'
        "<h1>API</h1><p>The whole description, with the shape of every answer, is at "
        '<a href="/openapi.json"><code>/openapi.json</code></a>. Errors are problem details (RFC 9457) and name what '
        f"is allowed. <code>null</code> is “not known”, never zero.</p>{body}</html>"
    )


def _operations(openapi: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation['summary'])}. {escape(operation.get('description', ''))}</p>"
            if rows := "".join(map(_parameter, operation.get("parameters", []))):
                yield f"<table><tr><th>parameter</th><th>default</th><th>meaning</th></tr>{rows}</table>"


def _parameter(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    default = "required" if parameter.get("required") else schema.get("default") or ""
    meaning = parameter.get("description") or schema.get("description", "")
    cells = (f"<code>{escape(parameter['name'])}</code>", escape(str(default)), escape(meaning))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
