"""Run as a program: does what each line of its input says, at the time that it names, and answers with a line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

from exporters.findings import Finding
from exporters.gpu.gathered import Gathered
from exporters.gpu.mapping import ServerAddress
from exporters.gpu.nvml import NvmlSource


class Collector:
    def __init__(self) -> None:
        self._now = 0.0
        self._source: NvmlSource | None = None

    async def do(self, asked: dict[str, Any]) -> dict[str, object]:
        self._now = asked.get("at", self._now)
        if asked["do"] == "start":
            os.environ.update(asked["environment"])
            self._source = NvmlSource("n1", clock=self._clock, monotonic=self._clock, **asked["options"])
            return {}
        assert self._source
        if asked["do"] == "close":
            await self._source.aclose()
            return {"imported": "pynvml" in sys.modules}
        servers = [ServerAddress.of(name, url) for name, url in asked["servers"]]
        deadline = asyncio.get_running_loop().time() + asked["timeout"]
        return told(await self._source.collect(deadline, servers))

    def _clock(self) -> float:
        return self._now


async def main() -> None:
    collector = Collector()
    while line := await asyncio.to_thread(sys.stdin.readline):
        sys.stdout.write(json.dumps(await collector.do(json.loads(line))) + "\n")
        sys.stdout.flush()


def told(gathered: Gathered) -> dict[str, object]:
    return {
        "available": gathered.available,
        "findings": by_reason(gathered.findings),
        "failed": gathered.failed,
        "gpus": [
            {
                "uuid": gpu.uuid,
                "gpu": gpu.gpu,
                "up": gpu.up,
                "parent": gpu.parent,
                "series": [(s.metric, dict(s.labels), value) for s, value in gpu.values.items()],
                "findings": by_reason(gpu.findings),
                "fields": {f.field: (f.source, f.quality, f.reason) for f in gpu.fields},
            }
            for gpu in gathered.gpus
        ],
    }


def by_reason(findings: Iterable[Finding]) -> dict[str, str]:
    """Details, all of them where there are several findings of a reason."""
    told: dict[str, list[str]] = {}
    for found in findings:
        told.setdefault(found.reason, []).append(found.detail)
    return {reason: " | ".join(details) for reason, details in told.items()}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
