"""The reference pages as text, each a view of what the code declares. Pure: files are written by `generate`."""

from __future__ import annotations

from exporters.tables import FRONTENDS
from inferwatch.reference.findings import findings_page
from inferwatch.reference.frontend import definitions_page, frontend_page
from inferwatch.reference.schema import schema_page


def pages() -> dict[str, str]:
    """Text by path below docs/reference."""
    return {
        "schema.md": schema_page(),
        "findings.md": findings_page(),
        "definitions.md": definitions_page(FRONTENDS),
        **{f"{name}.md": frontend_page(frontend) for name, frontend in FRONTENDS.items()},
    }
