from __future__ import annotations

import httpx
from fastapi import FastAPI

from monitor.api.discovery import router


async def discovered(*sidecars: str) -> object:
    app = FastAPI()
    app.include_router(router(sidecars))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        answer = await client.get("/sd")
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def test_each_sidecar_is_a_target_at_its_own_place() -> None:
    assert await discovered("http://gpu-1:9840", "https://gpu-2/inferwatch/") == [
        {"targets": ["gpu-1:9840"], "labels": {"__scheme__": "http", "__metrics_path__": "/metrics"}},
        {"targets": ["gpu-2:443"], "labels": {"__scheme__": "https", "__metrics_path__": "/inferwatch/metrics"}},
    ]


async def test_no_sidecar_is_an_empty_list() -> None:
    assert await discovered() == []
