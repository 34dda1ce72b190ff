from __future__ import annotations

from exporters.findings import KINDS
from inferwatch.reference.markdown import page, table


def findings_page() -> str:
    return page(
        "Findings",
        "What can be wrong with a target or its numbers. `inferwatch check` prints these, `/debug/<server>` shows "
        "them, and each is `inferwatch_finding{reason=…}` while it holds. Where more is known of the server, the "
        "remedy told is more precise than the general one below.",
        table(
            ("reason", "severity", "meaning", "what to do"),
            ((f"`{reason}`", kind.severity.value, kind.message, kind.remedy) for reason, kind in KINDS.items()),
        ),
    )
