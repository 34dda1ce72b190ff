"""Looks for inference servers on a host, at the ports that people use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from exporters import tls
from exporters.collected import Collected
from exporters.config import Server
from exporters.fetch import JSON_TYPE, Body, fetch, transport
from exporters.target import Target
from inferwatch.console import columns
from inferwatch.report import Report, of_server

PORTS = (8000, 8001, 8002, 8080, 23333, 30000)
"""vLLM and TensorRT-LLM; a second and third one, and Triton's metrics; common choices; LMDeploy; SGLang."""
HOSTS = ("127.0.0.1", "[::1]")
"""This host."""
TIMEOUT_SECONDS = 3.0
_STOOD_STILL_SECONDS = 0.1
"""Beyond the time allowed: no server is so late, but this process."""

_MAX_MODEL_LIST_BYTES = 1 << 16
_NOTHING = "connection_refused"
_WHY_NONE = {
    _NOTHING: "nothing listens",
    "connect_failed": "cannot be reached",
    "timeout": "something listens, and does not answer in time",
    "protocol_error": "something listens that does not speak HTTP",
    "tls_error": "something listens that wants TLS",
    "unauthorized": "wants credentials: if it is an inference server, configure it with `bearer_token_file`",
    "not_found": "answers HTTP, and has no metrics",
    "server_error": "answers HTTP with an error",
    "html_body": "a web page, no inference server",
    "json_body": "answers JSON, no inference server that inferwatch knows",
    "empty_body": "an empty metrics page, so nobody knows whose",
    "no_engine_metrics": "metrics of something else",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is at one port. `server` is there if it can be watched; `text` says what it is, or why it is none."""

    port: int
    text: str
    server: Server | None = None
    listens: bool = True
    metrics_url: str = field(default="", compare=False)


async def look(
    ports: Sequence[int] = PORTS, *, hosts: Sequence[str] = HOSTS, timeout: float = TIMEOUT_SECONDS
) -> list[Seen]:
    """One result per port, in order, after little more than `timeout` seconds whatever listens there. Where this
    process stands still meanwhile it looks once more.

    `hosts` are names or addresses of the same host.
    """
    return _each_once(await asyncio.gather(*(_port(hosts, port, timeout) for port in ports)))


def _each_once(seen: Sequence[Seen]) -> list[Seen]:
    """Some servers have their metrics at a port of their own: that is not another server."""
    first: dict[str, int] = {}
    for s in seen:
        if s.server is not None:
            first.setdefault(s.metrics_url, s.port)
    return [
        s if s.server is None or (port := first[s.metrics_url]) == s.port else Seen(s.port, f"metrics of port {port}")
        for s in seen
    ]


def as_lines(seen: Sequence[Seen]) -> list[str]:
    return columns([(str(s.port), s.text) for s in seen])


async def _port(hosts: Sequence[str], port: int, timeout: float) -> Seen:
    found = await asyncio.gather(*(_address(host, port, timeout) for host in hosts))
    return next((s for s in found if s.server), None) or next((s for s in found if s.listens), found[0])


async def _address(host: str, port: int, timeout: float) -> Seen:
    """After a stop even an answer that has come is too late: nobody is told of as silent for that."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout
    seen = await _asked(host, port, timeout, deadline)
    return seen if clock() < deadline + _STOOD_STILL_SECONDS else await _asked(host, port, timeout, clock() + timeout)


async def _asked(host: str, port: int, timeout: float, deadline: float) -> Seen:
    server = Server.model_validate({"url": f"http://{host}:{port}"})
    target = Target(server, node="", timeout=timeout, destructive=False)
    try:
        collected = await target.collect(deadline)
    finally:
        await target.aclose()
    report = of_server(server.url, collected)
    if "frontend" in report.facts:
        return Seen(port, _server_text(report), server, metrics_url=collected.debug.url)
    reason = _reason(collected)
    if reason == "not_found" and (models := await _models(server, deadline)):
        return Seen(port, f"an OpenAI-compatible server of {models} without metrics: switch its metrics on")
    return Seen(port, _none_text(collected, reason), listens=reason != _NOTHING)


def _server_text(report: Report) -> str:
    facts = report.facts
    name = " ".join(filter(None, (facts["frontend"], facts.get("version"))))
    said = [name, *([facts["model"]] if "model" in facts else [])]
    said += [f"{finding.message} {finding.remedy}" for finding in report.findings if not report.available]
    return ", ".join(said)


def _reason(collected: Collected) -> str:
    findings = collected.observation.findings
    return findings[0].reason if findings else "no_engine_metrics"


def _none_text(collected: Collected, reason: str) -> str:
    findings = collected.observation.findings
    text = _WHY_NONE.get(reason) or (findings[0].message if findings else "no inference server")
    detail = findings[0].detail if findings and reason == "no_engine_metrics" else ""
    return f"{text} ({detail})" if detail else text


async def _models(server: Server, deadline: float) -> str:
    """What an OpenAI-compatible server says it serves; empty where it is none."""
    client = transport(tls.unused())
    try:
        answer = await fetch(
            client, f"{server.url}/v1/models", deadline=deadline, max_bytes=_MAX_MODEL_LIST_BYTES, accept=JSON_TYPE
        )
    finally:
        await client.aclose()
    try:
        return (
            ", ".join(str(model["id"]) for model in json.loads(answer.text)["data"]) if isinstance(answer, Body) else ""
        )
    except (ValueError, LookupError, TypeError):
        return ""
