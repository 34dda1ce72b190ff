"""What answers where a sidecar should, and is none."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from exporters.detect import detect
from exporters.fetch import Body

_LAG, _RELOADED = "inferwatch_history_lag_seconds", "inferwatch_config_last_reload_successful"
_MAX_NAMES_TOLD = 3
_NAME_A_SIDECAR = "name `inferwatch exporter` or `inferwatch up` of a host under `sources.sidecars` instead"


def stranger(names: Iterable[str], page: Body) -> str | None:
    """What a page is instead, and what to do; None of a sidecar's, of whatever release. `names` are its samples'."""
    found = dict.fromkeys(names)
    if _LAG in found and _RELOADED not in found and "llm_up" not in found:
        return f"this is a monitor that reads no servers itself (`{_LAG}` without `{_RELOADED}`): {_NAME_A_SIDECAR}"
    if any(name == "llm_up" or name.startswith("inferwatch_") for name in found):
        return None
    return f"no sidecar's page, without `inferwatch_…` and `llm_up`: {_instead(found, page)}"


def _instead(names: Collection[str], page: Body) -> str:
    detected = detect(page.text, page.content_type)
    if detected.frontend is not None:
        is_it = "this is" if detected.finding is None else "perhaps this is"
        return f"{is_it} {detected.frontend.name} itself: name it under `servers` of a sidecar, and that sidecar here"
    if detected.finding is not None and detected.finding.reason == "router":
        return f"it passes on {detected.finding.detail}: name each server behind it under `servers` of a sidecar"
    if "prometheus_build_info" in names:
        return "this is a Prometheus: name it under `prometheus.url` if it scrapes the sidecars"
    told = ", ".join(f"`{name}`" for name in list(names)[:_MAX_NAMES_TOLD])
    return f"it has {told or 'no metrics'}: {_NAME_A_SIDECAR}"
