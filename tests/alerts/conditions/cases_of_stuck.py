from __future__ import annotations

from exporters.rhythm import COUNTED_AT_FINISH, STICKS
from tests.alerts.conditions.world import Case, Fires, Samples, World, gone, held, rising

A = {"node": "n1", "server": "a"}


def server(
    frontend: str,
    running: Samples,
    tokens: Samples,
    prompts: Samples | None = None,
    notes: dict[str, str] | None = None,
) -> World:
    framework = {"triton": "tensorrt_llm", "nim": "vllm"}.get(frontend, frontend)
    at, minutes = 'node="n1",server="a"', len(running) / 2
    of = f'{at},framework="{framework}",model="m",role="unified",engine="0"'
    info = f'llm_field_info{{{at},field="%s",source="x",quality="approximate",reason="%s"}}'
    return {
        f"llm_up{{{at}}}": held(1, minutes),
        f"llm_requests_running{{{of}}}": running,
        f"llm_generation_tokens_total{{{of}}}": tokens,
        f"llm_prompt_tokens_total{{{of}}}": held(5, minutes) if prompts is None else prompts,
        f'llm_server_info{{{of},frontend="{frontend}",version="1.0"}}': held(1, minutes),
        **{info % (name, reason): held(1, minutes) for name, reason in (notes or {}).items()},
    }


def hangs(frontend: str, minutes: float = 40, notes: dict[str, str] | None = None) -> World:
    """From minute 10 on: the last token is counted then."""
    tokens = rising(600, 10.5)
    return server(frontend, held(4, 10.5 + minutes), [*tokens, *held(tokens[-1] or 0, minutes)], notes=notes)


def probe(samples: Samples) -> World:
    return {'llm_probe_success{node="n1",server="a"}': samples}


def on_gpu(utilization: float, minutes: float) -> World:
    gpu = 'node="n1",uuid="GPU-1",gpu="0"'
    return {
        f'gpu_server_info{{{gpu},server="a",source="process"}}': held(1, minutes),
        f"gpu_utilization_ratio{{{gpu}}}": held(utilization, minutes),
    }


def state(name: str, minutes: float) -> World:
    of = 'node="n1",server="a",framework="vllm",model="m",role="unified",engine="0"'
    return {f'llm_server_state{{{of},state="{name}"}}': held(1, minutes)}


def two_engines() -> World:
    """From minute 10 on nothing finishes."""
    of = 'node="n1",server="a",framework="sglang",model="m",role="unified"'
    return {
        **{f'llm_requests_running{{{of},engine="{n}"}}': held(4, 60.5) for n in "01"},
        f'llm_requests_finished_total{{{of},reason="unknown"}}': [*rising(10, 10.5), *held(100, 50)],
        f'llm_server_info{{{of},engine="0",frontend="sglang",version="0.5.3"}}': held(1, 60.5),
        'llm_field_info{node="n1",server="a",field="llm_generation_tokens_total",source="x",quality="approximate",'
        f'reason="{COUNTED_AT_FINISH}"}}': held(1, 60.5),
    }


def waiting(frontend: str, samples: Samples) -> World:
    of = f'node="n1",server="a",framework="{frontend}",model="m",role="unified",engine="0"'
    return {f"llm_requests_waiting{{{of}}}": samples}


def unhealthy(since: float, minutes: float) -> World:
    of = 'node="n1",server="a",reason="unhealthy",severity="error"'
    return {f"inferwatch_finding{{{of}}}": [*gone(since), *held(1, minutes), *gone(5)]}


QUEUED = {"llm_requests_waiting": "aborted requests are never taken off"}
STICKY = {"llm_requests_running": f"refreshed every 0.1 s; {STICKS}"}
LATE = {"llm_generation_tokens_total": f"{COUNTED_AT_FINISH}: what still runs is missing"}
M = {**A, "framework": "vllm", "model": "m", "role": "unified", "engine": "0"}
OF_MODEL = {**A, "framework": "vllm", "model": "m", "role": "unified"}
PAUSE = hangs("vllm", 6)

STUCK_CASES = [
    # the last rise is read at minute 10: none within 2 minutes at 12, for 5 minutes at 17
    Case("a vLLM hangs", "ServerStuck", hangs("vllm"), (Fires(17, None, M),), since=10),
    Case("an SGLang hangs", "ServerStuck", hangs("sglang"), (Fires(17, None, {**M, "framework": "sglang"}),)),
    Case("it hangs for six minutes", "ServerStuck",
         server("vllm", held(4, 37), [*rising(600, 10.5), *held(6000, 6), *rising(600, 20.5, 6300)])),
    Case("it hangs, and comes back", "ServerStuck",
         server("vllm", held(4, 51), [*rising(600, 10.5), *held(6000, 20), *rising(600, 20.5, 6300)]),
         (Fires(17, 36, M),)),
    Case("a vLLM hung while it was idle, and what comes then waits", "ServerStuck",
         {**server("vllm", held(0, 40), held(6000, 40)), **waiting("vllm", [*held(0, 10), *rising(10, 30, 10)])},
         (Fires(15, None, M),)),
    Case("an idle LMDeploy that shows a queue for ever", "ServerStuck",
         {**server("lmdeploy", held(0, 40), held(6000, 40), notes=QUEUED), **waiting("lmdeploy", held(1, 40))}),
    # longer than in the 5 minutes until 5 minutes ago from minute 10 on, for 5 minutes at 15
    Case("an LMDeploy hung while it was idle, and its queue grows", "ServerStuck",
         {**server("lmdeploy", held(0, 40), held(6000, 40), notes=QUEUED),
          **waiting("lmdeploy", [*held(3, 10), *rising(1, 20, 4), *held(23, 10)])},
         (Fires(15, 39, {**M, "framework": "lmdeploy"}),)),
    Case("an LMDeploy that hangs, whose queue is full and which says so: one alert", "ServerStuck",
         {**server("lmdeploy", held(0, 40), held(6000, 40), notes=QUEUED), **unhealthy(12.5, 27.5),
          **waiting("lmdeploy", [*held(3, 10), *rising(1, 20, 4), *held(23, 10)])},
         (Fires(15, None, {**M, "framework": "lmdeploy"}),)),
    Case("an idle LMDeploy whose queue grew once", "ServerStuck",
         {**server("lmdeploy", held(0, 40), held(6000, 40), notes=QUEUED),
          **waiting("lmdeploy", [*held(3, 10.5), *held(4, 29.5)])}),
    Case("an LMDeploy whose queue grows while it works", "ServerStuck",
         {**server("lmdeploy", held(4, 40), rising(600, 40), notes=QUEUED),
          **waiting("lmdeploy", [*held(3, 10), *rising(1, 30, 4)])}),
    Case("it says that it is not healthy", "ServerStuck",
         {**server("trtllm_serve", held(1, 40), held(6000, 40), notes=STICKY), **unhealthy(10.5, 20)},
         (Fires(16, 36, A),)),
    Case("it says so for five minutes", "ServerStuck",
         {**server("trtllm_serve", held(1, 40), held(6000, 40), notes=STICKY), **unhealthy(10.5, 5)}),
    Case("it says so under load, and tokens come", "ServerStuck",
         {**server("sglang", held(40, 40), rising(600, 40)), **unhealthy(10.5, 20)}),
    Case("it says so while it starts", "ServerStuck",
         {**server("lmdeploy", held(0, 40), held(0, 40)), **state("starting", 40), **unhealthy(0, 40)}),
    Case("it hangs, and says so: one alert", "ServerStuck", {**hangs("vllm"), **unhealthy(10.5, 40)},
         (Fires(17, None, M),)),
    Case("idle", "ServerStuck", server("vllm", held(0, 40), held(6000, 40))),
    Case("a long prefill", "ServerStuck", server("vllm", held(1, 40), held(6000, 40), prompts=rising(10, 40))),
    Case("restarts while it works", "ServerStuck", server("vllm", held(4, 40), [*rising(600, 20), *rising(600, 20)])),
    Case("an SGLang that counts at the finish", "ServerStuck", hangs("sglang", notes=LATE)),
    Case("an LMDeploy whose gauge sticks", "ServerStuck", hangs("lmdeploy", notes=STICKY)),
    Case("an idle Triton whose gauge sticks at 1", "ServerStuck",
         server("triton", held(1, 60), held(6000, 60), notes=STICKY)),
    Case("its synthetic request still succeeds", "ServerStuck", {**hangs("vllm"), **probe(held(1, 50.5))}),
    Case("a synthetic request fails", "ServerStuck",
         {**server("triton", held(0, 40), held(0, 40), notes=STICKY), **probe([*held(1, 10.5), *held(0, 29.5)])},
         (Fires(16, None, A),)),
    Case("it hangs, and its synthetic request fails: one alert", "ServerStuck",
         {**hangs("vllm"), **probe([*held(1, 10.5), *held(0, 40)])}, (Fires(17, None, M),)),
    Case("a synthetic request fails for four minutes", "ServerStuck",
         {**server("vllm", held(0, 40), held(0, 40)), **probe([*held(1, 10.5), *held(0, 4), *held(1, 20)])}),
    Case("a synthetic request fails while the server sleeps", "ServerStuck",
         {**server("vllm", held(0, 40), held(0, 40)), **state("sleeping", 40), **probe(held(0, 40))}),
    Case("an LMDeploy that sleeps keeps its gauges", "ServerStuck", {**hangs("lmdeploy"), **state("sleeping", 50.5)}),
    Case("no tokens are told of", "ServerStuck",
         {k: v for k, v in hangs("vllm").items() if "tokens" not in k}),

    # the last rise is read at minute 10: none within 5 minutes at 15, for 30 minutes at 45
    Case("a NIM finishes nothing", "ProgressUnknown", hangs("nim", 50), (Fires(45, None, OF_MODEL),), since=10),
    Case("a NIM finishes nothing for half an hour", "ProgressUnknown",
         server("nim", held(4, 71), [*rising(600, 10.5), *held(6000, 30), *rising(600, 30.5, 6300)])),
    Case("an SGLang that counts at the finish", "ProgressUnknown", hangs("sglang", 50, LATE),
         (Fires(45, None, {**OF_MODEL, "framework": "sglang"}),)),
    Case("an SGLang of two engines that counts finished requests together", "ProgressUnknown", two_engines(),
         (Fires(45, None, {**OF_MODEL, "framework": "sglang"}),)),
    # nothing finished within 5 minutes from the first on, and what waits since minute 10 for 30 minutes at 40
    Case("a NIM hung while it was idle, and what comes then waits", "ProgressUnknown",
         {**server("nim", held(0, 60), held(6000, 60)), **waiting("vllm", [*held(0, 10), *rising(1, 50, 1)])},
         (Fires(40, None, OF_MODEL),)),
    Case("a Triton hung while it was idle, and its queue grows", "ProgressUnknown",
         {**server("triton", held(1, 60), held(6000, 60), notes={**STICKY, **QUEUED}),
          **waiting("tensorrt_llm", [*held(1, 10), *rising(1, 50, 2)])},
         (Fires(40, None, {**OF_MODEL, "framework": "tensorrt_llm"}),)),
    Case("an idle Triton whose gauges stick", "ProgressUnknown",
         {**server("triton", held(1, 80), held(6000, 80), notes={**STICKY, **QUEUED}),
          **waiting("tensorrt_llm", held(5, 80))}),
    Case("it sleeps", "ProgressUnknown", {**hangs("nim", 50), **state("sleeping", 60.5)}),
    Case("a vLLM, which is told to be stuck", "ProgressUnknown", hangs("vllm", 50)),
    Case("an idle Triton whose gauge sticks at 1", "ProgressUnknown",
         {**server("triton", held(1, 80), held(6000, 80), notes=STICKY), **on_gpu(0, 80)}),
    Case("a Triton of whose GPU nothing is known", "ProgressUnknown",
         server("triton", held(1, 80), held(6000, 80), notes=STICKY)),
    Case("a Triton whose GPU is busy", "ProgressUnknown",
         {**hangs("triton", 50, STICKY), **on_gpu(1, 60.5)},
         (Fires(45, None, {**OF_MODEL, "framework": "tensorrt_llm"}),)),
    Case("a Triton whose GPU is busy, read twice", "ProgressUnknown",
         {**hangs("triton", 50, STICKY), **on_gpu(1, 60.5),
          'gpu_utilization_ratio{node="n1",uuid="GPU-1",gpu="0",job="second"}': held(1, 60.5)},
         (Fires(45, None, {**OF_MODEL, "framework": "tensorrt_llm"}),)),
    Case("its synthetic request succeeds", "ProgressUnknown", {**hangs("nim", 50), **probe(held(1, 60.5))}),
]  # fmt: skip
