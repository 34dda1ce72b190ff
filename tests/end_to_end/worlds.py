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

from tests.end_to_end import by_hand
from tests.end_to_end.real_prometheus import sidecar_of
from tests.end_to_end.recorded import VLLM, VLLM_DP, Pages, serving
from tests.end_to_end.samples import Sample, Scrape, parsed
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

    def all_scrapes(self) -> Iterator[Scrape]:
        for of in self.scrapes.values():
            yield from of

    @cached_property
    def by_hand(self) -> by_hand.Told:
        found = by_hand.Told()
        for of in self.scrapes.values():
            found |= by_hand.told(of, self.until)
        return found


def world(folder: Path) -> World:
    """It ended an hour ago at the latest, on a full hour."""
    start = (int(time.time()) // 3600 - 1 - HOURS) * 3600
    pages = read_by_a_sidecar(folder)
    return World(start, {
        "vllm": list(_vllm(pages["vllm"], start)),
        "dp2": list(_dp2(pages["dp2"], start)),
        "sglang": list(_sglang(pages["sglang"], start)),
    })  # fmt: skip


def read_by_a_sidecar(folder: Path) -> dict[str, list[Page]]:
    """Each server's pages as the sidecar tells them, and last how it tells that the server is down."""
    files = {
        "vllm": sorted(VLLM.glob("*.prom")),
        "dp2": sorted(VLLM_DP.glob("*.prom")),
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
            for sample in _of_servers(url):
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


def replaced(page: Page, start_time: float) -> Page:
    return [s._replace(value=start_time) if s.name == _START_TIME else s for s in page]


def renamed(page: Page, label: str, text: str) -> Page:
    return [s._replace(labels=tuple((k, text if k == label else v) for k, v in s.labels)) for s in page]
