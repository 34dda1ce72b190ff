"""What is wrong with a target or its numbers, each with what to do about it. Texts live here, once per reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    reason: str
    severity: Severity
    message: str
    remedy: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Kind:
    severity: Severity
    message: str
    remedy: str


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

KINDS: dict[str, _Kind] = {
    # The target could not be read at all.
    "connection_refused": _Kind(
        _E, "Nothing listens at this address.",
        "Start the server, or correct host and port in `servers`; a server that is still loading its model listens "
        "only afterwards."),
    "connect_failed": _Kind(
        _E, "The address cannot be reached.", "Check the host name, the network and firewalls from this machine."),
    "timeout": _Kind(
        _E, "The server did not answer in time.",
        "An overloaded or hanging server; if it is only slow, raise `timeout` of this server and the scrape time-out."),
    "unauthorized": _Kind(
        _E, "The server wants credentials (401 or 403).",
        "Give `bearer_token_file` or `bearer_token_env` for this server."),
    "not_found": _Kind(
        _E, "No metrics at this path (404).",
        "Switch the server's metrics on, or set `metrics_path` of this server."),
    "server_error": _Kind(
        _E, "The server answered with an error status.",
        "Look into the server's log: it is starting, overloaded or broken."),
    "unexpected_status": _Kind(
        _E, "The server answered with a status that is no success.", "Check URL and `metrics_path` of this server."),
    "protocol_error": _Kind(
        _E, "What answers here does not speak HTTP properly.", "Check scheme (http or https) and port."),
    "tls_error": _Kind(
        _E, "The TLS connection could not be made.", "Check certificate and `tls` settings of this server."),
    "truncated": _Kind(
        _E, "The answer broke off before its end.", "A proxy's limit or a dying server; nothing of it is used."),
    "too_large": _Kind(
        _E, "The answer is larger than the limit.", "Raise `max_body_bytes` if the server really exposes that much."),
    "too_many_samples": _Kind(
        _E, "The answer has more samples than the limit.",
        "Raise `max_samples` if the server really exposes that much."),
    "encoding": _Kind(_E, "The answer is no UTF-8 text.", "Check that the URL is a metrics page."),
    "credentials_unreadable": _Kind(
        _E, "The bearer token of this server cannot be read, or is no token.",
        "Check that the file of `bearer_token_file` can be read here and holds one line of text, or that the variable "
        "of `bearer_token_env` is set."),
    "internal_error": _Kind(
        _E, "inferwatch failed on what the server answered: this is a defect of ours, not the server's.",
        "Report it with the traceback in inferwatch's log and the page that /debug shows."),
    # Something answers, and it is no engine metrics.
    "empty_body": _Kind(
        _W, "The metrics page is empty.",
        "Fresh: some engines show series only after their first request. If it stays empty, check the metrics flags."),
    "json_body": _Kind(
        _E, "The metrics page is JSON, not the Prometheus text format.",
        "For trtllm-serve set `metrics_path: /prometheus/metrics` and start it with `return_perf_metrics: true`."),
    "html_body": _Kind(
        _E, "The metrics page is HTML.", "A web page or a login proxy answers here: check URL and `metrics_path`."),
    "stats_disabled": _Kind(
        _E, "The server runs with its statistics switched off.",
        "Start vLLM without `--disable-log-stats`."),
    "unhealthy": _Kind(
        _E, "The server says that it is not healthy.", "Look into the server's log: its engine may be dead."),
    "no_engine_metrics": _Kind(
        _E, "The page has metrics, but none of a known inference engine.",
        "Check URL and port; a proxy, a router or another exporter may answer here."),
    "router": _Kind(
        _E, "A router, gateway or Prometheus passes on what several servers expose: not used, it would count twice.",
        "Name each server behind it in `servers` instead."),
    "invalid_exposition": _Kind(
        _E, "The page is not in the Prometheus text format.", "See the line named; report it to the server's project."),
    # Read, with reservations.
    "probe_failed": _Kind(
        _W, "The last synthetic request did not get its tokens.",
        "Real requests probably fail as well: look into the server's log. See `synthetic_request` of this server."),
    "no_requests_yet": _Kind(
        _I, "Fresh: no request has been served yet.",
        "Nothing to do; series of this release appear with the first request."),
    "unmapped_families": _Kind(
        _I, "The server exposes metric families this release of inferwatch does not know.",
        "Probably a newer server: update inferwatch, or report the names."),
    "dropped_samples": _Kind(
        _W, "Some samples were not usable and were left out.", "See /debug for which and why."),
    "prefix_rewritten": _Kind(
        _I, "Metric names arrived with `_` in place of `:`.",
        "Nothing to do: both spellings are the same; ask for text/plain;version=0.0.4 where you scrape it yourself."),
    "custom_bounds": _Kind(
        _I, "A latency histogram has bounds that are not on the shared grid.",
        "Percentiles stay right and get wider bounds; prefer the server's default buckets."),
    "many_engines": _Kind(
        _W, "More data-parallel engines than the limit of 256: the rest is counted as `other`.",
        "Check whether something else is written into the engine label."),
    "several_models": _Kind(
        _W, "More models or adapters than the limit: the rest is counted as `other`.", "Raise `max_models`."),
}  # fmt: skip


def finding(reason: str, detail: str = "", *, remedy: str = "") -> Finding:
    """`remedy` replaces the general one where more is known, e.g. the very flag of that framework."""
    kind = KINDS[reason]
    return Finding(reason, kind.severity, kind.message, remedy or kind.remedy, detail)
