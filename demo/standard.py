"""The fleet that `inferwatch up --demo` shows: every release that has a face, on three hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.workload import BATCH, CHAT, CODE, LORA, RAG, Mix, Rate

GPUS: Mapping[str, int] = {"sim-1": 8, "sim-2": 8, "sim-3": 8}
QWEN, CODER, LARGE, PAIRED = (
    "Qwen2.5-7B-Instruct", "Qwen2.5-Coder-32B-Instruct", "Llama-3.3-70B-Instruct", "Qwen2.5-14B-Instruct",
)  # fmt: skip
_USUAL = Limits(running=256, waiting=512, kv_tokens=200_000)
_SMALL = Limits(running=128, waiting=256, kv_tokens=80_000)


_TTFT = "time_to_first_token_seconds"
_RENAMED: Mapping[str, str] = {
    **{f"{of}{_TTFT}": f"{of}ttft_seconds" for of in ("vllm:", "sglang:", "lmdeploy:", "trtllm_", "")},
    "nv_trt_llm_request_metrics": "nv_trt_llm_requests",
    "sglang:num_prefill_inflight_queue_reqs": "sglang:prefill_inflight_queue_reqs",
}
"""Of whichever of these a server shows."""


def _spec(name: str, frontend: str, release: str, model: str, place: str, *gpus: int, **more: object) -> Spec:
    made = Spec(name, place, frontend, release, model, gpus, _USUAL, renamed=_RENAMED)
    return replace(made, **more)  # type: ignore[arg-type]  # parts of a Spec


def _team(name: str) -> Mapping[str, str]:
    return {"team": name}


SPECS: Sequence[Spec] = (
    _spec("vllm-chat-1", "vllm", "0.32.0", QWEN, "sim-1", 0, labels=_team("assistant")),
    _spec("vllm-chat-2", "vllm", "0.32.0", QWEN, "sim-1", 1, labels=_team("assistant")),
    _spec("vllm-chat-3", "vllm", "0.10.2", QWEN, "sim-2", 0, labels=_team("assistant")),
    _spec("vllm-lora", "vllm", "0.6.6.post1", "Llama-3.1-8B-Instruct", "sim-1", 2, labels=_team("legal"),
          limits=replace(_USUAL, adapters=4), adapters=LORA.adapters),
    _spec("sglang-search", "sglang", "0.5.23", QWEN, "sim-2", 1, labels=_team("search")),
    _spec("sglang-old", "sglang", "0.4.9", "Mistral-7B-Instruct-v0.3", "sim-2", 2, labels=_team("mail")),
    _spec("sglang-large", "sglang", "0.5.23", LARGE, "sim-2", 3, 4, 5, 6, tensor_parallel=4, slowness=4.0,
          labels=_team("assistant")),
    _spec("sglang-wide", "sglang", "0.5.23", "Qwen3-30B-A3B", "sim-3", 0, 1, engines=2, labels=_team("search")),
    _spec("sglang-prefill", "sglang", "0.5.23", PAIRED, "sim-3", 2, role="prefill", labels=_team("documents")),
    _spec("sglang-decode", "sglang", "0.5.23", PAIRED, "sim-3", 3, role="decode", slowness=2.0,
          labels=_team("documents")),
    _spec("lmdeploy-new", "lmdeploy", "0.18.0", QWEN, "sim-1", 3, labels=_team("agents")),
    _spec("lmdeploy-old", "lmdeploy", "0.9.2", "internlm2_5-7b-chat", "sim-1", 4, limits=_SMALL, labels=_team("mail")),
    _spec("trtllm-new", "trtllm_serve", "1.3.0", QWEN, "sim-1", 5, labels=_team("agents"), tells_iterations=False),
    _spec("trtllm-code", "trtllm_serve", "1.2.1", CODER, "sim-1", 6, slowness=4.0, labels=_team("code")),
    _spec("triton-batch", "triton", "24.11", "Llama-3.1-8B-Instruct-FP8", "sim-3", 4, labels=_team("reports")),
)  # fmt: skip


def _service(name: str, mix: Mix, mean: float, *servers: str, decode: str = "", peak: float = 14.0) -> Service:
    return Service(name, servers, mix, Rate(mean, 0.6, peak), decode)


SERVICES: Sequence[Service] = (
    _service("chat", CHAT, 4.5, "vllm-chat-1", "vllm-chat-2", "vllm-chat-3"),
    _service("contracts", LORA, 1.0, "vllm-lora", peak=10.0),
    _service("search", RAG, 1.2, "sglang-search"),
    _service("mail", CHAT, 0.8, "sglang-old"),
    _service("assistant", CHAT, 1.0, "sglang-large"),
    _service("images", RAG, 1.2, "sglang-wide", peak=19.0),
    _service("documents", RAG, 1.0, "sglang-prefill", decode="sglang-decode"),
    _service("agents", CHAT, 1.2, "lmdeploy-new"),
    _service("sorting", BATCH, 0.5, "lmdeploy-old", peak=2.0),
    _service("tools", CHAT, 1.2, "trtllm-new"),
    _service("code", CODE, 0.4, "trtllm-code", peak=9.0),
    _service("reports", BATCH, 0.5, "triton-batch", peak=3.0),
)


def standard(*, seed: int, start: float, load: float = 1.0, kept: float | None = None) -> Fleet:
    """`load` is times the usual requests."""
    services = [replace(service, rate=replace(service.rate, mean=load * service.rate.mean)) for service in SERVICES]
    return Fleet(SPECS, services, GPUS, seed=seed, start=start, kept=kept)
