from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.processes import free_port
from tests.end_to_end.recorded import VLLM, VLLM_DP, Pages, serving, vllm
from tests.inferwatch.command import Command, lines

LOADED = VLLM.page("1-mid10")
BARE_NAMES = b"".join(
    b'time_to_first_token_seconds_%s{engine_type="undefined",model_name="undefined"%s} %s\n' % sample
    for sample in (
        (b"bucket", b',le="0.1"', b"4"),
        (b"bucket", b',le="+Inf"', b"5"),
        (b"sum", b"", b"0.7"),
        (b"count", b"", b"5"),
    )
)


def test_a_good_server_is_described_with_every_field(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        ran = inferwatch("check", f"http://127.0.0.1:{port}")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"http://127.0.0.1:{port}: vllm 0.32.0, model tiny-qwen, 1 engine, awake\n")
    (known,) = lines(ran.out, "llm_kv_cache_utilization_ratio")
    assert known.split() == ["llm_kv_cache_utilization_ratio", "exact", "vllm:kv_cache_usage_perc"]
    (missing,) = lines(ran.out, "llm_requests_running_limit")
    assert "--max-num-seqs" in missing


def test_a_saved_page_is_described_the_same_way(inferwatch: Command) -> None:
    ran = inferwatch("check", str(LOADED))
    assert ran.status == 0
    assert ran.out.startswith(f"{LOADED}: vllm, model tiny-qwen, 1 engine, awake\n")


def test_data_parallel_engines_are_counted(inferwatch: Command) -> None:
    assert "2 engines" in inferwatch("check", str(VLLM_DP.page("1-mid03"))).out


def test_bare_host_and_port_are_a_url(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        assert "vllm 0.32.0" in inferwatch("check", f"127.0.0.1:{port}").out


def test_the_url_of_the_metrics_page_itself_is_taken_too(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        assert "vllm 0.32.0" in inferwatch("check", f"http://127.0.0.1:{port}/metrics").out


def test_a_server_that_is_down_is_an_error_with_a_remedy(inferwatch: Command) -> None:
    ran = inferwatch("check", f"127.0.0.1:{free_port()}")
    assert ran.status == 1
    assert "not reachable" in ran.out
    assert "error connection_refused: Nothing listens at this address." in ran.out
    assert "Start the server" in ran.out


def test_one_bad_subject_hides_none_of_the_others(inferwatch: Command, tmp_path: Path) -> None:
    web_page = tmp_path / "page.html"
    web_page.write_text("<html>")
    with serving(vllm(VLLM, "1-mid10")) as port:
        ran = inferwatch(
            "check", "/no/such.prom", f"127.0.0.1:{free_port()}", "ftp://x", str(web_page), f":{port}", str(LOADED)
        )
    assert ran.status == 2
    assert len(lines(ran.out, "model tiny-qwen")) == 2
    assert lines(ran.out, "error connection_refused")
    assert lines(ran.out, "error html_body")
    assert ran.err.splitlines() == [
        "inferwatch: /no/such.prom: could not be read: No such file or directory",
        "inferwatch: ftp://x: allowed: http or https URL, such as http://localhost:8000",
    ]


def test_a_warning_is_a_finding(inferwatch: Command, tmp_path: Path) -> None:
    page = tmp_path / "nan.prom"
    page.write_text("vllm:num_requests_running 1.0\nvllm:num_requests_waiting NaN\n")
    ran = inferwatch("check", str(page))
    assert ran.status == 1
    assert "warning dropped_samples" in ran.out
    assert "samples left out:" in ran.out
    assert lines(ran.out, "vllm:num_requests_waiting NaN")


def test_a_page_without_engine_metrics_says_whose_it_is_and_what_to_do(inferwatch: Command, tmp_path: Path) -> None:
    page = tmp_path / "off.prom"
    page.write_text("http_request_duration_highr_seconds_count 20.0\n")
    ran = inferwatch("check", str(page))
    assert ran.status == 1
    assert ran.out.splitlines()[0] == f"{page}: vllm: no engine metrics"
    assert "Start vLLM without `--disable-log-stats`." in ran.out
    assert "llm_" not in ran.out


def test_information_is_none(inferwatch: Command, tmp_path: Path) -> None:
    page = tmp_path / "newer.prom"
    page.write_text(LOADED.read_text() + "vllm:brand_new_total 3.0\n")
    ran = inferwatch("check", str(page))
    assert ran.status == 0
    assert "info unmapped_families" in ran.out
    assert "families that inferwatch does not know:\n    vllm:brand_new" in ran.out


def test_json_tells_all_of_it(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        (report,) = json.loads(inferwatch("check", "--json", f"127.0.0.1:{port}").out)
    assert report["subject"] == f"127.0.0.1:{port}"
    assert (report["up"], report["available"], report["engines"]) == (True, True, 1)
    assert report["facts"]["version"] == "0.32.0"
    assert report["mapped"]["vllm:kv_cache_usage_perc"] == "llm_kv_cache_utilization_ratio"
    assert {"field", "source", "quality", "reason"} == set(report["fields"][0])
    assert (report["unmapped"], report["dropped"], report["findings"]) == ([], [], [])


def test_json_is_an_array_even_of_nothing(inferwatch: Command) -> None:
    ran = inferwatch("check", "--json", "/no/such.prom")
    assert (ran.status, json.loads(ran.out)) == (2, [])


def test_a_server_that_is_asked_is_asked_for_its_metrics_once(inferwatch: Command) -> None:
    pages: Pages = vllm(VLLM, "1-mid10")
    with serving(pages) as port:
        inferwatch("check", f"127.0.0.1:{port}")
    assert pages.asked.count("/metrics") == 1


def test_the_page_that_was_read_is_named(inferwatch: Command) -> None:
    trtllm = Pages({"/metrics": b"[]", "/prometheus/metrics": BARE_NAMES}, content_type="application/json")
    with serving(trtllm) as port:
        ran = inferwatch("check", f":{port}")
    assert ran.status == 0
    assert ran.out.splitlines()[:2] == [
        f":{port}: trtllm_serve, 1 engine",
        f"  metrics page: http://localhost:{port}/prometheus/metrics",
    ]
    assert "undefined" not in ran.out


def test_json_in_place_of_a_page_leads_to_the_page(inferwatch: Command, tmp_path: Path) -> None:
    page = tmp_path / "metrics"
    page.write_text("[]")
    with serving(Pages({"/metrics": b"[]"}, content_type="application/json")) as port:
        ran = inferwatch("check", f":{port}", str(page))
    assert ran.status == 1
    assert len(lines(ran.out, "error json_body:")) == 2
    assert len(lines(ran.out, "/prometheus/metrics, and the server needs `return_perf_metrics: true`")) == 2


def test_records_that_can_be_read_once_are_read_on_request_alone(inferwatch: Command) -> None:
    models = b'{"data": [{"id": "m", "owned_by": "tensorrt_llm"}]}'
    idle = Pages({"/metrics": b"[]", "/v1/models": models}, content_type="application/json")
    with serving(idle) as port:
        careful = inferwatch("check", f":{port}")
        assert "/metrics" not in idle.asked
        destructive = inferwatch("check", "--destructive", f":{port}")
    assert (careful.status, destructive.status) == (1, 1)
    assert lines(
        careful.out, "warning records_not_read: There is no metrics page, and the statistics records were left"
    )
    assert lines(careful.out, "inferwatch check --destructive")
    assert lines(destructive.out, "warning no_records_yet: No statistics records yet, or the server's statistics are")
    assert lines(destructive.out, "enable_iter_perf_stats")
    assert not lines(careful.out + destructive.out, "error ")


@pytest.mark.parametrize("separator", [":", "_"])
def test_both_spellings_of_sglang_are_one_server(inferwatch: Command, tmp_path: Path, separator: str) -> None:
    names = [f"sglang{separator}num_{name}_reqs" for name in ("running", "queue")]
    page = tmp_path / "sglang.prom"
    page.write_text("".join(f'{name}{{model_name="m-b"}} 3\n' for name in names))
    ran = inferwatch("check", str(page))
    assert ran.status == 0
    assert ran.out.startswith(f"{page}: sglang, model m-b, 1 engine\n")
    (running,) = lines(ran.out, "llm_requests_running ")
    assert running.split()[:3] == ["llm_requests_running", "approximate", f"{names[0]};"]
    assert running.endswith("keeps its value when the server falls idle (before 0.4.4)")


def test_what_needs_two_readings_is_not_called_known(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        out = inferwatch("check", f":{port}", str(LOADED)).out
        reports = json.loads(inferwatch("check", "--json", f":{port}", str(LOADED)).out)
    for text in out.split("\n\n"):
        known, over_time = text.split("  over time, from two readings:\n")
        assert "llm_prefix_cache_hit_ratio" not in known
        assert over_time.startswith("    llm_prefix_cache_hit_ratio")
    assert [report["over_time"] for report in reports] == [["llm_prefix_cache_hit_ratio"]] * 2


def test_standard_input_is_refused_twice(inferwatch: Command) -> None:
    for command in ("check", "normalize"):
        ran = inferwatch(command, "-", "-")
        assert (ran.status, ran.out) == (2, "")
        assert ran.err == "inferwatch: -: allowed: once, standard input ends with the first\n"


HOSTILE = (
    'vllm:num_requests_running{model_name="m\x1b[2J\u202e\x9b31m"} 1.0\n'
    'vllm:num_requests_waiting{model_name="b\\nerror forged: x"} NaN\n'
)


def test_no_text_of_a_page_reaches_the_terminal_unescaped(inferwatch: Command, tmp_path: Path) -> None:
    page = tmp_path / "hostile\x1b.prom"
    page.write_text(HOSTILE, encoding="utf-8")
    for ran in (inferwatch("check", str(page)), inferwatch("check", "--json", str(page))):
        assert all(line.isprintable() for line in ran.out.split("\n"))
    out = inferwatch("check", str(page)).out
    assert r"model m\x1b[2J\u202e\x9b31m" in out
    assert not [line for line in out.splitlines() if line.lstrip().startswith("error forged")]


@pytest.mark.parametrize(
    "body", ["<html>\x1b[2J</html>", "node_\x1b[2J 1\n", '["\u202e"]', "no\x9bsample\n", "a\u2028b\x85c 1.0\n"]
)
def test_no_detail_of_a_finding_reaches_the_terminal_unescaped(inferwatch: Command, tmp_path: Path, body: str) -> None:
    page = tmp_path / "bad.prom"
    page.write_text(body, encoding="utf-8")
    checked, normalised = inferwatch("check", str(page)), inferwatch("normalize", str(page))
    assert (checked.status, normalised.status) == (1, 1)
    assert all(line.isprintable() for text in (checked.out, normalised.err) for line in text.split("\n"))
    assert len(normalised.err.splitlines()) == 1


def test_no_answer_of_a_server_reaches_the_terminal_unescaped(inferwatch: Command) -> None:
    pages = vllm(VLLM, "1-mid10")
    pages.bodies["/metrics"] = HOSTILE.encode()
    pages.bodies["/version"] = b'{"version":"0.32.0\\u001b[2J"}'
    with serving(pages) as port:
        out = inferwatch("check", f":{port}").out
    assert all(line.isprintable() for line in out.split("\n"))
    assert r"0.32.0\x1b[2J" in out


def test_a_password_in_a_url_is_not_repeated(inferwatch: Command) -> None:
    ran = inferwatch("check", "http://user:hunter2@127.0.0.1:1")
    assert ran.status == 2
    assert "127.0.0.1:1" in ran.err
    assert "hunter2" not in ran.out + ran.err
