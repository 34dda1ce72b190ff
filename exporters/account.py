"""What one target's collections add up to in our own metrics, and their sample lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from exporters import exposition
from exporters.findings import KINDS, Finding, Severity
from exporters.observation import FieldStatus, Labels, labels
from exporters.schema import DROP_REASONS

_ERRORS = tuple(reason for reason, kind in KINDS.items() if kind.severity is Severity.ERROR)


class Account:
    """Counters start at 0 for every reason there is: one that is born at 1 shows no increase."""

    def __init__(self, identity: Mapping[str, str]) -> None:
        """`identity`: the labels of every line."""
        self._identity = dict(identity)
        self._errors = Counter[str](dict.fromkeys(_ERRORS, 0))
        self._dropped = Counter[str](dict.fromkeys(DROP_REASONS, 0))
        self._prefixes: dict[tuple[str, Labels], str] = {}
        self._fields: tuple[FieldStatus, ...] = ()
        self._field_lines = ""

    def failed(self, reason: str) -> None:
        self._errors[reason] += 1

    def dropped(self, counts: Mapping[str, int]) -> None:
        self._dropped.update(counts)

    def chunks(
        self, *, up: bool, available: bool, duration: float, findings: Iterable[Finding], unmapped: int | None
    ) -> dict[str, str]:
        """`unmapped` is None where no page was read."""
        kinds = dict.fromkeys((f.reason, f.severity.value) for f in findings)
        found = {
            "llm_up": self._line("llm_up", float(up)),
            "llm_metrics_available": self._line("llm_metrics_available", float(available)),
            "inferwatch_scrape_duration_seconds": self._line("inferwatch_scrape_duration_seconds", duration),
            "inferwatch_scrape_errors_total": self._counts("inferwatch_scrape_errors_total", self._errors),
            "inferwatch_dropped_samples_total": self._counts("inferwatch_dropped_samples_total", self._dropped),
        }
        if kinds:
            lines = [self._line("inferwatch_finding", 1.0, reason=r, severity=s) for r, s in kinds]
            found["inferwatch_finding"] = "".join(lines)
        if unmapped is not None:
            found["inferwatch_unmapped_families"] = self._line("inferwatch_unmapped_families", float(unmapped))
        return found

    def fields(self, fields: tuple[FieldStatus, ...]) -> dict[str, str]:
        """Lines of the fields that are not exact; the same from one collection to the next, as long as `fields` is."""
        if fields is not self._fields:
            self._fields = fields
            told = [f for f in fields if f.quality != "exact"]
            self._field_lines = "".join(
                self._line("llm_field_info", 1.0, field=f.field, source=f.source, quality=f.quality, reason=f.reason)
                for f in told
            )
        return {"llm_field_info": self._field_lines} if self._field_lines else {}

    def _counts(self, metric: str, counts: Counter[str]) -> str:
        return "".join(self._line(metric, float(n), reason=reason) for reason, n in counts.items())

    def _line(self, metric: str, value: float, **own: str) -> str:
        key = (metric, tuple(own.items()))
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = exposition.prefix(metric, labels({**self._identity, **own}))
            if metric != "llm_field_info":
                self._prefixes[key] = prefix
        return f"{prefix}{exposition.format_value(value)}\n"
