from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporters import schema
from exporters.tables import FRONTENDS
from tests.end_to_end.recorded import VLLM
from tests.inferwatch.command import Command

FRESH, LOADED, AFTER = (str(VLLM.page(name)) for name in ("0-fresh", "1-mid10", "2-after"))


def values(text: str) -> dict[tuple[str, str], float]:
    """Value by sample name and the labels beside the identity, as text."""
    identity = {"node", "server", "framework", "model", "role", "engine"}
    return {
        (s.name, ",".join(f"{k}={v}" for k, v in sorted(s.labels.items()) if k not in identity)): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_last_file_comes_out_in_the_schema(inferwatch: Command) -> None:
    """Run A after its 320 requests, by the client's own count: 68808 prompt and 27022 generated tokens."""
    ran = inferwatch("normalize", FRESH, AFTER)
    found = values(ran.out)
    assert (ran.status, ran.err) == (0, "")
    assert found["llm_prompt_tokens_total", ""] == 68808
    assert found["llm_generation_tokens_total", ""] == 27022
    assert found["llm_requests_finished_total", "reason=length"] == 317
    assert found["llm_time_to_first_token_seconds_count", ""] == 320
    assert found["llm_metrics_available", ""] == 1


def test_windowed_metrics_cover_the_time_between_the_files(inferwatch: Command) -> None:
    """Run A: 29056 of 68808 looked-up tokens were found; the client saw a P99 of TTFT of 14.9 s."""
    found = values(inferwatch("normalize", FRESH, AFTER).out)
    assert found["llm_prefix_cache_hit_ratio", ""] == pytest.approx(29056 / 68808)
    lower, upper = (found["llm_latency_quantile_seconds", f"bound={b},phase=ttft,q=0.99"] for b in ("lower", "upper"))
    assert (lower, upper) == (10, 20)


def test_one_file_alone_is_a_base_line_without_a_window(inferwatch: Command) -> None:
    names = {name for name, _ in values(inferwatch("normalize", AFTER).out)}
    assert "llm_generation_tokens_total" in names
    assert not names & {"llm_prefix_cache_hit_ratio", "llm_latency_quantile_seconds"}


SGLANG = (
    'sglang:num_running_reqs{model_name="m"} 1\n'
    'sglang:prompt_tokens_total{model_name="m"} 800\n'
    'sglang:cached_tokens_total{model_name="m"} 200\n'
)


@pytest.mark.parametrize("before", ["", 'sglang:num_running_reqs{model_name="m"} 0\n'], ids=["empty", "gauges alone"])
def test_what_a_fresh_page_does_not_show_counts_in_full(inferwatch: Command, tmp_path: Path, before: str) -> None:
    files = write(tmp_path, "fresh.prom", before), write(tmp_path, "busy.prom", SGLANG)
    ran = inferwatch("normalize", "--frontend", "sglang", "--interval", "15", *files)
    assert ran.status == 0
    assert values(ran.out)["llm_prefix_cache_hit_ratio", ""] == 200 / 800


@pytest.mark.parametrize("before", ["node_load1 0.5\n", "vllm:num_requests_running 1\n"])
def test_what_follows_a_page_of_something_else_is_a_base_line(inferwatch: Command, tmp_path: Path, before: str) -> None:
    files = write(tmp_path, "other.prom", before), write(tmp_path, "busy.prom", SGLANG)
    found = values(inferwatch("normalize", "--frontend", "sglang", *files).out)
    assert found["llm_prompt_tokens_total", ""] == 800
    assert ("llm_prefix_cache_hit_ratio", "") not in found


def test_files_further_apart_than_the_window_count_only_the_last_step(inferwatch: Command) -> None:
    """From 1-mid10 to 2-after 320 - 18 first tokens were seen, none of them before."""
    both = inferwatch("normalize", "--interval", "400", FRESH, LOADED, AFTER).out
    alone = inferwatch("normalize", "--interval", "400", LOADED, AFTER).out
    assert both == alone


def test_every_sample_belongs_to_server_file(inferwatch: Command) -> None:
    text = inferwatch("normalize", AFTER).out
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert {(s.labels["node"], s.labels["server"]) for s in samples} == {("file", "file")}


def test_what_is_not_exact_says_so(inferwatch: Command) -> None:
    found = values(inferwatch("normalize", AFTER).out)
    told = [labels for name, labels in found if name == "llm_field_info"]
    assert any("field=llm_requests_waiting_api,quality=unavailable" in labels for labels in told)


def test_a_metric_keeps_its_place_and_type_in_the_schema(inferwatch: Command) -> None:
    types = [line.split()[2:4] for line in inferwatch("normalize", AFTER).out.splitlines() if line.startswith("# TYPE")]
    assert [name for name, _ in types] == [name for name in schema.METRICS if name in dict(types)]
    assert all(schema.METRICS[name].type.value == kind for name, kind in types)


def test_standard_input_is_read_for_a_dash(inferwatch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(AFTER).read_bytes())))
    assert inferwatch("normalize", "-").out == inferwatch("normalize", AFTER).out


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(inferwatch: Command, tmp_path: Path) -> None:
    other = tmp_path / "other.prom"
    other.write_bytes(b"\xef\xbb\xbf" + Path(AFTER).read_bytes().replace(b"\n", b"\r\n"))
    assert inferwatch("normalize", str(other)).out == inferwatch("normalize", AFTER).out


def test_statistics_switched_off_are_no_zero_load(inferwatch: Command, tmp_path: Path) -> None:
    text = "http_request_duration_highr_seconds_count 20.0\n"
    ran = inferwatch("normalize", write(tmp_path, "off.prom", text))
    assert list(values(ran.out)) == [("llm_metrics_available", "")]
    assert values(ran.out)["llm_metrics_available", ""] == 0
    assert ran.status == 1
    assert "off.prom: error stats_disabled:" in ran.err
    assert "--disable-log-stats" in ran.err


def test_findings_that_are_no_errors_go_to_standard_error_only(inferwatch: Command, tmp_path: Path) -> None:
    text = "vllm:num_requests_running 1.0\nvllm:num_requests_waiting NaN\n"
    ran = inferwatch("normalize", write(tmp_path, "nan.prom", text))
    assert ran.status == 0
    assert "nan.prom: warning dropped_samples:" in ran.err
    assert "warning" not in ran.out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty_body"),
        ("[]", "json_body"),
        ("<html></html>", "html_body"),
        ("node_load1 0.5\n", "no_engine_metrics"),
        ("this is no metrics page\n", "invalid_exposition"),
    ],
)
def test_what_is_no_metrics_page_of_an_engine_is_named(
    inferwatch: Command, tmp_path: Path, text: str, reason: str
) -> None:
    ran = inferwatch("normalize", write(tmp_path, "bad.prom", text), AFTER)
    assert (ran.status, ran.out) == (1, "")
    (line,) = ran.err.splitlines()
    assert "bad.prom: " in line
    assert f" {reason}: " in line


def test_a_page_that_is_no_exposition_names_the_line(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("normalize", write(tmp_path, "bad.prom", "# HELP x\nno sample here\n"))
    assert "line 2" in ran.err


def test_files_that_cannot_be_read_are_all_named(inferwatch: Command, tmp_path: Path) -> None:
    binary = tmp_path / "binary.prom"
    binary.write_bytes(b"abc\xff")
    ran = inferwatch("normalize", "/no/such.prom", str(tmp_path), str(binary), AFTER)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "inferwatch: /no/such.prom: could not be read: No such file or directory",
        f"inferwatch: {tmp_path}: could not be read: Is a directory",
        f"inferwatch: {binary}: could not be read: byte 3 is not UTF-8",
    ]


def test_a_frontend_can_be_named(inferwatch: Command) -> None:
    assert inferwatch("normalize", "--frontend", "vllm", AFTER).out == inferwatch("normalize", AFTER).out


def test_an_unknown_frontend_is_refused_with_those_there_are(inferwatch: Command) -> None:
    ran = inferwatch("normalize", "--frontend", "vlm", AFTER)
    assert (ran.status, ran.err) == (2, f"inferwatch: --frontend: 'vlm': allowed: {', '.join(FRONTENDS)}\n")


def test_an_interval_of_zero_is_refused(inferwatch: Command) -> None:
    assert inferwatch("normalize", "--interval", "0", AFTER).status == 2


def test_a_url_is_refused_with_the_way_to_read_it(inferwatch: Command) -> None:
    ran = inferwatch("normalize", "http://localhost:8000/metrics")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "inferwatch: http://localhost:8000/metrics: allowed: a saved page, or - for `curl -s URL |`\n"


@pytest.mark.parametrize("command", ["check", "normalize"])
@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_is_no_page(inferwatch: Command, command: str, name: str) -> None:
    ran = inferwatch(command, name)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"inferwatch: {name!r}: allowed: a saved page, or - for `curl -s URL |`\n"
