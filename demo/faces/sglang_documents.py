"""SGLang's JSON documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from demo.faces.sglang_engine import Reports
from demo.model import Answer, EngineState, Identity


def answer(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value, separators=(",", ":")).encode())


def models(identity: Identity, context_tokens: int, *, names_parents: bool, now: float) -> object:
    """Old releases list neither adapters nor parents."""
    served = _card(identity.model, context_tokens, now)
    if not names_parents:
        return {"object": "list", "data": [served]}
    adapters = [{**_card(name, None, now), "parent": identity.model} for name in identity.adapters]
    return {"object": "list", "data": [{**served, "parent": None}, *adapters]}


def _card(name: str, longest: int | None, now: float) -> dict[str, object]:
    return {
        "id": name, "object": "model", "created": int(now), "owned_by": "sglang", "root": name,
        "max_model_len": longest,
    }  # fmt: skip


def model_info(identity: Identity) -> object:
    return {
        "model_path": identity.model, "tokenizer_path": identity.model, "is_generation": True,
        "preferred_sampling_params": None,
    }  # fmt: skip


def server_info(identity: Identity, engines: Sequence[EngineState], reports: Sequence[Reports]) -> object:
    """Arguments, what the scheduler found, and the state of each engine."""
    limits = engines[0].limits
    mode = "null" if identity.role == "unified" else identity.role
    return {
        "model_path": identity.model, "tokenizer_path": identity.model, "served_model_name": identity.model,
        "tp_size": identity.tensor_parallel, "pp_size": 1, "dp_size": len(engines), "dtype": "auto",
        "kv_cache_dtype": "auto", "quantization": None, "page_size": limits.block_tokens, "max_total_tokens": None,
        "max_running_requests": None, "context_length": None, "disable_radix_cache": not limits.prefix_caching,
        "disaggregation_mode": mode, "decode_log_interval": 40, "enable_metrics": True,
        "collect_tokens_histogram": True, "max_total_num_tokens": limits.kv_tokens,
        "max_req_input_len": limits.context_tokens - 6,
        "internal_states": [_state(*pair, mode) for pair in zip(engines, reports, strict=True)],
        "version": identity.release,
    }  # fmt: skip


def _state(engine: EngineState, reports: Reports, mode: str) -> object:
    return {
        "last_gen_throughput": reports.throughput,
        "effective_max_running_requests_per_dp": engine.limits.running,
        "memory_usage": {"token_capacity": engine.limits.kv_tokens},
        "disaggregation_mode": mode,
    }


def loads(identity: Identity, engines: Sequence[EngineState], reports: Sequence[Reports], now: float) -> object:
    pairs = enumerate(zip(engines, reports, strict=True))
    return {
        "timestamp": now, "version": identity.release, "dp_rank_count": len(engines),
        "loads": [_load(rank, *pair) for rank, pair in pairs],
    }  # fmt: skip


def _load(rank: int, engine: EngineState, reports: Reports) -> object:
    waiting, used, capacity = engine.waiting, engine.kv_tokens, engine.limits.kv_tokens
    return {
        "dp_rank": rank, "num_running_reqs": len(engine.running), "num_waiting_reqs": len(waiting),
        "num_waiting_uncached_tokens": sum(r.prompt_tokens for r in waiting), "num_used_tokens": used,
        "num_total_tokens": used + sum(r.prompt_tokens for r in waiting), "max_total_num_tokens": capacity,
        "max_running_requests": engine.limits.running, "token_usage": round(used / capacity, 4),
        "gen_throughput": reports.throughput, "cache_hit_rate": reports.hit_rate, "utilization": 0.0,
    }  # fmt: skip


def load(engines: Sequence[EngineState]) -> object:
    """Tokens held and waited for, as one number."""
    return {"load": sum(e.kv_tokens + sum(r.prompt_tokens for r in e.waiting) for e in engines)}
