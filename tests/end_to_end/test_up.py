"""`inferwatch up` as somebody starts it, with recorded vLLM servers on local ports."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from demo.standard import SPECS
from inferwatch.discover import PORTS
from tests.end_to_end.processes import DEADLINE, ROOT, free_port, running, until
from tests.end_to_end.product import Product, local, up
from tests.end_to_end.recorded import VLLM, VLLM_DP, serving, vllm
from tests.services import require


def write_config(folder: Path, **sections: object) -> Path:
    path = folder / "config.yml"
    path.write_text(yaml.safe_dump(sections))
    return path


def is_free(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


@dataclass(frozen=True)
class Found:
    product: Product
    one: int
    two: int


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """Two servers on two ports where it was told to look."""
    with (
        serving(vllm(VLLM, "1-mid10")) as one,
        serving(vllm(VLLM_DP, "1-mid03")) as two,
        up(tmp_path_factory.mktemp("found"), "--port", str(one), "--port", str(two)) as product,
    ):
        yield Found(product, one, two)


def test_two_servers_are_found_and_shown_on_the_page_and_by_the_api(found: Found) -> None:
    """Run A, 1-mid10: 12 running, 3 waiting, space for 5120 tokens. Run C: two engines of 1280 tokens each."""
    names = local(found.one), local(found.two)

    def known() -> dict[str, Any]:
        """With what is asked for beside the metrics, which may come later."""
        read = found.product.reads(*names)
        assert all(read[name]["version"] for name in names)
        return read

    rows = until(known, found.product.process)
    first, second = (rows[name] for name in names)
    assert [first[k] for k in ("up", "available", "framework", "version", "model")] == [
        True, True, "vllm", "0.32.0", "tiny-qwen",
    ]  # fmt: skip
    assert [first[k] for k in ("engines", "running", "waiting", "kv_capacity_tokens")] == [1, 12, 3, 5120]
    assert [second[k] for k in ("engines", "kv_capacity_tokens")] == [2, 2560]
    assert second["kv_utilization_max"] <= 1


@pytest.mark.skipif(not all(map(is_free, PORTS[:2])), reason="something listens at port 8000 or 8001 of this host")
def test_servers_at_the_ports_people_use_are_found_without_any_option(tmp_path: Path) -> None:
    with (
        serving(vllm(VLLM, "1-mid10"), PORTS[0]),
        serving(vllm(VLLM_DP, "1-mid03"), PORTS[1]),
        up(tmp_path) as product,
    ):
        until(lambda: product.shows(local(PORTS[0]), local(PORTS[1])), product.process)
    output = product.process.output()
    assert re.search("8000(   |: )vllm", output), "at first or, where it answered late, later"
    assert "30000  nothing listens" in output


def test_it_prints_where_everything_is(found: Found) -> None:
    product = found.product
    until(lambda: "for Prometheus:" in product.process.output())
    told = dict(line.split(": ", 1) for line in product.process.output().splitlines() if "http" in line)
    paths = {name: told[name].split()[0].removeprefix(product.url) for name in ("page", "API", "for Prometheus")}
    assert paths == {"page": "/", "API": "/api/v1/servers", "for Prometheus": "/metrics"}
    assert product.get("/").text.lstrip().lower().startswith("<!doctype html>")
    assert product.get("/openapi.json").json()["openapi"].startswith("3.")
    assert product.get("/docs").status == 200


def test_without_a_server_it_says_how_to_add_one_and_finds_one_that_starts_later(tmp_path: Path) -> None:
    port = free_port()
    with up(tmp_path, "--port", str(port)) as product:
        until(lambda: "--demo" in product.process.output(), product.process)
        output = product.process.output()
        assert f"{port}  nothing listens" in output
        assert "servers:\n      - url: http://" in output
        with serving(vllm(VLLM, "1-mid10"), port):
            until(lambda: product.shows(local(port)), product.process)


def test_metrics_for_prometheus_are_served_beside_the_page(found: Found) -> None:
    answer = found.product.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "llm_generation_tokens_total{" in answer.text
    command = [require("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=answer.text.encode(), capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_a_server_that_is_down_stands_beside_one_that_is_up(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one:
        servers = [
            {"name": "good", "url": f"http://127.0.0.1:{one}"},
            {"name": "dead", "url": f"http://127.0.0.1:{free_port()}"},
        ]
        with up(tmp_path, "--config", str(write_config(tmp_path, servers=servers))) as product:
            rows = until(lambda: product.refused("dead") and product.reads("good"), product.process)
    assert (rows["good"]["up"], rows["good"]["running"]) == (True, 12)
    assert (rows["dead"]["up"], rows["dead"]["available"], rows["dead"]["running"]) == (False, False, None)
    (finding,) = rows["dead"]["findings"]
    assert finding["reason"] == "connection_refused"
    assert finding["remedy"]


def test_a_server_may_restart(tmp_path: Path) -> None:
    """Its counters fall to 0; nothing that is derived from them becomes negative."""
    sections = {"scrape": {"interval": "200ms"}}
    before, after = vllm(VLLM, "2-after"), vllm(VLLM, "0-fresh")
    port = free_port()
    servers = [{"name": "s", "url": f"http://127.0.0.1:{port}"}]
    with up(tmp_path, "--config", str(write_config(tmp_path, servers=servers, **sections))) as product:
        with serving(before, port):
            until(lambda: product.rows()["s"]["up"] or None, product.process)
        until(lambda: not product.rows()["s"]["up"] or None, product.process)
        with serving(after, port):
            until(lambda: product.rows()["s"]["up"] or None, product.process)
            until(lambda: after.asked.count("/metrics") >= 3 or None, product.process)
            row = until(lambda: product.reads("s"), product.process)["s"]
    assert row["unfinished"] == 0
    assert row["generation_tokens_per_second"] in (None, 0)


def test_the_demo_shows_a_living_fleet_labelled_simulated_and_what_goes_wrong_in_it(tmp_path: Path) -> None:
    with up(tmp_path, "--demo", within=4 * DEADLINE) as product:
        names = [spec.name for spec in SPECS]
        rows = until(lambda: product.reads(*names), product.process)
        metrics = product.get("/metrics").text
        views = ["/", "/slos", "/alerts", "/history", "/compare", "/advice", "/servers/sim-1/vllm-chat-1"]
        shown = {view: product.get(view) for view in views}
        past = product.get("/api/v1/history?metric=llm_generation_tokens_total&since=9m&group_by=server").json()
        faults = re.search(r"faults: +(\S+),", product.process.output())
        assert faults is not None
        ordered = asked(faults[1], {"kind": "down", "target": "vllm-chat-1"})
        until(lambda: not product.rows()["vllm-chat-1"]["up"] or None, product.process)
    assert ordered[0]["state"] == "planned"
    assert {row["simulated"] for row in rows.values()} == {"simulated"}
    assert {view: answer.status for view, answer in shown.items()} == dict.fromkeys(views, 200)
    assert [view for view, answer in shown.items() if "banner unreal" not in answer.text] == []
    assert {answer["labels"]["server"] for answer in past["answers"]} == set(names)
    of_servers = [line for line in metrics.splitlines() if line.startswith("llm_")]
    assert sum(line.startswith("llm_up{") for line in of_servers) == len(names)
    assert all('source="simulated"' in line for line in of_servers if not line.startswith("llm_field_info{"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_ended_before_it_is_seen_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-m", "inferwatch", "up", "--demo", "--listen", "127.0.0.1:0"]
    with running(command, tmp_path, environment={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}) as process:
        until(lambda: any(tmp_path.glob("inferwatch-demo-*/*")), process)
        assert process.end(how) == 0
    assert "Traceback" not in process.output()
    assert list(tmp_path.glob("inferwatch-demo-*")) == []


def asked(url: str, body: object) -> Any:
    told = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(told, timeout=DEADLINE) as answer:
        return json.load(answer)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_status_0(tmp_path: Path, how: signal.Signals) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one, up(tmp_path, "--port", str(one)) as product:
        until(lambda: product.shows(local(one)), product.process)
        assert product.process.end(how) == 0
    assert "Traceback" not in product.process.output()


def test_a_server_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with socket.socket() as silent, ThreadPoolExecutor() as others:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        servers = [{"name": "silent", "url": url, "timeout": "5m"}]  # or else it would be given up meanwhile
        with up(tmp_path, "--config", str(write_config(tmp_path, servers=servers))) as product:
            scrape = others.submit(product.get, "/metrics")
            with silent.accept()[0]:
                assert product.process.end() == 0
            assert scrape.exception() is not None or scrape.result().status >= 500
    assert "Traceback" not in product.process.output()


def test_after_a_kill_it_starts_again_on_the_same_history(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one:
        for _ in range(2):
            with up(tmp_path, "--port", str(one)) as product:
                until(lambda: product.shows(local(one)), product.process)
                assert product.process.end(signal.SIGKILL) == -signal.SIGKILL
    assert list((tmp_path / "state").glob("*.sqlite"))


def test_a_port_in_use_is_named_with_the_option_that_changes_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, output = ended(tmp_path, "up", "--listen", f"127.0.0.1:{port}")
    assert status == 1
    assert output == (
        f"inferwatch: could not listen on 127.0.0.1 port {port}: Address already in use; "
        "--listen HOST:PORT chooses another address\n"
    )


def test_a_wrong_configuration_stops_the_start_with_a_line_for_each_mistake(tmp_path: Path) -> None:
    path = write_config(tmp_path, servers=[{"url": "ftp://x"}], lisen={"port": 1})
    status, output = ended(tmp_path, "up", "--config", str(path))
    assert status == 2
    assert [line.partition(": ")[0] for line in output.splitlines()] == ["inferwatch"] * 2
    assert "servers[0].url: 'ftp://x': allowed: http or https URL" in output
    assert "did you mean `listen`?" in output


def test_a_configuration_in_the_current_folder_is_used_and_told(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one:
        (tmp_path / "inferwatch.yml").write_text(
            yaml.safe_dump({"servers": [{"name": "s", "url": f"http://127.0.0.1:{one}"}]})
        )
        with up(tmp_path) as product:
            until(lambda: product.shows("s"), product.process)
    assert "using inferwatch.yml of this folder" in product.process.output()


def test_a_hangup_reloads_a_good_configuration_and_keeps_the_old_for_a_bad_one(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one, serving(vllm(VLLM_DP, "1-mid03")) as two:
        first, second = ({"name": n, "url": f"http://127.0.0.1:{p}"} for n, p in (("first", one), ("second", two)))
        path = write_config(tmp_path, servers=[first])
        with up(tmp_path, "--config", str(path)) as product:
            until(lambda: product.shows("first"), product.process)
            write_config(tmp_path, servers=[first, {"url": "nonsense"}])
            product.process.popen.send_signal(signal.SIGHUP)
            until(lambda: "nonsense" in product.process.output(), product.process)
            until(lambda: product.reads("first"), product.process)
            write_config(tmp_path, servers=[first, second])
            product.process.popen.send_signal(signal.SIGHUP)
            until(lambda: product.shows("first", "second"), product.process)


def ended(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a command that ends by itself."""
    with running([sys.executable, "-m", "inferwatch", *arguments], folder) as process:
        return process.popen.wait(DEADLINE), process.output()


def test_the_sidecar_alone_serves_metrics_and_ends_with_status_0(tmp_path: Path) -> None:
    port = free_port()
    with serving(vllm(VLLM, "1-mid10")) as one:
        path = write_config(tmp_path, servers=[{"name": "s", "url": f"http://127.0.0.1:{one}"}])
        command = [
            sys.executable,
            "-m",
            "inferwatch",
            "exporter",
            "--config",
            str(path),
            "--listen",
            f"127.0.0.1:{port}",
        ]
        with running(command, tmp_path) as process:
            sidecar = Product(f"http://127.0.0.1:{port}", process)
            until(lambda: "llm_requests_running{" in sidecar.get("/metrics").text or None, process)
            assert process.end() == 0
    assert f"for Prometheus: http://127.0.0.1:{port}/metrics" in process.output()
