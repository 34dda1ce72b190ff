"""What can be wrong with a GPU."""

from __future__ import annotations

from alerts.burn import DAY, HOUR, MINUTE
from alerts.conditions.condition import Condition, Limit, Severity
from alerts.conditions.expression import Expression, Match, Merged, Now, Over, Rise
from alerts.conditions.sentence import Explained, Sentence
from exporters.findings import GPU_KINDS
from exporters.gpu.xids import XIDS, Class

_GPU = ("node", "uuid")
_EVENT = Limit("events in the last", 10 * MINUTE, "seconds", "an event is no state: the alert ends by itself after it")


def _xids(kind: Class) -> Match:
    if kind is Class.OTHER:
        return Match("xid", tuple(map(str, sorted(XIDS))), "is_not")
    return Match("xid", tuple(str(number) for number, xid in sorted(XIDS.items()) if xid.kind is kind))


def _reported(kind: Class) -> Sentence:
    reported = "GPU {gpu} on {node} reported XID {xid}"
    words = tuple((str(number), xid.meaning) for number, xid in sorted(XIDS.items()) if xid.kind is kind)
    return Sentence(f"{reported}: {{explained}}", explained=Explained("xid", words)) if words else Sentence(reported)


def _xid_condition(name: str, severity: Severity, kind: Class, meaning: str, first: str) -> Condition:
    return Condition(
        name=name,
        severity=severity,
        meaning=meaning,
        summary=_reported(kind),
        first=first,
        expression=Rise("gpu_xid_errors_total", _EVENT.seconds, (_xids(kind),), born_on=_GPU).above(0),
        after=0,
        limits=(_EVENT,),
        hits_servers=True,
    )


XID_HARDWARE = _xid_condition(
    "GpuXidHardware",
    "page",
    Class.HARDWARE,
    "The driver reported an error that condemns the hardware.",
    "take the servers on this GPU out of the load balancer, then drain its node.",
)
XID_RECOVERED = _xid_condition(
    "GpuXidRecovered",
    "ticket",
    Class.RECOVERED,
    "The driver reported an error that it could contain.",
    "see whether a server on this GPU ended, and restart it.",
)
XID_APPLICATION = _xid_condition(
    "GpuXidApplication",
    "ticket",
    Class.APPLICATION,
    "The driver reported an error of a program on the GPU.",
    "read the log of the server on this GPU at that moment.",
)
XID_UNKNOWN = _xid_condition(
    "GpuXidUnknown",
    "ticket",
    Class.OTHER,
    "The driver reported an error whose number is not known here.",
    "look the number up in NVIDIA's list of XID errors.",
)

ECC = Condition(
    name="GpuEccUncorrected",
    severity="page",
    meaning="Memory of the GPU lost data.",
    summary=Sentence("Uncorrected ECC errors of GPU {gpu} on {node} within 10 minutes: {value}"),
    first="restart the servers on this GPU: what they answered in the last minutes may be wrong.",
    hits_servers=True,
    expression=Merged(
        "sum",
        Rise("gpu_ecc_errors_total", _EVENT.seconds, (Match("kind", ("uncorrected",)),)),
        without=("kind",),
    ).above(0),
    after=0,
    limits=(_EVENT,),
)

ROW_REMAP = Condition(
    name="GpuRowRemapFailed",
    severity="ticket",
    meaning="A broken memory row could not be replaced: no spare ones are left. It stays so until the GPU is replaced.",
    summary=Sentence("A GPU on {node} ({uuid}) has no spare memory rows left"),
    first="plan to have the GPU replaced, and silence this alert until then.",
    hits_servers=True,
    expression=Merged("max", Now("inferwatch_gpu_finding", (Match("reason", ("gpu_row_remap_failed",)),)), by=_GPU),
    after=6 * MINUTE,
    hold=Limit("for", 5 * MINUTE, "seconds", "it does not pass, and no minute counts"),
)

_THROTTLE_WINDOW = Limit("over", 15 * MINUTE, "seconds", "a hot moment is not worth a ticket")
_THROTTLED = Limit("share of time held down above", 0.1, "ratio", "a tenth of the time shows in tokens per second")
SLOWED = Condition(
    name="GpuSlowedDown",
    severity="ticket",
    meaning="The GPU's clocks are held down because it is too hot, or because its power supply says so.",
    summary=Sentence("Clocks of GPU {gpu} on {node} were held down for {value} of 15 minutes ({reason})", "ratio"),
    first="compare its temperature with its neighbours': one that is hot is its cooler, all of them are the room.",
    hits_servers=True,
    expression=Rise(
        "gpu_throttled_seconds_total",
        _THROTTLE_WINDOW.seconds,
        (Match("reason", ("hw_thermal", "power_brake", "sw_thermal", "thermal")),),
    )
    .per(_THROTTLE_WINDOW.value)
    .above(_THROTTLED.value),
    after=9 * MINUTE,
    limits=(_THROTTLE_WINDOW, _THROTTLED),
    hold=Limit("for", 5 * MINUTE, "seconds", "the first readings of a GPU are few"),
    keep=Limit("kept firing after it", 15 * MINUTE, "seconds", "heat comes and goes with the load"),
)

_LINK_WINDOW = Limit("over", 15 * MINUTE, "seconds", "errors come in bursts")
_RECOVERIES = Limit("recoveries above", 0, "", "each retrains a link, and every collective waits for it")
_RESENT = Limit("CRC errors and replays, at least", 100, "", "these are repaired by sending again: only many cost time")


def _link_errors(*kinds: str) -> Expression:
    rise = Rise("gpu_nvlink_errors_total", _LINK_WINDOW.seconds, (Match("kind", kinds),))
    return Merged("sum", rise, without=("kind",))


NVLINK = Condition(
    name="NvlinkErrors",
    severity="ticket",
    meaning="Links between GPUs make errors: tensor parallel servers get slow, or hang.",
    summary=Sentence("NVLink errors of GPU {gpu} on {node} within 15 minutes: {value}"),
    first="see whether the servers on it got slower or hang; where they did, drain the node and reset its GPUs.",
    hits_servers=True,
    expression=_link_errors("recovery")
    .above(_RECOVERIES.value)
    .otherwise(_link_errors("crc", "replay").at_least(_RESENT.value)),
    after=0,
    limits=(_LINK_WINDOW, _RECOVERIES, _RESENT),
)

LOST = Condition(
    name="GpuLost",
    severity="page",
    meaning="A GPU that was there does not answer any more.",
    summary=Sentence("GPU {gpu} on {node} was lost ({uuid})"),
    first="take the servers on it out of the load balancer, then drain its node and reboot it.",
    hits_servers=True,
    expression=Now("gpu_up").equal(0),
    after=3 * MINUTE,
    hold=Limit("for", 2 * MINUTE, "seconds", "a call may hang in the driver for a moment"),
    keep=Limit("kept firing after it", 5 * MINUTE, "seconds", "until the servers that it holds back are up"),
)

_IDLE_WINDOW = Limit("mean over", HOUR, "seconds", "one short kernel is no work")
_IDLE = Limit("utilisation below", 0.01, "ratio", "a probe, or a driver's own work")
_TAKEN = Limit("memory in use above", 0.1, "ratio", "somebody holds it")


def _used() -> Expression:
    """MIG instances have no utilisation, but activity; a GPU has both."""
    utilisation = Over("avg", "gpu_utilization_ratio", _IDLE_WINDOW.seconds)
    return utilisation.otherwise(Over("avg", "gpu_sm_active_ratio", _IDLE_WINDOW.seconds))


IDLE = Condition(
    name="GpuIdle",
    severity="ticket",
    meaning="Somebody holds the GPU's memory, and it computed nothing for a day.",
    summary=Sentence("GPU {gpu} on {node} is allocated and has been idle for a day"),
    first="find out who holds its memory (`nvidia-smi`), and whether they need it.",
    hits_servers=True,
    expression=_used()
    .below(_IDLE.value)
    .where(Now("gpu_memory_used_bytes").per(Now("gpu_memory_total_bytes")).above(_TAKEN.value)),
    after=DAY + HOUR,
    limits=(_IDLE_WINDOW, _IDLE, _TAKEN),
    hold=Limit("for", DAY, "seconds", "a quiet night is not idle, a day is"),
)

_OF_OTHERS = ("gpu_ecc_uncorrected", "gpu_row_remap_failed", "gpu_xid_hardware")
"""Errors with an alert of their own."""


def _in_words() -> Explained:
    words = {reason: kind.message.rstrip(".") for reason, kind in GPU_KINDS.items() if kind.severity == "error"}
    own = {"internal_error": "inferwatch failed on what the driver answered"}
    return Explained("reason", tuple((r, text) for r, text in (words | own).items() if r not in _OF_OTHERS))


_ERRORS = Now("inferwatch_gpu_finding", (Match("severity", ("error",)), Match("reason", _OF_OTHERS, "is_not")))

UNHEALTHY = Condition(
    name="GpuUnhealthy",
    severity="ticket",
    meaning="GPUs of a node cannot be read, or the driver says that one of them needs somebody, and none is lost.",
    summary=Sentence("GPUs on {node}{uuid?}: {explained} ({reason})", explained=_in_words()),
    first="do what its runbook says for this reason.",
    hits_servers=True,
    expression=Merged("max", _ERRORS, by=(*_GPU, "reason")).unless(Now("gpu_up").equal(0), on=("node",)),
    after=11 * MINUTE,
    hold=Limit("for", 10 * MINUTE, "seconds", "a driver is loaded, or a fabric starts, a while after the node"),
)

GPUS = (
    XID_HARDWARE,
    XID_RECOVERED,
    XID_APPLICATION,
    XID_UNKNOWN,
    ECC,
    ROW_REMAP,
    SLOWED,
    NVLINK,
    LOST,
    UNHEALTHY,
    IDLE,
)
