"""What Triton counts of each model of its repository; its page and its statistics document tell the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from demo.faces.triton_families import PHASES


@dataclass(slots=True)
class Model:
    """Times are nanoseconds, all together."""

    name: str
    successes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    nanoseconds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("success", *PHASES), 0))
    last_inference: float = 0.0

    def succeed(
        self, now: float, seconds: float, count: int = 1, *, queue: float = 1e-5, copying: float = 1e-5
    ) -> None:
        """Each took `seconds`; what it neither waited nor copied, it computed."""
        self.successes += count
        self.last_inference = now
        phases = {
            "success": seconds, "queue": queue, "compute_input": copying, "compute_output": copying,
            "compute_infer": max(seconds - queue - 2 * copying, 0.0),
        }  # fmt: skip
        for phase, each in phases.items():
            self.nanoseconds[phase] += round(each * 1e9) * count

    def fail(self, reason: str, times: int = 1) -> None:
        self.failures[reason] = self.failures.get(reason, 0) + times

    def document(self) -> dict[str, object]:
        spent = {phase: {"count": self.successes, "ns": self.nanoseconds[phase]} for phase in PHASES}
        computing = {phase: spent[phase] for phase in PHASES if phase != "queue"}
        nothing = {"count": 0, "ns": 0}
        return {
            "name": self.name,
            "version": "1",
            "last_inference": int(self.last_inference * 1000),
            "inference_count": self.successes,
            "execution_count": self.successes,
            "inference_stats": {
                "success": {"count": self.successes, "ns": self.nanoseconds["success"]},
                "fail": {"count": sum(self.failures.values()), "ns": 0},
                **spent,
                "cache_hit": nothing,
                "cache_miss": nothing,
            },
            "response_stats": {},
            "batch_stats": [{"batch_size": 1, **computing}] if self.successes else [],
            "memory_usage": [],
        }
