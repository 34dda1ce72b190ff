"""What is wrong with a target or its numbers, each with what to do about it. Texts live here, once per reason."""

from __future__ import annotations

from collections.abc import Iterable
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
        _E, "The server says that it is not healthy, or no longer says that it is.",
        "Look into the server's log: its engine may be dead, or hang."),
    "no_engine_metrics": _Kind(
        _E, "The page has metrics, but none of a known inference engine.",
        "Check URL and port; a proxy, a router or another exporter may answer here."),
    "router": _Kind(
        _E, "A router, gateway or Prometheus passes on what several servers expose: not used, it would count twice.",
        "Name each server behind it in `servers` instead."),
    "invalid_exposition": _Kind(
        _E, "The page is not in the Prometheus text format.", "See the line named; report it to the server's project."),
    "not_read_yet": _Kind(
        _W, "inferwatch has not come to read what this server answers: nothing is known of it yet.",
        "Nothing to do right after a start: the next reading has it. If it stays so, give inferwatch more of a CPU, or "
        "the scrape more time."),
    "no_records_yet": _Kind(
        _W, "No statistics records yet, or the server's statistics are switched off.",
        "Send a request: an idle server writes no records. If none come, switch its statistics on."),
    "records_not_read": _Kind(
        _W, "There is no metrics page, and the statistics records were left alone: whoever reads them takes them away.",
        "The target of a server in `servers` reads them; so does `inferwatch check --destructive`, and then they are "
        "missing there."),
    # Read, with reservations.
    "documents_unread": _Kind(
        _I, "Not all documents of this server have answered yet: what is new meanwhile is only a base line.",
        "Mostly the next reading has them. If not: /debug shows what they answer; some want `bearer_token_file`."),
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

OF_NOTHING = frozenset({"empty_body", "no_records_yet"})
"""Reasons of a server that has counted nothing yet."""
_OF_A_PART = frozenset({"documents_unread", "dropped_samples", "several_models", "many_engines"})

GPU_KINDS: dict[str, _Kind] = {
    # No GPU of this host can be read.
    "gpu_none": _Kind(
        _I, "There is no NVIDIA GPU here, as far as this process can see.",
        "Nothing to do on a host without GPUs. In a container: give it the GPUs and the driver (`--gpus all`)."),
    "gpu_no_library": _Kind(
        _E, "The driver's library libnvidia-ml.so.1 cannot be loaded.",
        "Install NVIDIA's driver; in a container, let NVIDIA's container toolkit mount it (`--gpus all`, capability "
        "`utility`). Where there is no GPU: `gpus: {source: off}`."),
    "gpu_no_binding": _Kind(
        _E, "The Python package nvidia-ml-py is missing.", "Install inferwatch with its dependencies."),
    "gpu_no_driver": _Kind(
        _E, "NVIDIA's driver is not loaded.",
        "Load its kernel module (`nvidia-smi` shows whether it runs); it is tried again by itself."),
    "gpu_driver_mismatch": _Kind(
        _E, "The driver's files and its loaded kernel module are of different versions: nothing can be read.",
        "The driver was upgraded under a loaded module. Reload the module or reboot, then restart inferwatch."),
    "gpu_unreadable": _Kind(
        _E, "NVML does not start.", "Run `nvidia-smi`: it says more, or fails likewise."),
    "gpu_page_unreadable": _Kind(
        _E, "dcgm-exporter's page could not be read.", "Check the URL in `gpus.dcgm`, and that dcgm-exporter runs."),
    "gpu_timeout": _Kind(
        _E, "The driver does not answer in time.",
        "A call hangs inside the driver, mostly for a GPU that is about to be lost: see the kernel's log (dmesg). If "
        "no call hangs, give the scrape more time."),
    # One GPU is not well.
    "gpu_lost": _Kind(
        _E, "The GPU does not answer any more: it is off the bus.",
        "See the kernel's log for its last XID. Drain the node, then reset the GPU or reboot."),
    "gpu_reset_required": _Kind(
        _E, "The driver wants this GPU reset.", "Drain it, then `nvidia-smi --gpu-reset`, or reboot."),
    "gpu_recovery_needed": _Kind(
        _E, "The driver wants something done to recover this GPU.", "Do what the detail names, once it is drained."),
    "gpu_power_cable": _Kind(
        _E, "A power cable is not attached properly to this GPU.", "Attach it."),
    "gpu_fabric_not_ready": _Kind(
        _E, "The NVLink fabric is not ready: CUDA does not start on this GPU.",
        "Start nvidia-fabricmanager, of the driver's version, and see its log."),
    "gpu_inforom_corrupted": _Kind(
        _W, "The GPU's own memory of facts (infoROM) is corrupted.", "Have the board looked at by its vendor."),
    "gpu_ecc_uncorrected": _Kind(
        _E, "Uncorrected ECC errors: memory lost data.",
        "Restart the programs that were hit, drain the GPU and reset it. If it happens again, have it replaced."),
    "gpu_row_remap_pending": _Kind(
        _W, "Memory rows wait for being replaced by spare ones.", "Reset the GPU at its next idle moment."),
    "gpu_row_remap_failed": _Kind(
        _E, "Memory rows could not be replaced: no spare ones are left.", "Have the GPU replaced."),
    "gpu_xid_hardware": _Kind(
        _E, "In the last minutes the driver reported an error of the hardware.",
        "Look the XID up in NVIDIA's list. Mostly: drain the GPU, reset it, and have it looked at if it comes again."),
    "gpu_xid_recovered": _Kind(
        _W, "In the last minutes the driver reported an error that it could contain.",
        "Look the XID up in NVIDIA's list; the program that was hit may have to be restarted."),
    "gpu_xid_application": _Kind(
        _W, "In the last minutes the driver reported an error of a program on the GPU.",
        "Look into the server's log: its kernels did something wrong, or it was stopped."),
    "gpu_xid_other": _Kind(
        _W, "In the last minutes the driver reported an error that is not known here.",
        "Look the XID up in NVIDIA's list."),
    # Read, with reservations.
    "gpu_no_permission": _Kind(
        _W, "Some readings are not permitted to this process.",
        "Run it as root or with the capabilities these need; under MIG, aggregates need privileges."),
    "gpu_old_driver": _Kind(
        _I, "The driver is too old for some readings.", "Nothing to do; a newer driver has them."),
    "gpu_read_failed": _Kind(
        _W, "Some readings failed this time.", "If it stays so, see the kernel's log and `nvidia-smi -q`."),
    "gpu_activity_in_use": _Kind(
        _W, "Somebody else holds the GPU's activity counters: they are not read any more.",
        "Seen where a profiler runs, and under MIG with driver 535. Restart inferwatch to try again."),
    "gpu_not_here": _Kind(
        _W, "`gpus.servers` names GPUs that are not here.", "Correct the number or uuid; /debug/gpus lists them."),
}  # fmt: skip
"""Findings of GPUs and their hosts; their reasons start with `gpu_`, beside `internal_error`."""


def finding(reason: str, detail: str = "", *, remedy: str = "") -> Finding:
    """`remedy` replaces the general one where more is known, e.g. the very flag of that framework."""
    kind = KINDS.get(reason) or GPU_KINDS[reason]
    return Finding(reason, kind.severity, kind.message, remedy or kind.remedy, detail)


def tell_of_nothing(findings: Iterable[Finding]) -> bool:
    """Whether the server answered, and has counted nothing so far."""
    return any(f.reason in OF_NOTHING for f in findings)


def tell_of_a_part(findings: Iterable[Finding]) -> bool:
    """Whether something that the server has counted may be missing."""
    return any(f.reason in _OF_A_PART for f in findings)
