"""The monitor's part of the configuration."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from alerts import promql
from exporters.address import is_bare, normalised
from exporters.config import (
    RESERVED_LABELS,
    SECTIONS,
    BaseUrl,
    Line,
    Listen,
    ReadableFile,
    Scrape,
    Tls,
    TokenFile,
    VariableName,
    contradictions,
)
from exporters.loader import ConfigError, PathInFolder, Problem, Root, Seconds, Section, Text, Told, within
from monitor.compare.asked import Prices
from monitor.evaluate.objectives import slos_of
from monitor.history.database import default_url, sqlite_url
from monitor.history.file import path_of
from monitor.history.postgres import with_driver
from monitor.history.retention import Retention

_DAY = 86400.0
_OWN_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding",
    "user-agent", "x-scope-orgid",
})  # fmt: skip
_A_DATABASE_URL = (
    "a database URL, such as sqlite:////var/lib/inferwatch/history.sqlite or postgresql://inferwatch@db/inferwatch"
)
_SECRET_OPTIONS = frozenset({"password", "sslpassword"})
_SECRET_HEADER = re.compile("auth|cookie|credential|key|passw|secret|session|signature|token", re.IGNORECASE)


def _database_url(value: str) -> str:
    try:
        url = with_driver(make_url(value))
    except ArgumentError:
        raise ValueError(_A_DATABASE_URL) from None
    except ValueError:
        raise ValueError("a database URL whose port is a number") from None
    if url.password is not None or not _SECRET_OPTIONS.isdisjoint(url.query):
        raise Told("(value not shown): allowed: a database URL without password: give `password_file`")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(_A_DATABASE_URL)
    if url.get_backend_name() == "sqlite" and (path_of(url) is None or url.query):
        raise ValueError("the path of a file behind sqlite:///, and no options")
    return value


def _password_file(path: Path) -> Path:
    try:
        password = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        password = ""
    if not password:
        raise ValueError("a file that holds a password in UTF-8, and not nothing")
    return path


def _sidecar_url(value: str) -> str:
    if not (value.startswith(("http://", "https://")) and is_bare(value)):
        raise ValueError("http or https URL of a sidecar, such as http://gpu-1:9840")
    return normalised(value)


def _each_once(urls: tuple[str, ...]) -> tuple[str, ...]:
    if twice := sorted({url for url in urls if urls.count(url) > 1}):
        raise Told(f"{', '.join(twice)}: allowed: each sidecar once")
    return urls


def _before_the_api(url: str) -> str:
    if re.search(r"/api/v1(/query(_range)?)?$", url):
        raise ValueError("the URL before /api/v1, such as http://mimir:8080/prometheus")
    return url


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError("the name of an HTTP header")
    if _SECRET_HEADER.search(name):
        raise ValueError("a header without credentials: give `bearer_token_file` or `bearer_token_env`")
    if name.lower() in _OWN_HEADERS:
        raise ValueError("a header that is not set here anyway; a tenant is given as `tenant`")
    return name


def _header_value(value: str) -> str:
    if not re.fullmatch(r"[!-~]([ -~]*[!-~])?", value):
        # Not shown: what a proxy wants may be a secret.
        raise Told("(value not shown): allowed: printable ASCII")
    return value


def _tenant(value: str) -> str:
    if not re.fullmatch(r"[!-~]{1,150}", value):
        raise ValueError("a tenant as X-Scope-OrgID names it: printable ASCII without spaces, at most 150 characters")
    return value


def _matchers(value: object) -> object:
    return promql.matchers(value if isinstance(value, str) else "") if value else ()


def _rate(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value < math.inf:
        raise ValueError("a number, 0.1 or more")
    return value


def _replica_label(name: str) -> str:
    if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name):
        raise ValueError("the name of a label")
    if name in RESERVED_LABELS:
        raise ValueError("a label that the schema does not use itself")
    return name


class PrometheusSection(Section):
    """What answers Prometheus' query API. `url` is what `/api/v1/query` comes behind."""

    url: Annotated[BaseUrl, AfterValidator(_before_the_api)]
    headers: Mapping[
        Annotated[str, Strict(), AfterValidator(_header_name)], Annotated[Text, AfterValidator(_header_value)]
    ] = Field(default={}, repr=False)
    bearer_token_file: TokenFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)
    tls: Tls | None = None
    tenant: Annotated[Text, AfterValidator(_tenant)] | None = None
    selector: Annotated[tuple[promql.Matcher, ...], BeforeValidator(_matchers)] = ()
    replica_labels: tuple[Annotated[Text, AfterValidator(_replica_label)], ...] = (
        "prometheus_replica", "replica", "__replica__", "receive_replica",
    )  # fmt: skip
    delay: Annotated[Seconds, within("1s", "3m")] = 30.0
    """An alert says from 5 minutes on that the history lags."""
    backfill: Annotated[Seconds, within("10m", "3650d")] = 15 * _DAY
    """Minutes are worked out from the samples of 10 minutes before."""
    timeout: Annotated[Seconds, within("10ms", "10m")] = 30.0
    max_requests_per_second: Annotated[float, Strict(), BeforeValidator(_rate)] = 5.0


def _in_days(seconds: float) -> str:
    return "forever" if math.isinf(seconds) else f"{seconds / _DAY:g}d"


def _or_forever(value: object, seconds: ValidatorFunctionWrapHandler) -> float:
    if value == "forever":
        return math.inf
    with suppress(ValidationError):
        return float(seconds(value))
    raise ValueError("1d to 36500d, or forever")


Keep = Annotated[Seconds, within("1d", "36500d"), WrapValidator(_or_forever)]


class RetentionSection(Section):
    """How long rows of each tier are kept, and alerts after their end.

    Whole days are deleted, and the page shows the minutes of the last hour.
    """

    minutes: Keep = 35 * _DAY
    hours: Keep = 400 * _DAY
    days: Keep = Field(default=math.inf, validate_default=False)
    alerts: Keep = 400 * _DAY

    @field_validator("hours", "days")
    @classmethod
    def _not_shorter(cls, value: float, info: ValidationInfo) -> float:
        finer = {"hours": "minutes", "days": "hours"}[info.field_name or ""]
        kept = info.data.get(finer, 0.0)
        if value < kept:
            raise ValueError(f"at least as long as `{finer}`, which is {_in_days(kept)}")
        return value

    @property
    def seconds(self) -> Retention:
        return Retention(self.minutes, self.hours, self.days, self.alerts)


def _by_tier(value: object) -> object:
    if isinstance(value, str | int | float):
        raise ValueError("a mapping by tier, such as {minutes: 35d, hours: 400d, days: forever}")
    return value


class HistorySection(Section):
    """Where minutes, hours and days are kept, and for how long."""

    url: Annotated[Text, AfterValidator(_database_url)] | None = None
    password_file: Annotated[ReadableFile, AfterValidator(_password_file)] | None = Field(default=None, repr=False)
    path: PathInFolder | None = None
    retention: Annotated[RetentionSection, BeforeValidator(_by_tier)] = RetentionSection()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.url is not None and self.path is not None:
            raise ValueError("either `url` or `path`")
        if self.password_file is not None and not (self.url or "").startswith("postgres"):
            raise ValueError("`password_file` together with a `url` of PostgreSQL")
        return self

    @property
    def database(self) -> str:
        return self.url or (default_url() if self.path is None else sqlite_url(self.path))


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _before_the_alerts(url: str) -> str:
    if re.search(r"/api/v[12](/alerts)?$", url):
        raise ValueError("the URL before /api/v2, such as http://alertmanager:9093")
    return url


class BasicAuth(Section):
    username: Line
    password_file: ReadableFile | None = Field(default=None, repr=False)
    password_env: VariableName | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.password_file is None) == (self.password_env is None):
            raise ValueError("either `password_file` or `password_env`")
        if ":" in self.username:
            raise ValueError("a `username` without a colon, which ends it")
        return self

    def password(self) -> str | None:
        """Read anew each time, so that it may be replaced. None where it cannot be read."""
        if self.password_file is None:
            return os.environ.get(self.password_env or "")
        try:
            return self.password_file.read_text(encoding="utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError):
            return None


class AlertmanagerAccess(Section):
    """What Alertmanager is shown when it is told of alerts."""

    bearer_token_file: TokenFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)
    basic_auth: BasicAuth | None = None
    tls: Tls | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.basic_auth is not None and (self.bearer_token_file or self.bearer_token_env):
            raise ValueError("either a token or `basic_auth`")
        return self


class AlertmanagerSection(Section):
    """What Alertmanager must show to tell of alerts; without a token anybody may. `url` is where it is told of those
    that are judged here, which `/api/v2/alerts` comes behind, and `access` what it is shown there."""

    url: Annotated[tuple[Annotated[BaseUrl, AfterValidator(_before_the_alerts)], ...], BeforeValidator(_listed)] = ()
    access: AlertmanagerAccess = AlertmanagerAccess()
    bearer_token_file: TokenFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.url)) < len(self.url):
            raise ValueError("each `url` once")
        if self.access != AlertmanagerAccess() and not self.url:
            raise ValueError("`access` together with `url`")
        if self.access.tls is not None and all(url.startswith("http://") for url in self.url):
            raise ValueError("`access.tls` with a `url` of https")
        return self


class Sources(Section):
    """Where observations come from besides the sidecar of this process."""

    sidecars: Annotated[tuple[Annotated[Text, AfterValidator(_sidecar_url)], ...], AfterValidator(_each_once)] = ()


def _price(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("a price above 0")
    return float(value)


def _by_type(value: object) -> object:
    return value if isinstance(value, dict) else {} if value is None else {ANY_TYPE: value}


ANY_TYPE = "*"
"""In the place of a type's name: all that have no price of their own."""


class CompareSection(Section):
    """What an hour of one GPU costs: one price for all types, or one for each by its name."""

    gpu_hour: Annotated[
        Mapping[Annotated[str, Strict()], Annotated[float, BeforeValidator(_price)]], BeforeValidator(_by_type)
    ] = {}
    currency: Annotated[str, Strict()] = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.currency and not self.gpu_hour:
            raise ValueError("`currency` together with `gpu_hour`")
        return self

    @property
    def prices(self) -> Prices:
        by_type = {name: price for name, price in self.gpu_hour.items() if name != ANY_TYPE}
        return Prices(by_type, self.gpu_hour.get(ANY_TYPE), self.currency)


class MonitorConfig(Root):
    known: ClassVar[frozenset[str]] = SECTIONS

    node: Line = Field(default_factory=socket.gethostname)
    listen: Listen = Listen()
    scrape: Scrape = Scrape()
    history: HistorySection = HistorySection()
    sources: Sources = Sources()
    prometheus: PrometheusSection | None = None
    alertmanager: AlertmanagerSection = AlertmanagerSection()
    compare: CompareSection = CompareSection()
    slos: Annotated[tuple[ReadableFile, ...], BeforeValidator(_listed)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        kept = self.history.retention.days
        if self.prometheus is not None and self.prometheus.backfill > kept:
            of = f"prometheus.backfill: {_in_days(self.prometheus.backfill)}"
            raise Told(f"{of}: allowed: at most `history.retention.days`, which is {_in_days(kept)}")
        return self

    def unusable(self) -> list[str]:
        try:
            slos = slos_of(self.slos)
        except ConfigError as error:
            return list(error.problems)
        kept = self.history.retention.days
        told = f"history.retention.days: {_in_days(kept)}: allowed: at least"
        return [f"{told} {slo.days}d, the window of the objective '{slo.name}'" for slo in slos if slo.window > kept]

    @classmethod
    def across(cls, raw: Mapping[str, object]) -> list[Problem]:
        prometheus, alertmanager = raw.get("prometheus"), raw.get("alertmanager")
        alike = list(_of_alertmanager(alertmanager)) if isinstance(alertmanager, dict) else []
        if not isinstance(prometheus, dict):
            return alike
        if isinstance(alertmanager, dict) and alertmanager.get("url"):
            told = "allowed: without `prometheus`, which tells Alertmanager itself"
            alike.append(Problem("alertmanager.url", "", told))
        return [*contradictions("prometheus", prometheus), *alike]


def _of_alertmanager(section: Mapping[str, object]) -> Iterator[Problem]:
    yield from contradictions("alertmanager", {name: value for name, value in section.items() if name != "url"})
    access = section.get("access")
    if isinstance(access, dict):
        yield from contradictions("alertmanager.access", access)
