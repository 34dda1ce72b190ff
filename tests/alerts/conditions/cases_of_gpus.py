from __future__ import annotations

from tests.alerts.conditions.world import Case, Fires, Samples, World, gone, held, rising

GPU = 'node="n1",uuid="GPU-1",gpu="0"'
G = {"node": "n1", "uuid": "GPU-1", "gpu": "0"}


def xids(**samples: Samples) -> World:
    return {f'gpu_xid_errors_total{{{GPU},xid="{name[1:]}"}}': values for name, values in samples.items()}


def counter(metric: str, label: str, **samples: Samples) -> World:
    return {f'gpu_{metric}_total{{{GPU},{label}="{name}"}}': values for name, values in samples.items()}


def gauges(minutes: float, **samples: Samples) -> World:
    return {f"gpu_up{{{GPU}}}": held(1, minutes), **{f"gpu_{name}{{{GPU}}}": v for name, v in samples.items()}}


def idle(used: Samples, memory: float, name: str = "utilization_ratio") -> World:
    minutes = len(used) / 2
    return gauges(minutes, **{
        name: used, "memory_used_bytes": held(memory, minutes), "memory_total_bytes": held(80, minutes),
    })  # fmt: skip


def found(reason: str, samples: Samples, *, uuid: str = "", severity: str = "error") -> World:
    of = f'uuid="{uuid}",' if uuid else ""
    return {f'inferwatch_gpu_finding{{node="n1",{of}reason="{reason}",severity="{severity}"}}': samples}


def event(value: float = 1) -> Samples:
    """At minute 10."""
    return [*held(0, 10), *held(value, 30)]


def renumbered() -> World:
    second = 'node="n1",uuid="GPU-1",gpu="1",xid="79"'
    return {**xids(x79=[*held(1, 10), *gone(20)]), f"gpu_xid_errors_total{{{second}}}": [*gone(10), *held(1, 20)]}


DAY = 1440
THROTTLED, ECC, LINKS = ("throttled_seconds", "reason"), ("ecc_errors", "kind"), ("nvlink_errors", "kind")

GPU_CASES = [
    # an event lasts 10 minutes
    Case("fallen off the bus", "GpuXidHardware", xids(x79=event(), x31=held(0, 40)),
         (Fires(10, 20, {**G, "xid": "79"}),), since=10),
    Case("a second event is no second alert", "GpuXidHardware",
         xids(x79=[*held(0, 10), *held(1, 5), *held(2, 25)]), (Fires(10, 25, {**G, "xid": "79"}),)),
    Case("a fault of the application", "GpuXidHardware", xids(x31=event(), x79=held(0, 40))),
    Case("one of yesterday", "GpuXidHardware", xids(x79=held(1, 40))),
    Case("inferwatch restarts", "GpuXidHardware", xids(x79=[*held(1, 10), *held(0, 20)])),
    Case("the GPU gets another number", "GpuXidHardware", renumbered()),
    Case("not watched", "GpuXidHardware", gauges(30)),
    Case("a row is remapped", "GpuXidRecovered", xids(x63=event()), (Fires(10, 20, {**G, "xid": "63"}),),
         since=10),
    Case("fallen off the bus", "GpuXidRecovered", xids(x79=event())),
    Case("a page fault", "GpuXidApplication", xids(x31=event(), x79=held(0, 40)), (Fires(10, 20, {**G, "xid": "31"}),),
         since=10),
    Case("a contained error", "GpuXidApplication", xids(x94=event())),
    Case("a number is born at its first event", "GpuXidUnknown",
         xids(x79=held(0, 40), x150=[*gone(10), *held(1, 30)]), (Fires(10, 20, {**G, "xid": "150"}),), since=10),
    Case("a born number has its second event", "GpuXidUnknown",
         xids(x79=held(0, 60), x150=[*gone(10), *held(1, 20), *held(2, 30)]),
         (Fires(10, 20, {**G, "xid": "150"}), Fires(30, 40, {**G, "xid": "150"}))),
    Case("seen first with events of before", "GpuXidUnknown",
         xids(x79=[*gone(10), *held(0, 30)], x150=[*gone(10), *held(3, 30)])),
    Case("one that is known", "GpuXidUnknown", xids(x79=event(), x31=event(), x63=event())),

    Case("two errors", "GpuEccUncorrected", counter(*ECC, uncorrected=event(2), corrected=held(0, 40)),
         (Fires(10, 20, G),), since=10),
    Case("corrected ones", "GpuEccUncorrected", counter(*ECC, uncorrected=held(0, 40), corrected=event(9))),
    Case("errors of before it was seen", "GpuEccUncorrected", counter(*ECC, uncorrected=held(4, 40))),
    Case("the driver is loaded again", "GpuEccUncorrected", counter(*ECC, uncorrected=[*held(4, 10), *held(0, 30)])),

    Case("no spare rows", "GpuRowRemapFailed", {
        'inferwatch_gpu_finding{node="n1",uuid="GPU-1",reason="gpu_row_remap_failed",severity="error"}':
        [*gone(10.5), *held(1, 20), *gone(20)]}, (Fires(16, 31, {"node": "n1", "uuid": "GPU-1"}),),
         since=10),
    Case("rows that wait for a reset", "GpuRowRemapFailed", {
        'inferwatch_gpu_finding{node="n1",uuid="GPU-1",reason="gpu_row_remap_pending",severity="warning"}':
        held(1, 40)}),

    # 30 s a minute are half of the time: a tenth of 15 minutes at the third minute, for 5 minutes, kept 15 minutes
    Case("too hot half of the time", "GpuSlowedDown",
         counter(*THROTTLED, hw_thermal=[*held(0, 20), *rising(30, 30), *held(900, 60)]),
         (Fires(29, 77, {**G, "reason": "hw_thermal"}),), since=20),
    Case("too hot for a moment", "GpuSlowedDown", counter(*THROTTLED, hw_thermal=[*held(0, 20), *held(60, 60)])),
    Case("a twentieth of the time", "GpuSlowedDown", counter(*THROTTLED, power_brake=rising(3, 60))),
    Case("at its power limit", "GpuSlowedDown", counter(*THROTTLED, power=rising(55, 60))),
    Case("the driver is loaded again", "GpuSlowedDown",
         counter(*THROTTLED, sw_thermal=[*held(90000, 20), *held(0, 40)])),

    Case("a link is recovered", "NvlinkErrors", counter(*LINKS, recovery=event(), crc=held(0, 40)),
         (Fires(10, 25, G),), since=10),
    Case("many are sent again", "NvlinkErrors",
         counter(*LINKS, crc=[*held(0, 10), *held(120, 30)], recovery=held(0, 40)), (Fires(10, 25, G),)),
    Case("few are sent again", "NvlinkErrors", counter(*LINKS, crc=event(30), replay=event(30))),

    Case("lost, and back", "GpuLost", {f"gpu_up{{{GPU}}}": [*held(1, 10.5), *held(0, 10), *held(1, 10)]},
         (Fires(13, 26, G),), since=10),  # back at minute 21, and kept for five
    Case("hangs for a moment", "GpuLost", {f"gpu_up{{{GPU}}}": [*held(1, 10.5), *held(0, 2), *held(1, 10)]}),
    Case("up", "GpuLost", gauges(20)),
    Case("not read any more", "GpuLost", {f"gpu_up{{{GPU}}}": [*held(1, 10), *gone(20)]}),

    Case("the driver is not loaded", "GpuUnhealthy", found("gpu_no_driver", [*gone(10.5), *held(1, 20), *gone(10)]),
         (Fires(21, 31, {"node": "n1", "reason": "gpu_no_driver"}),), since=10),
    Case("the fabric of one is not ready", "GpuUnhealthy", {
        **found("gpu_fabric_not_ready", held(1, 30), uuid="GPU-1"), f"gpu_up{{{GPU}}}": held(1, 30)},
         (Fires(10, None, {"node": "n1", "uuid": "GPU-1", "reason": "gpu_fabric_not_ready"}),)),
    Case("the driver is gone, and with it the GPUs", "GpuUnhealthy",
         {**found("gpu_no_driver", held(1, 30)), f"gpu_up{{{GPU}}}": held(0, 30)}),
    Case("the driver is gone for ten minutes", "GpuUnhealthy", found("gpu_no_driver", [*held(1, 9.5), *gone(20)])),
    Case("memory lost data, which has an alert of its own", "GpuUnhealthy",
         found("gpu_ecc_uncorrected", held(1, 30), uuid="GPU-1")),
    Case("some readings are not permitted", "GpuUnhealthy",
         found("gpu_no_permission", held(1, 30), severity="warning")),

    # idle at minute 0, and at every evaluation since
    Case("idle for a day", "GpuIdle", idle(held(0, DAY + 30), 60), (Fires(DAY, None, G),)),
    Case("an instance without utilisation", "GpuIdle", idle(held(0, DAY + 30), 60, "sm_active_ratio"),
         (Fires(DAY, None, G),)),
    # one of 120 readings may be one of work: at minute 119, and a day later it fires
    Case("idle from minute 60 on", "GpuIdle", idle([*held(1, 60), *held(0, DAY + 70)], 60),
         (Fires(DAY + 119, None, G),), since=59),
    Case("nobody has it", "GpuIdle", idle(held(0, DAY + 30), 4)),
    Case("half an hour of work", "GpuIdle", idle([*held(0, 600), *held(0.9, 30), *held(0, DAY - 600)], 60)),
    Case("idle since it was first seen", "GpuIdle", idle(held(0, 600), 60)),
]  # fmt: skip
