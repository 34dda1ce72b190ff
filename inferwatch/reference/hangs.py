"""What is told of a server that hangs, by release: tests hold it to the simulated fleet."""

from __future__ import annotations

from dataclasses import dataclass

from inferwatch.reference.markdown import table

_STUCK, _UNKNOWN, _NOTHING = "ServerStuck", "ProgressUnknown", ""
_INTRODUCTION = (
    "Which of these tells of a server that answers and makes no tokens is a matter of what its release counts, and of "
    "what its [health](configuration.md#health) says. Nothing is said where nothing tells: with a "
    "[synthetic request](configuration.md#synthetic-requests) each of them is `ServerStuck`, 5 minutes after the first "
    "one that failed, and a minute or two more without a Prometheus."
)


@dataclass(frozen=True, slots=True)
class Hang:
    """`told` names an alert, or nothing: of a server that hangs at work, idle and then asked for something, or idle."""

    release: str
    told: tuple[str, str, str]
    why: str


HANGS = (
    Hang("vLLM", (_STUCK, _STUCK, _NOTHING), "tokens that stop and a queue; its health notices dead engines only"),
    Hang("SGLang 0.5.23", (_STUCK, _STUCK, _STUCK), "its health, which asks the scheduler"),
    Hang(
        "SGLang 0.4.9", (_UNKNOWN, _NOTHING, _NOTHING),
        "it counts when requests finish, and its queue is counted by the scheduler that hangs",
    ),
    Hang("LMDeploy 0.18", (_STUCK, _STUCK, _NOTHING), "tokens that stop, a queue, and its health once it has requests"),
    Hang("LMDeploy 0.9.2", (_UNKNOWN, _UNKNOWN, _NOTHING), "what waits while nothing finishes; its health is good"),
    Hang(
        "trtllm-serve", (_NOTHING, _NOTHING, _NOTHING),
        "its gauges stand still when it does; at work ProgressUnknown, if its GPU looks busy",
    ),
    Hang("Triton with TensorRT-LLM", (_NOTHING, _NOTHING, _NOTHING), "as trtllm-serve"),
)  # fmt: skip


def hangs() -> str:
    rows = ((hang.release, *(name or "nothing" for name in hang.told), hang.why) for hang in HANGS)
    heads = ("release", "hangs at work", "idle, then asked for something", "idle, not asked", "what tells, or why not")
    return f"{_INTRODUCTION}\n\n{table(heads, rows)}"
