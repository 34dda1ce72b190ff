"""Which servers an alert of a GPU hits: those that were seen on it last, since one that is lost shows no process."""

from __future__ import annotations

from collections.abc import Iterable

from alerts import promql
from alerts.burn import DAY, HOUR, MINUTE

SERVERS = "servers"
"""An annotation of its own: it comes by a query, and where that fails the others are still told. No label, since an
alert whose labels change is another one."""
_NOT_KNOWN = "not known"
REMEMBERED_SECONDS = DAY
"""Who was on it longer ago says nothing of who is hit."""
_WITHIN = (5 * MINUTE, HOUR, 6 * HOUR, REMEMBERED_SECONDS)
"""The first of these in which any was seen: a day costs hardly more than a moment, which subqueries would not."""


def told(servers: Iterable[str]) -> str:
    return ", ".join(sorted(set(servers))) or _NOT_KNOWN


def template() -> str:
    """The same, by a query of Prometheus' own. What runs on instances (MIG) runs on their GPU."""
    whole, parts = (
        promql.series("gpu_server_info", promql.filled("node", "%q"), of)
        for of in (promql.filled("uuid", "%q"), promql.filled("gpu", '"%s:.+"', "=~"))
    )
    seen = promql.first_of(*(_within(seconds) for seconds in _WITHIN), on=())
    names = '{{ if $i }}, {{ end }}{{ label "server" $one }}'
    return (
        f"{{{{ $of := printf `{whole}` $labels.node $labels.uuid }}}}"
        f"{{{{ $parts := printf `{parts}` $labels.node $labels.gpu }}}}"
        f"{{{{ range $i, $one := query (printf `{seen}`{' $of $parts' * len(_WITHIN)}) | sortByLabel `server` }}}}"
        f"{names}{{{{ else }}}}{_NOT_KNOWN}{{{{ end }}}}"
    )


def _within(seconds: int) -> str:
    there = (promql.call("last_over_time", promql.raw(of, seconds)) for of in ("%s", "%s"))
    return promql.aggregate("max", ("server",), promql.first_of(*there))
