"""Rules of 20 objectives over 50 servers in a real Prometheus, against one ratio of rates for each window of each.

The servers are recorded ones of four frameworks, which count on with every scrape; the sums of three days have the
pieces of three days to add up, and the rates of three days the counters. Beside it, what the same judgement takes from
the history.
"""

from __future__ import annotations

import dataclasses
import http.server
import statistics
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from alerts import promql
from alerts.burn import DAY, HOUR, MINUTE, SLICE
from alerts.conditions import condition_groups
from alerts.rules.model import Recording, RuleGroup
from alerts.rules.scope import Scope
from alerts.rules.slo import groups_of
from alerts.rules.text import rule_file
from alerts.rules.windows import lengths
from alerts.slo.spec import Slo
from bench import asking
from bench.normalise import CAPTURES
from exporters import exposition
from exporters.account import Account
from exporters.collected import Outcome, chunks_of, observation_of
from exporters.exposition import CONTENT_TYPE
from exporters.normalise import Identity, Normaliser
from exporters.schema import PHASES
from exporters.schema import Scope as Of
from exporters.tables import FRONTENDS
from monitor.evaluate.causes import REACH, Causes
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.counts import Counter
from monitor.evaluate.status import statuses
from monitor.fleet import Fleet
from monitor.history.database import open_database, sqlite_url, upgrade
from tests.end_to_end.processes import free_port, until
from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus

SERVERS = 50
MOST_SECONDS = 1.0
LEAST_RATIO = 1.0
_EVERY = 30
"""Seconds between two evaluations here, so that they come soon; what one takes does not depend on it."""
_SCRAPED = 30
"""Seconds: the slowest that the rules take, so that the peer has the least to read."""
_READ = 2 * SLICE + 2 * MINUTE
"""How far back the rules read what servers showed, and a little more: scraped anew, so that it is in memory."""
_REMEMBERED = 3 * DAY
_BLOCK = 2 * HOUR
_NEWEST = "min(timestamp(llm_up)) or vector(0)"
_AGAIN = 9
_MINUTES = 5
_WITHIN = 180.0


def _slo(name: str, indicator: Mapping[str, Any], objective: str = "99%", **more: Any) -> Slo:
    return Slo.model_validate({"name": name, "objective": objective, "indicator": indicator, **more})


def _latency(phase: str, below: float, **more: Any) -> Slo:
    return _slo(f"{phase}-{below:g}".replace(".", "-"), {"latency": {"phase": phase, "below": below}}, **more)


def _kv(name: str, metric: str, way: str, value: float) -> Slo:
    return _slo(name, {"slices": {"metric": metric, "across": "max", "is": way, "value": value}}, alerts=["ticket"])


SLOS = (
    *(_latency("ttft", below) for below in (0.5, 1, 2.5, 5, 10)),
    *(_latency("itl", below) for below in (0.05, 0.1, 0.2)),
    *(_latency("tpot", below) for below in (0.1, 0.2)),
    *(_latency("e2e", below) for below in (5, 10, 20, 40, 60)),
    _slo("available", {"availability": {}}),
    _slo("available-7d", {"availability": {}}, window="7d"),
    _slo("available-vllm", {"availability": {}}, select={"framework": "vllm"}, unknown="bad"),
    _kv("kv", "llm_kv_cache_utilization_ratio", "below", 0.95),
    _kv("queue", "llm_requests_waiting", "at_most", 50),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds. Those of rules are the sums of what evaluating each takes by itself."""

    each_minute: float
    each_five_minutes: float
    conditions: float
    peer_hour: float
    """Of windows up to an hour; those beyond are apart. We add up the pieces of these in every fifth minute, so a peer
    that does the same evaluates them as seldom."""
    peer_beyond: float
    as_groups: float
    """As Prometheus tells of the groups of each minute, the quickest of some times: they run at once, and wait for each
    other and for whatever else the machine does."""

    @property
    def ours(self) -> float:
        return self.each_minute + self.each_five_minutes / 5

    @property
    def ratio(self) -> float:
        return (self.peer_hour + self.peer_beyond / 5) / self.ours

    @property
    def ratio_of_an_hour(self) -> float:
        """Of a peer that leaves the longer windows out."""
        return self.peer_hour / self.ours

    @property
    def good(self) -> bool:
        return self.each_minute + self.each_five_minutes < MOST_SECONDS and self.ratio >= LEAST_RATIO


@dataclass(frozen=True, slots=True)
class Embedded:
    """Seconds of CPU for the same objectives and all conditions from the history: at the start, then every minute."""

    first: float
    then: float


def measure() -> Result:
    ours = [group for slo in SLOS for group in groups_of(Scope(slo), slo.burn_windows()[0])]
    since = int(time.time()) - _READ
    with TemporaryDirectory() as name, _served(since) as target:
        folder, often = Path(name), [dataclasses.replace(group, interval=_EVERY) for group in ours]
        (folder / "rules.yml").write_text(rule_file(often))
        with Prometheus(_config(target), folder, "--storage.tsdb.retention.time=10d") as prometheus:
            _remember(prometheus, folder, since)
            until(lambda: prometheus.number(_NEWEST) >= time.time() - 2 * _SCRAPED, prometheus.process, within=_WITHIN)
            now, names = time.time(), {group.name for group in ours if group.interval == MINUTE}
            until(lambda: all(_of_groups(prometheus, names).values()), prometheus.process, within=_WITHIN)
            took, groups = [], list[dict[str, float]]()
            for rules in (*_by_interval(ours), condition_groups(), _naive(0, HOUR), _naive(HOUR, _REMEMBERED)):
                groups.append(_of_groups(prometheus, names))
                took.append(_took(prometheus, rules, now))
            quickest = (min(told[name] for told in groups) for name in names)
            each_minute, seldom, conditions, hour, beyond = took
            return Result(each_minute, seldom, conditions, hour, beyond, sum(quickest))


def _by_interval(groups: Sequence[RuleGroup]) -> tuple[list[RuleGroup], list[RuleGroup]]:
    often, seldom = ([g for g in groups if g.interval == every] for every in (MINUTE, SLICE))
    return often, seldom


def measure_embedded() -> Embedded:
    with TemporaryDirectory() as folder:
        engine = open_database(sqlite_url(Path(folder) / "history.sqlite"))
        upgrade(engine)
        asking.fill(engine, (Of.ENGINE, Of.TARGET))
        counter, rows, causes = Counter(engine), ConditionRows(engine, Fleet()), Causes((), None)

        def judge(at: int) -> float:
            started = time.process_time()
            statuses(counter, SLOS, at)
            causes.judge(rows.upto(at, REACH, causes.needed_since(at)), at)
            return time.process_time() - started

        first, *then = (judge(asking.UNTIL - minute * MINUTE) for minute in range(_MINUTES, -1, -1))
        engine.dispose()
        return Embedded(first, statistics.median(then))


def _naive(beyond: int, most: int) -> Iterator[RuleGroup]:
    """Over each window that is so long a ratio straight from the counters, without anything recorded. For time slices
    there is no such rule."""
    for slo in SLOS:
        bad, total = _counters(slo)
        found = [seconds for seconds in lengths(slo.burn_windows()[0]) if bad and beyond < seconds <= most]
        ratios = [promql.binary(_rate(slo, bad, seconds), "/", _rate(slo, total, seconds)) for seconds in found]
        yield RuleGroup(slo.name, MINUTE, tuple(Recording("peer", ratio, {"slo": slo.name}) for ratio in ratios))


def _counters(slo: Slo) -> tuple[str, str]:
    scope, latency = Scope(slo), slo.indicator.latency
    if latency:
        metric = PHASES[latency.phase].metric
        return scope.metric(f"{metric}_bucket", promql.at_bound(latency.below)), scope.metric(f"{metric}_count")
    finished = "llm_requests_finished_total"
    is_bad = promql.equals("reason", "error")
    return (scope.metric(finished, is_bad), scope.metric(finished)) if slo.indicator.availability else ("", "")


def _rate(slo: Slo, of: str, seconds: int) -> str:
    return promql.aggregate("sum", slo.groups, promql.call("rate", promql.raw(of, seconds)))


def _config(target: str) -> str:
    scrape = {"job_name": "inferwatch", "static_configs": [{"targets": [target]}], "scrape_interval": "2s"}
    return yaml.safe_dump({"rule_files": ["rules.yml"], "scrape_configs": [{**scrape, "scrape_timeout": "2s"}]})


def _remember(prometheus: Prometheus, folder: Path, end: int) -> None:
    """What the rules record, as if they had for as long as windows reach, and the counters that the peer reads."""
    names = {s.name for s in SLOS}

    def recorded() -> list[dict[str, str]] | None:
        found = [series["metric"] for series in prometheus.ask('{__name__=~"inferwatch:slo_.*:(slice|minute)"}')]
        return found if {of["slo"] for of in found if of["__name__"].endswith("_total:slice")} == names else None

    series = until(recorded, prometheus.process, within=_WITHIN)
    read = {selector for slo in SLOS for selector in _counters(slo) if selector}
    found = [each["metric"] for of in read for each in prometheus.ask(of, time=f"{end + MINUTE}")]
    series += {str(labels): labels for labels in found}.values()
    prometheus.stop()
    for start in range((end - _REMEMBERED) // _BLOCK * _BLOCK, end, _BLOCK):
        (folder / "before.om").write_text("".join((*_points(series, start, min(start + _BLOCK, end), end), "# EOF\n")))
        prometheus.load(folder / "before.om")
    prometheus.start()


def _points(series: Sequence[Mapping[str, str]], start: int, stop: int, end: int) -> Iterator[str]:
    for of in series:
        told = ",".join(f'{label}="{value}"' for label, value in of.items() if label != "__name__")
        for at in range(start, stop, _step(of["__name__"])):
            yield f"{of['__name__']}{{{told}}} {1 if ':' in of['__name__'] else at - end + 2 * _REMEMBERED} {at}\n"


def _step(name: str) -> int:
    return SLICE if name.endswith(":slice") else MINUTE if name.endswith(":minute") else _SCRAPED


def _took(prometheus: Prometheus, groups: Iterable[RuleGroup], at: float) -> float:
    """The quickest of some evaluations of each rule, all together; a while apart, so that no busy moment spoils all."""
    expressions = [rule.expr for group in groups for rule in group.rules]
    rounds = [[_evaluated(prometheus, expression, at) for expression in expressions] for _ in range(_AGAIN)]
    return sum(min(times[n] for times in rounds) for n in range(len(expressions)))


def _evaluated(prometheus: Prometheus, expression: str, at: float) -> float:
    told = get(f"{prometheus.url}/api/v1/query", query=expression, time=f"{at}", stats="all").json()["data"]
    return float(told["stats"]["timings"]["evalTotalTime"])


def _of_groups(prometheus: Prometheus, names: set[str]) -> dict[str, float]:
    """0 of those that were not evaluated yet."""
    groups = get(f"{prometheus.url}/api/v1/rules").json()["data"]["groups"]
    return {group["name"]: group["evaluationTime"] for group in groups if group["name"] in names}


@contextmanager
def _served(since: int) -> Iterator[str]:
    """A page of all servers, on which every counter is further on each time: as if it were scraped at the usual pace
    from `since` on, the pages up to now one after the other."""
    lines = [_parts(line) for line in _page().splitlines() if not line.startswith("#")]

    class Sidecar(http.server.BaseHTTPRequestHandler):
        scrapes = 0

        def do_GET(self) -> None:
            Sidecar.scrapes = min(Sidecar.scrapes + 1, (int(time.time()) - since) // _SCRAPED)
            at = (since + self.scrapes * _SCRAPED) * 1000
            text = "".join(_line(before, value, self.scrapes, at) for before, value in lines)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.end_headers()
            with suppress(ConnectionError):  # Prometheus is stopped in between
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    port = free_port()
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Sidecar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{port}"
        server.shutdown()


def _line(before: str, value: float | None, scrapes: int, at: int) -> str:
    return f"{before} {at}\n" if value is None else f"{before}{value * scrapes} {at}\n"


def _parts(line: str) -> tuple[str, float | None]:
    """The line as it is, or a counter's without its value."""
    name = line.partition("{")[0]
    if not name.endswith(("_total", "_count", "_sum", "_bucket")):
        return line, None
    before, _, value = line.rpartition(" ")
    return f"{before} ", float(value)


def _page() -> str:
    frontends = list(asking.PAGES)
    return exposition.page(_chunks(frontends[n % len(frontends)], n) for n in range(SERVERS))


def _chunks(frontend: str, number: int) -> dict[str, str]:
    release, pages = asking.PAGES[frontend]
    text = (CAPTURES / frontend / release / f"{pages[-1]}.prom").read_text()
    who = Identity(f"node-{number // 8}", f"server-{number}")
    outcome = Outcome(time.time(), up=True, reading=Normaliser(FRONTENDS[frontend], who).normalise(text))
    account = Account({"node": who.node, "server": who.server})
    return chunks_of(outcome, observation_of(outcome, who, 0.1), account)
