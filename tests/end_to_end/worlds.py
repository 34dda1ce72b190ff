"""Two hours of a small fleet: recorded pages of real servers, read by a real sidecar, and scraped at moments that the
test says. What happens to the servers, and when, is said here."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.end_to_end import by_hand, gpus_by_hand
from tests.end_to_end.processes import until
from tests.end_to_end.real_prometheus import sidecar_of
from tests.end_to_end.recorded import VLLM, VLLM_DP, Pages, serving
from tests.end_to_end.samples import Sample, Scrape, parsed, read_whole
from tests.end_to_end.web import get

HOURS = 2
EVERY = 30
AGAIN = ("inferwatch-again", "n1:9840")
SGLANG = Path(__file__).parents[1] / "captures" / "sglang" / "0.5.23"
_SGLANG_PAGES = ("tp1-0_fresh", "tp1-1_load", "tp1-2_load", "tp1-8_just_drained")
_START_TIME = "llm_process_start_time_seconds"

Page = list[Sample]


@dataclass(frozen=True)
class World:
    start: int
    scrapes: Mapping[str, Sequence[Scrape]]
    """By server."""

    @property
    def until(self) -> int:
        return self.start + HOURS * 3600

    gpus: Sequence[Scrape]
    """Of the only node that has some."""

    def all_scrapes(self) -> Iterator[Scrape]:
        yield from self.gpus
        for of in self.scrapes.values():
            yield from of

    @cached_property
    def by_hand(self) -> by_hand.Told:
        found = gpus_by_hand.told(self.gpus, self.until)
        for of in self.scrapes.values():
            found |= by_hand.told(of, self.until)
        return found


def world(folder: Path) -> World:
    """It ended an hour ago at the latest, on a full hour."""
    start = (int(time.time()) // 3600 - 1 - HOURS) * 3600
    pages = read_by_a_sidecar(folder)
    scrapes = {
        "vllm": list(_vllm(pages["vllm"], start)),
        "dp2": list(_dp2(pages["dp2"], start)),
        "sglang": list(_sglang(pages["sglang"], start)),
    }
    return World(start, scrapes, list(_gpus(start)))


def read_by_a_sidecar(folder: Path) -> dict[str, list[Page]]:
    """Each server's pages as the sidecar tells them, and last how it tells that the server is down."""
    files = {
        "vllm": VLLM.pages,
        "dp2": VLLM_DP.pages,
        "sglang": [SGLANG / f"{name}.prom" for name in _SGLANG_PAGES],
    }
    found: defaultdict[str, list[Page]] = defaultdict(list)
    with ExitStack() as stack:
        served = {name: Pages({"/health": b"", "/version": b'{"version":"0.32.0"}'}) for name in files}
        ports = {name: stack.enter_context(serving(pages)) for name, pages in served.items()}
        servers: list[dict[str, object]] = [
            {"name": name, "url": f"http://127.0.0.1:{port}"} for name, port in ports.items()
        ]
        url = stack.enter_context(sidecar_of(servers, folder))
        for n in range(len(files["vllm"])):
            for name, pages in served.items():
                if n < len(files[name]):
                    pages.bodies["/metrics"] = files[name][n].read_bytes()
            for sample in until(lambda: read_whole(_of_servers(url), len(files))):
                _page(found[sample.of("server")], n).append(sample)
        found = defaultdict(list, {name: pages[: len(files[name])] for name, pages in found.items()})
        for pages in served.values():
            pages.bodies.clear()
        for name in files:
            found[name].append([sample for sample in _of_servers(url) if sample.of("server") == name])
    return found


def _page(pages: list[Page], n: int) -> Page:
    if len(pages) == n:
        pages.append([])
    return pages[n]


def _of_servers(url: str) -> list[Sample]:
    return [sample for sample in parsed(get(f"{url}/metrics").text) if sample.of("server")]


def _moments(start: int, offset: float) -> Iterator[tuple[int, float]]:
    """Seconds since the start, and the time of day."""
    for seconds in range(0, HOURS * 3600, EVERY):
        yield seconds, round(start + offset + seconds, 3)


def _vllm(pages: list[Page], start: int) -> Iterator[Scrape]:
    """Another page each minute; after the last the first again, as if its process had crashed. Read on the minute."""
    for seconds, at in _moments(start, 0.0):
        yield Scrape(at, pages[seconds // 60 % (len(pages) - 1)])


def _dp2(pages: list[Page], start: int) -> Iterator[Scrape]:
    """Two engines. Its restarts are told, and come after each last page; once another version starts. It is not scraped
    for three minutes, and for twenty."""
    for seconds, at in _moments(start, 7.5):
        if 1500 <= seconds < 1680 or 3000 <= seconds < 4200:
            continue
        told = replaced(pages[seconds // 450 % (len(pages) - 1)], start - 5000.0 + seconds // 1800 * 300)
        yield Scrape(at, renamed(told, "version", "0.32.1") if seconds >= 5400 else told)


def _sglang(pages: list[Page], start: int) -> Iterator[Scrape]:
    """Scraped by two jobs, the second not for 40 minutes. Down for ten; some series are not shown for three."""
    for seconds, at in _moments(start, 3.217):
        page = pages[-1] if 900 <= seconds < 1500 else pages[seconds // 70 % (len(pages) - 1)]
        if 2250 <= seconds < 2430:
            page = [s for s in page if "finished" not in s.name and "prompt_tokens" not in s.name]
        yield Scrape(at, page)
        if not 3600 <= seconds < 6000:
            yield Scrape(round(at + 0.004, 3), page, AGAIN)


def _gpus(start: int) -> Iterator[Scrape]:
    """Two. The first is lost for five minutes, then its driver was loaded again, in another version, and its energy is
    not told for a while; XIDs come up. None is scraped for three minutes, and for twenty."""
    for seconds, at in _moments(start, 11.125):
        if 1500 <= seconds < 1680 or 4200 <= seconds < 5400:
            continue
        page = [Sample("inferwatch_gpu_available", (("node", "rack-1"),), 1.0)]
        for number in range(2):
            page += _gpu(number, seconds)
        yield Scrape(at, page)


def _gpu(number: int, seconds: int) -> Iterator[Sample]:
    of = (("node", "rack-1"), ("uuid", f"GPU-{number}"), ("gpu", str(number)))
    is_lost = number == 0 and 600 <= seconds < 900
    loaded = 900 if number == 0 and seconds >= 900 else -7200
    yield Sample("gpu_up", of, float(not is_lost))
    if seconds >= 300:
        yield Sample("gpu_xid_errors_total", (*of, ("xid", "31")), 1.0 + seconds // 2000)
    if seconds >= 750:
        yield Sample("gpu_xid_errors_total", (*of, ("xid", "79")), 1.0)
    if is_lost:
        return
    driver = "570" if loaded < 0 else "580"
    yield Sample("gpu_info", (*of, ("name", "NVIDIA H100"), ("driver", driver)), 1.0)
    yield Sample("gpu_utilization_ratio", of, seconds % 128 / 128)
    yield Sample("gpu_temperature_celsius", (*of, ("sensor", "core")), 40.0 + seconds % 7)
    yield Sample("gpu_ecc_errors_total", (*of, ("kind", "corrected")), float(seconds // 1000))
    if number == 1 or not 2400 <= seconds < 3000:
        yield Sample("gpu_energy_joules_total", of, 512.5 * (seconds - loaded))


def replaced(page: Page, start_time: float) -> Page:
    return [s._replace(value=start_time) if s.name == _START_TIME else s for s in page]


def renamed(page: Page, label: str, text: str) -> Page:
    return [s._replace(labels=tuple((k, text if k == label else v) for k, v in s.labels)) for s in page]
