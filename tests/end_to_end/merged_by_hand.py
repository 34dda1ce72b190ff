"""Minutes added up to hours and days once more, apart from the code that does so."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from tests.end_to_end.by_hand import Row, Table, added_up


def rolled_up(rows: Table, seconds: int) -> Table:
    """Minutes as hours or days."""
    windows: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for (of, start), row in sorted(rows.items()):
        windows[of, start // seconds * seconds].append(row)
    return {key: _merged(of) for key, of in windows.items()}


def _merged(rows: Sequence[Row]) -> Row:
    merged: Row = {}
    for name in {name for row in rows for name in row}:
        values = [row[name] for row in rows if row.get(name) is not None]
        if name.endswith("_avg"):
            weights = [(r[name], r.get(f"{name[:-4]}_readings") or r["samples"]) for r in rows if name in r]
            count = sum(weight for _, weight in weights)
            merged[name] = math.fsum(value * weight for value, weight in weights) / count
            merged[f"{name[:-4]}_readings"] = None if count == sum(r["samples"] for r in rows) else count
        elif name.endswith("_max"):
            merged[name] = max(values)
        elif name.endswith("_histogram"):
            merged[name] = {b: added_up(v[b] for v in values if b in v) for b in {b for v in values for b in v}}
        elif name in ("requests_rejected", "xid_errors"):
            merged[name] = {of: sum(v.get(of, 0.0) for v in values) for of in {of for v in values for of in v}}
        elif not name.endswith("_readings"):
            merged[name] = math.fsum(values)
    return merged
