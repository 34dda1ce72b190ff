import math
import re
from pathlib import Path

import pytest

from exporters.config import SECTIONS, Config, unread
from exporters.loader import ConfigError, Section, load
from monitor.config import HistorySection, MonitorConfig, PrometheusSection, Sources
from monitor.history.retention import Retention

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "inferwatch.yml"


def config_of(path: Path, text: str) -> MonitorConfig:
    path.write_text(text)
    return load(path, MonitorConfig)


def test_sections_that_the_monitor_reads_are_not_told_of_as_unread(written: Path) -> None:
    written.write_text("".join(f"{name}: {{}}\n" for name in SECTIONS - set(Config.model_fields)))
    foreign = unread(load(written, Config))
    assert foreign == sorted(SECTIONS - set(Config.model_fields) - set(MonitorConfig.model_fields))


def test_without_a_file_the_history_is_sqlite_under_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert load(None, MonitorConfig).history.database == "sqlite:////state/inferwatch/history.sqlite"


def test_a_path_of_the_history_is_relative_to_the_file(written: Path) -> None:
    config = config_of(written, "history: {path: data/h.sqlite}")
    assert config.history.database == f"sqlite:///{written.parent}/data/h.sqlite"


def test_each_tier_is_kept_for_its_own_time(written: Path) -> None:
    default, given = (
        config_of(written, f"history: {{retention: {{{keys}}}}}").history.retention.seconds
        for keys in ("", "minutes: 7d, hours: 90d, days: 730d, alerts: forever")
    )
    assert default == Retention(35 * 86_400, 400 * 86_400, math.inf, 400 * 86_400)
    assert given == Retention(7 * 86_400, 90 * 86_400, 730 * 86_400, math.inf)
    assert config_of(written, "history: {retention: {hours: forever}}").history.retention.hours == math.inf


def test_a_password_lies_in_a_file_beside_the_url(written: Path) -> None:
    written.with_name("password").write_text("secret\n")
    config = config_of(written, "history: {url: 'postgres://u@h/d', password_file: password}")
    assert config.history.database == "postgres://u@h/d"
    assert config.history.password_file == written.with_name("password")
    assert "password" not in repr(config.history)


def test_one_file_serves_sidecar_and_monitor(written: Path) -> None:
    text = (
        "servers: [{url: 'http://gpu-1:8000'}]\nsources: {sidecars: ['http://gpu-2:9840']}\nscrape: {interval: 30s}\n"
    )
    monitor, sidecar = config_of(written, text), load(written, Config)
    assert monitor.sources.sidecars == ("http://gpu-2:9840",)
    assert monitor.scrape.interval == sidecar.scrape.interval == 30
    assert sidecar.servers[0].name == "gpu-1:8000"


def prometheus(settings: str) -> str:
    return f"prometheus: {{url: 'http://prometheus:9090', {settings}}}"


def test_a_prometheus_may_be_behind_a_path_with_a_tenant_and_a_selector(written: Path) -> None:
    text = """
prometheus:
  url: https://Mimir.example:443/prometheus/
  tenant: team-a
  selector: 'cluster="a", team=~"x|y"'
  headers: {X-Proxy: on-call}
  tls: {insecure_skip_verify: true}
  backfill: 2d
"""
    found = config_of(written, text).prometheus
    assert found is not None
    assert (found.url, found.tenant) == ("https://mimir.example/prometheus", "team-a")
    assert found.selector == ('cluster="a"', 'team=~"x|y"')
    assert (found.headers, found.backfill, found.delay) == ({"X-Proxy": "on-call"}, 172_800, 30)
    assert "on-call" not in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("history: {url: 'nonsense'}", "history.url: 'nonsense': allowed: a database URL, such as"),
        ("history: {url: 'mysql://h/d'}", "history.url: 'mysql://h/d': allowed: a database URL, such as"),
        (
            "history: {url: 'postgresql://h:x/d'}",
            "history.url: 'postgresql://h:x/d': allowed: a database URL whose port",
        ),
        *(
            (f"history: {{url: '{url}'}}", f"history.url: '{shown}': allowed: the path of a file behind sqlite:///")
            for url, shown in (
                ("sqlite://", "sqlite://"),
                ("sqlite:///:memory:", "sqlite:///:memory:"),
                ("sqlite:////a?mode=ro", "sqlite:////a?(not shown)"),
            )
        ),
        *(
            (f"history: {{url: '{url}'}}", "history.url: (value not shown): allowed: a database URL without password")
            for url in ("postgresql://u:secret@h/d", "postgres://u@h/d?password=secret")
        ),
        ("history: {password_file: inferwatch.yml}", "history: a mapping: allowed: `password_file` together with a"),
        ("history: {url: 'postgresql://h/d', password_file: x}", "allowed: a file that exists and can be read"),
        ("history: {url: 'sqlite:///a', path: b}", "history: a mapping: allowed: either `url` or `path`"),
        ("history: {retention: 90d}", "history.retention: '90d': allowed: a mapping by tier, such as {minutes: 35d"),
        *(
            (
                f"history: {{retention: {{minutes: {value}}}}}",
                f"history.retention.minutes: {shown}: allowed: 1d to 36500d, or forever",
            )
            for value, shown in [
                ("soon", "'soon'"),
                ("0", "0"),
                ("-1d", "'-1d'"),
                ("~", "nothing"),
                (".inf", "inf"),
                ("23h", "'23h'"),
                ("1e9d", "'1e9d'"),
                ("1.0e+300", "1e+300"),
            ]
        ),
        ("history: {retention: {weeks: 3d}}", "history.retention.weeks: unknown key"),
        *(
            (f"history: {{retention: {{{keys}}}}}", f"history.retention.{told}")
            for keys, told in (
                ("minutes: forever", "hours: 34560000.0: allowed: at least as long as `minutes`, which is forever"),
                ("alerts: 0d", "alerts: '0d': allowed: 1d to 36500d, or forever"),
                ("minutes: 2d, hours: 1d", "hours: '1d': allowed: at least as long as `minutes`, which is 2d"),
                ("days: 10d", "days: '10d': allowed: at least as long as `hours`, which is 400d"),
            )
        ),
        (
            prometheus("backfill: 11d") + "\nhistory: {retention: {minutes: 1d, hours: 2d, days: 10d}}",
            "prometheus.backfill: 11d: allowed: at most `history.retention.days`, which is 10d",
        ),
        ("history: {url: 'postgresql://h/d', password_file: nothing}", "allowed: a file that holds a password"),
        *(
            (prometheus(f"bearer_token_file: {file}"), "bearer_token_file: (value not shown): allowed: a file that")
            for file in ("nothing", "latin-1")
        ),
        *(
            (prometheus(f"{key}: {value}"), f"prometheus.{key}: {shown}: allowed: {allowed}")
            for key, value, shown, allowed in (
                ("delay", "10d", "'10d'", "1s to 3m, in seconds or as text such as 15s"),
                ("delay", "0", "0", "1s to 3m"),
                ("backfill", "1s", "'1s'", "10m to 3650d"),
                ("backfill", "1.0e+300", "1e+300", "10m to 3650d"),
                ("timeout", "1d", "'1d'", "10ms to 10m"),
                ("timeout", "-5", "-5", "10ms to 10m"),
                ("max_requests_per_second", "0.001", "0.001", "a number, 0.1 or more"),
                ("max_requests_per_second", ".inf", "inf", "a number, 0.1 or more"),
            )
        ),
        (prometheus("tls: {insecure_skip_verify: true}"), "prometheus.tls: allowed: with a `url` of https"),
        ("history: {patth: x}", "history.patth: unknown key: did you mean `path`?"),
        ("prometheus: {}", "prometheus.url: missing: a value is required"),
        (
            "prometheus: {url: 'http://u:secret@h'}",
            "prometheus.url: 'http://(not shown)@h': allowed: a URL without user",
        ),
        ("prometheus: {url: 'http://h/api/v1/query'}", "allowed: the URL before /api/v1, such as"),
        (prometheus("selector: '{a=b}'"), "prometheus.selector: '{a=b}': allowed: matchers of PromQL without braces"),
        (prometheus("selector: 3"), "prometheus.selector: 3: allowed: matchers of PromQL without braces"),
        (prometheus("tenant: a b"), "prometheus.tenant: 'a b': allowed: a tenant as X-Scope-OrgID names it"),
        (prometheus("headers: {Authorization: secret}"), "headers.Authorization: (value not shown): allowed: a header"),
        (prometheus("headers: {X-Api-Key: secret}"), "allowed: a header without credentials: give `bearer_token_file`"),
        (prometheus("headers: {x-vault-token: secret}"), "allowed: a header without credentials"),
        (prometheus("headers: {X-Auth-Request: secret}"), "allowed: a header without credentials"),
        (
            prometheus("headers: {X-Scope-OrgID: a}"),
            "allowed: a header that is not set here anyway; a tenant is given as",
        ),
        (prometheus("headers: {'X Y': a}"), "prometheus.headers.X Y: 'X Y': allowed: the name of an HTTP header"),
        (
            prometheus('headers: {X-Team: "secret\\n"}'),
            "prometheus.headers.X-Team: (value not shown): allowed: printable",
        ),
        (
            prometheus("replica_labels: [node]"),
            "replica_labels[0]: 'node': allowed: a label that the schema does not use",
        ),
        (prometheus("replica_labels: [a-b]"), "prometheus.replica_labels[0]: 'a-b': allowed: the name of a label"),
        (prometheus("max_requests_per_second: 0"), "prometheus.max_requests_per_second: 0: allowed: a number, 0.1"),
        (prometheus("bearer_token_env: NOT_SET_1"), "prometheus.bearer_token_env: NOT_SET_1 is not set"),
        (
            prometheus("bearer_token_env: HOME, bearer_token_file: x"),
            "prometheus.bearer_token_env: allowed: without `bearer_token_file`",
        ),
        ("sources: {sidecars: ['gpu-1']}", "sources.sidecars[0]: 'gpu-1': allowed: http or https URL of a sidecar"),
        (
            "sources: {sidecars: ['http://a/?x=secret']}",
            "'http://a/?(not shown)': allowed: http or https URL of a sidecar",
        ),
        (
            "sources: {sidecars: ['http://a:9840', 'http://A:9840/']}",
            "sources.sidecars: http://a:9840: allowed: each sidecar once",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_what_is_allowed(written: Path, text: str, message: str) -> None:
    written.with_name("nothing").write_text(" \n")
    written.with_name("latin-1").write_bytes(b"\xe4")
    with pytest.raises(ConfigError) as caught:
        config_of(written, text)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_days_are_kept_as_long_as_objectives_look_back(written: Path) -> None:
    written.with_name("slo.yml").write_text(
        "version: 1\nslos: [{name: chat, objective: 0.99, indicator: {availability: {}}, window: 30d}]"
    )
    with pytest.raises(ConfigError) as caught:
        config_of(written, "slos: slo.yml\nhistory: {retention: {minutes: 7d, hours: 7d, days: 20d}}")
    assert str(caught.value) == (
        "history.retention.days: 20d: allowed: at least 30d, the window of the objective 'chat'"
    )


@pytest.mark.parametrize(
    ("page", "sections"),
    [
        ("history.md", {"history": HistorySection, "sources": Sources}),
        ("prometheus.md", {"prometheus": PrometheusSection}),
    ],
)
def test_every_key_of_the_monitor_has_its_row_in_the_docs(page: str, sections: dict[str, type[Section]]) -> None:
    found = re.findall(r"^\| `(\w+\.\w+)` \|", (DOCS / page).read_text(), re.MULTILINE)
    assert set(found) == {f"{name}.{key}" for name, section in sections.items() for key in section.model_fields}


def test_a_price_is_of_all_types_of_gpu_or_of_each(written: Path) -> None:
    one = config_of(written, "compare: {gpu_hour: 2.5, currency: EUR}").compare.prices
    assert (one.of("NVIDIA A100"), one.of(""), one.currency) == (2.5, None, "EUR")
    each = config_of(written, "compare: {gpu_hour: {NVIDIA A100: 1, '*': 3.5}}").compare.prices
    assert (each.of("NVIDIA A100"), each.of("NVIDIA H100")) == (1, 3.5)
    none = config_of(written, "compare: {}").compare.prices
    assert none.of("NVIDIA A100") is None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("gpu_hour: cheap", "compare.gpu_hour.*: 'cheap': allowed: a price above 0"),
        ("gpu_hour: 0", "a price above 0"),
        ("gpu_hour: .nan", "a price above 0"),
        ("gpu_hour: true", "a price above 0"),
        ("gpu_hour: {H100: -1}", "compare.gpu_hour.H100"),
        ("currency: EUR", "`currency` together with `gpu_hour`"),
        ("gpu_day: 3", "compare.gpu_day"),
    ],
)
def test_what_is_no_price_is_refused(written: Path, section: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_of(written, f"compare: {{{section}}}")
    assert told in str(error.value)
