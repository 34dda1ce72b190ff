"""What is wrong with a server that lives and has no metrics page, where it is known what frontend it is."""

from __future__ import annotations

from exporters.findings import KINDS, Finding, finding
from exporters.side import SideDocuments
from exporters.table import Frontend


def why(reason: str, detail: str, frontend: Frontend, side: SideDocuments) -> Finding:
    """`reason` and `detail` say how its page did not come.

    Records that are read once may stand in for the page: whether they came is then told, as far as it is known.
    """
    records = next((d for d in frontend.documents if d.destructive), None)
    if records is None:
        return finding(reason, detail, remedy=frontend.no_metrics)
    if problem := side.problems.get(records.name):
        return finding(reason, f"{detail}; {records.path}: {problem}", remedy=frontend.no_metrics)
    if not side.reads_records:
        return finding("records_not_read", detail, remedy=f"{KINDS['records_not_read'].remedy} {frontend.no_metrics}")
    if records.name not in side.values:
        return finding("documents_unread", f"{detail}; {records.path}: has not answered yet")
    return finding("no_records_yet", detail, remedy=frontend.no_records)
