"""Results of load tests, made by hand after the tools' own descriptions of their files."""

from __future__ import annotations

from typing import Any

VLLM: dict[str, Any] = {
    "date": "20261130-091500",
    "backend": "vllm",
    "label": None,
    "model_id": "Qwen/Qwen2.5-7B-Instruct",
    "tokenizer_id": "Qwen/Qwen2.5-7B-Instruct",
    "num_prompts": 1000,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 64,
    "duration": 40.0,
    "completed": 1000,
    "failed": 0,
    "total_input_tokens": 512_000,
    "total_output_tokens": 256_000,
    "request_throughput": 25.0,
    "request_goodput": None,
    "output_throughput": 6400.0,
    "total_token_throughput": 19_200.0,
    "mean_ttft_ms": 400.0,
    "median_ttft_ms": 350.0,
    "std_ttft_ms": 200.0,
    "p99_ttft_ms": 1100.0,
    "mean_tpot_ms": 8.0,
    "median_tpot_ms": 8.0,
    "std_tpot_ms": 0.5,
    "p99_tpot_ms": 9.5,
    "mean_itl_ms": 8.0,
    "median_itl_ms": 7.5,
    "std_itl_ms": 3.0,
    "p99_itl_ms": 25.0,
}


def _statistics(mean: float, p50: float, p99: float) -> dict[str, Any]:
    told = {"mean": mean, "median": p50, "count": 100, "percentiles": {"p50": p50, "p99": p99}}
    return {"successful": told, "errored": {"mean": 0.0, "percentiles": {}}}


def benchmark(streams: float, requests: float) -> dict[str, Any]:
    return {
        "start_time": 1_796_083_200.5,
        "config": {"backend": {"model": "Qwen/Qwen2.5-7B-Instruct"}},
        "metrics": {
            "request_totals": {"successful": 100, "errored": 1, "incomplete": 2, "total": 103},
            "requests_per_second": _statistics(requests, requests, requests),
            "request_concurrency": _statistics(streams, streams, streams),
            "request_latency": _statistics(streams / requests, 2.5, 3.5),
            "prompt_token_count": _statistics(512, 512, 512),
            "output_token_count": _statistics(256, 256, 256),
            "time_to_first_token_ms": _statistics(400, 350, 1100),
            "inter_token_latency_ms": _statistics(8, 8, 9),
            "tokens_per_second": _statistics(19_000, 20_000, 60_000),
        },
    }


GUIDELLM: dict[str, Any] = {"args": {"target": "http://x"}, "benchmarks": [benchmark(16, 10), benchmark(64, 25)]}

AIPERF: dict[str, Any] = {
    "schema_version": "1.0",
    "request_throughput": {"unit": "requests/sec", "avg": 25.0},
    "request_latency": {"unit": "ms", "avg": 2560.0, "p50": 2500.0, "p99": 3500.0},
    "time_to_first_token": {"unit": "ms", "avg": 400.0, "p50": 350.0, "p99": 1100.0},
    "inter_token_latency": {"unit": "ms", "avg": 8.0, "p50": 8.0, "p99": 9.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 6400.0},
    "total_token_throughput": {"unit": "tokens/sec", "avg": 19_200.0},
    "input_sequence_length": {"unit": "tokens", "avg": 512.0},
    "output_sequence_length": {"unit": "tokens", "avg": 256.0},
    "start_time": "2026-11-30T09:15:00+00:00",
    "input_config": {
        "endpoint": {"model_names": ["Qwen/Qwen2.5-7B-Instruct"]},
        "loadgen": {"concurrency": 64},
    },
}
