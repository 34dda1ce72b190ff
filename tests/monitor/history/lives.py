"""What happens to servers within 70 minutes, by name. Each is scraped every 15 seconds unless it says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from monitor.sources.prometheus.readings import Copy, Scrape, ServerSample
from tests.monitor.history.scraped import ONLY, START, Server, down, unreadable
from tests.monitor.observations import series

Scrapes = list[Scrape[ServerSample]]

END = START + 4200
A: Copy = (("instance", "n1:9840"), ("job", "inferwatch"), ("prometheus_replica", "a"))
B: Copy = (("instance", "n1:9840"), ("job", "inferwatch"), ("prometheus_replica", "b"))


def moments(first: float = 7.5, every: float = 15.0) -> Iterator[float]:
    """In seconds since START, to the millisecond."""
    for n in count():
        at = round(first + every * n, 3)
        if START + at > END:
            return
        yield at


def server_of(name: str, *, start_time: float | None = START - 5000.0) -> Server:
    tokens = series("llm_generation_tokens_total", server=name)
    stopped = series("llm_requests_finished_total", server=name, reason="stop")
    return Server(name, start_time=start_time, counters={tokens: 1000.0, stopped: 10.0})


def read(server: Server, at: Iterable[float]) -> Iterator[tuple[float, Server]]:
    """It works a little before each reading."""
    for n, moment in enumerate(at):
        server.work((n * 7) % 11)
        yield moment, server


def scrape(at: float, samples: list[ServerSample]) -> Scrape[ServerSample]:
    return Scrape(START + at, samples)


def steady(name: str, first: float = 7.5, every: float = 15.0) -> Scrapes:
    return [scrape(at, server.read()) for at, server in read(server_of(name), moments(first, every))]


def restarting(name: str, *, tells_start: bool) -> Scrapes:
    """In the minutes 10, 30 (twice) and 45; there with other bounds."""
    scrapes = []
    for at, server in read(server_of(name, start_time=START - 5000.0 if tells_start else None), moments()):
        if at in (622.5, 1822.5, 1837.5, 2722.5):
            server.restart(START + at - 3 if tells_start else None, (0.5, 5.0) if at > 2700 else None)
            server.work(3)
        scrapes.append(scrape(at, server.read()))
    return scrapes


def with_gaps(name: str) -> Scrapes:
    """Of three minutes, of twenty, and for ever."""
    missing = ((300, 480), (1200, 2400), (3000, 9999))
    return [s for s in steady(name) if not any(a < s.at - START < b for a, b in missing)]


def upgraded(name: str) -> Scrapes:
    """Down from minute 20 to 35 and then of another version, after a minute in which it cannot be read."""
    scrapes = []
    for at, server in read(server_of(name), moments()):
        if at == 2167.5:
            server.restart(START + 2100.0)
            server.version = "2"
        samples = server.read()
        if 1200 < at < 2100:
            samples = down(name)
        elif 2100 < at < 2160:
            samples = unreadable(name)
        scrapes.append(scrape(at, samples))
    return scrapes


def growing(name: str) -> Scrapes:
    """A reason to finish comes up late, and is not there for some minutes."""
    scrapes = []
    length = series("llm_requests_finished_total", server=name, reason="length")
    for at, server in read(server_of(name), moments()):
        if at == 1312.5:
            server.counters[length] = 3.0
        hidden = 1500 < at < 1700
        scrapes.append(scrape(at, [s for s in server.read() if not (hidden and s[0].series == length)]))
    return scrapes


def copies() -> dict[str, dict[Copy, Scrapes]]:
    """Of which two Prometheis tell; tokens grow by one a second."""
    return {
        # a is away from 130 to 250
        "by-two": {
            A: counting("by-two", [at for at in range(10, 301, 15) if not 130 <= at < 250]),
            B: counting("by-two", range(3, 301, 20)),
        },
        # b's clock is 40 s ahead, a ends
        "ahead": {A: counting("ahead", range(10, 121, 15)), B: counting("ahead", range(10, 301, 20), ahead=40)},
    }


def counting(name: str, at: Iterable[int], ahead: int = 0) -> Scrapes:
    tokens = series("llm_generation_tokens_total", server=name)
    return [scrape(moment, Server(name, counters={tokens: float(moment - ahead)}).read()) for moment in at]


def lives() -> dict[str, dict[Copy, Scrapes]]:
    return {
        "steady": {ONLY: steady("steady")},
        "on-edge": {ONLY: steady("on-edge", first=0.0)},
        "past-edge": {ONLY: steady("past-edge", first=0.001)},
        "each-40s": {ONLY: steady("each-40s", every=40.0)},
        "each-2min": {ONLY: steady("each-2min", every=120.0)},
        "told-restarts": {ONLY: restarting("told-restarts", tells_start=True)},
        "restarts": {ONLY: restarting("restarts", tells_start=False)},
        "with-gaps": {ONLY: with_gaps("with-gaps")},
        "upgraded": {ONLY: upgraded("upgraded")},
        "growing": {ONLY: growing("growing")},
    }
