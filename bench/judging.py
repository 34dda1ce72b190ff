"""Rules of 20 objectives over 50 servers in a real Prometheus, against one ratio of rates for each window of each.

The servers are recorded ones of four frameworks, which count on with every scrape; the sums of three days have the
pieces of three days to add up. Beside it, what the same judgement takes from the history.
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
_SCRAPED = 15
_SAMPLES = SLICE // _SCRAPED
_COUNTED = "min(count_over_time(llm_up[5m]))"
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
    peer: float
    as_groups: float
    """As Prometheus tells of the groups of each minute, the quickest of some times: they run at once, and wait for each
    other and for whatever else the machine does."""

    @property
    def ratio(self) -> float:
        return self.peer / (self.each_minute + self.each_five_minutes / 5)

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
    with TemporaryDirectory() as name, _served() as target:
        folder, often = Path(name), [dataclasses.replace(group, interval=_EVERY) for group in ours]
        (folder / "rules.yml").write_text(rule_file(often))
        with Prometheus(_config(target), folder, "--storage.tsdb.retention.time=10d") as prometheus:
            _remember(prometheus, folder)
            until(lambda: prometheus.number(_COUNTED) >= _SAMPLES, prometheus.process, within=_WITHIN)
            names = {group.name for group in ours if group.interval == MINUTE}
            until(lambda: all(_of_groups(prometheus, names).values()), prometheus.process, within=_WITHIN)
            took, groups = [], list[dict[str, float]]()
            for rules in (*_by_interval(ours), condition_groups(), map(_naive, SLOS)):
                groups.append(_of_groups(prometheus, names))
                took.append(_took(prometheus, rules))
            each_minute, seldom, conditions, peer = took
            quickest = (min(told[name] for told in groups) for name in names)
            return Result(each_minute, seldom, conditions, peer, sum(quickest))


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


def _naive(slo: Slo) -> RuleGroup:
    """Over each window a ratio straight from the counters, without anything recorded. Here none reaches further back
    than an hour; for time slices there is no such rule."""
    bad, total = _counters(slo)
    rules = [
        Recording(f"peer:ratio:{seconds}", promql.binary(_rate(slo, bad, seconds), "/", _rate(slo, total, seconds)))
        for seconds in lengths(slo.burn_windows()[0])
        if bad
    ]
    return RuleGroup(slo.name, MINUTE, tuple(dataclasses.replace(rule, labels={"slo": slo.name}) for rule in rules))


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


def _remember(prometheus: Prometheus, folder: Path) -> None:
    """What the rules record, as if they had for as long as their windows reach; of the counters that the peer reads an
    hour."""
    names = {s.name for s in SLOS}

    def recorded() -> list[dict[str, str]] | None:
        found = [series["metric"] for series in prometheus.ask('{__name__=~"inferwatch:slo_.*:(slice|minute)"}')]
        return found if {of["slo"] for of in found if of["__name__"].endswith("_total:slice")} == names else None

    series = until(recorded, prometheus.process, within=_WITHIN)
    read = {selector for slo in SLOS for selector in _counters(slo) if selector}
    series += list({str(each["metric"]): each["metric"] for of in read for each in prometheus.ask(of)}.values())
    end = int(time.time()) // SLICE * SLICE - SLICE
    prometheus.stop()
    (folder / "before.om").write_text("".join((*_points(series, end), "# EOF\n")))
    prometheus.load(folder / "before.om")
    prometheus.start()


def _points(series: Sequence[Mapping[str, str]], end: int) -> Iterator[str]:
    for of in series:
        name = of["__name__"]
        every = SLICE if name.endswith(":slice") else MINUTE if name.endswith(":minute") else _SCRAPED
        told = ",".join(f'{label}="{value}"' for label, value in of.items() if label != "__name__")
        for number, at in enumerate(range(end - (3 * DAY if every == SLICE else HOUR), end, every)):
            yield f"{name}{{{told}}} {1 if ':' in name else number} {at}\n"


def _took(prometheus: Prometheus, groups: Iterable[RuleGroup]) -> float:
    """The quickest of some evaluations of each rule, all together; a while apart, so that no busy moment spoils all."""
    expressions = [rule.expr for group in groups for rule in group.rules]
    rounds = [[_evaluated(prometheus, expression) for expression in expressions] for _ in range(_AGAIN)]
    return sum(min(times[n] for times in rounds) for n in range(len(expressions)))


def _evaluated(prometheus: Prometheus, expression: str) -> float:
    told = get(f"{prometheus.url}/api/v1/query", query=expression, stats="all").json()["data"]
    return float(told["stats"]["timings"]["evalTotalTime"])


def _of_groups(prometheus: Prometheus, names: set[str]) -> dict[str, float]:
    """0 of those that were not evaluated yet."""
    groups = get(f"{prometheus.url}/api/v1/rules").json()["data"]["groups"]
    return {group["name"]: group["evaluationTime"] for group in groups if group["name"] in names}


@contextmanager
def _served() -> Iterator[str]:
    """A page of all servers, on which every counter is further on each time."""
    lines = [_parts(line) for line in _page().splitlines()]

    class Sidecar(http.server.BaseHTTPRequestHandler):
        scrapes = 0

        def do_GET(self) -> None:
            Sidecar.scrapes += 1
            text = "".join(before if value is None else f"{before}{value * self.scrapes}\n" for before, value in lines)
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


def _parts(line: str) -> tuple[str, float | None]:
    """The line as it is, or a counter's without its value."""
    name = line.partition("{")[0]
    if line.startswith("#") or not name.endswith(("_total", "_count", "_sum", "_bucket")):
        return f"{line}\n", None
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
