from __future__ import annotations

from collections.abc import Iterable

from exporters.findings import GPU_KINDS, KINDS, finding
from inferwatch.reference.markdown import page, table


def findings_page() -> str:
    return page(
        "Findings",
        "What can be wrong with a target or its numbers. `inferwatch check` prints these, `/debug/<server>` shows "
        "them, and each is `inferwatch_finding{reason=…}` while it holds. Where more is known of the server, the "
        "remedy told is more precise than the general one below.",
        _table(KINDS),
        "## GPUs",
        "`/debug/gpus` shows these, and each is `inferwatch_gpu_finding{reason=…}` while it holds, with the `uuid` of "
        "the GPU where it is of one.",
        _table(GPU_KINDS),
    )


def _table(reasons: Iterable[str]) -> str:
    kinds = (finding(reason) for reason in reasons)
    rows = ((f"`{kind.reason}`", kind.severity.value, kind.message, kind.remedy) for kind in kinds)
    return table(("reason", "severity", "meaning", "what to do"), rows)
