"""The monitor's part of the configuration."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping
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
    model_validator,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from alerts import promql
from exporters.config import (
    RESERVED_LABELS,
    SECTIONS,
    BaseUrl,
    Line,
    Listen,
    ReadableFile,
    Scrape,
    Tls,
    VariableName,
    contradictions,
    host_and_port,
)
from exporters.loader import ConfigError, Problem, Root, Seconds, Section, Text, Told
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


def _in_folder(value: object, info: ValidationInfo) -> object:
    folder = (info.context or {}).get("folder")
    return folder / value if folder is not None and isinstance(value, str) and value else value


def _sidecar_url(value: str) -> str:
    try:
        host_and_port(value)
    except ValueError:
        raise ValueError("http or https URL of a sidecar, such as http://gpu-1:9840") from None
    return value


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
    bearer_token_file: ReadableFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)
    tls: Tls | None = None
    tenant: Annotated[Text, AfterValidator(_tenant)] | None = None
    selector: Annotated[tuple[promql.Matcher, ...], BeforeValidator(_matchers)] = ()
    replica_labels: tuple[Annotated[Text, AfterValidator(_replica_label)], ...] = (
        "prometheus_replica", "replica", "__replica__", "receive_replica",
    )  # fmt: skip
    delay: Seconds = 30.0
    backfill: Seconds = 15 * _DAY
    timeout: Seconds = 30.0
    max_requests_per_second: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] = 5.0


def _or_forever(value: object, seconds: ValidatorFunctionWrapHandler) -> float:
    if value == "forever":
        return math.inf
    try:
        return float(seconds(value))
    except ValidationError:
        raise ValueError("more than 0 seconds, text such as 35d, or forever") from None


Keep = Annotated[Seconds, WrapValidator(_or_forever)]


class RetentionSection(Section):
    """How long rows of each tier are kept."""

    minutes: Keep = 35 * _DAY
    hours: Keep = 400 * _DAY
    days: Keep = Field(default=math.inf, validate_default=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.minutes <= self.hours <= self.days:
            raise ValueError("`hours` at least as long as `minutes`, and `days` at least as long as `hours`")
        return self

    @property
    def seconds(self) -> Retention:
        return Retention(self.minutes, self.hours, self.days)


def _by_tier(value: object) -> object:
    if isinstance(value, str | int | float):
        raise ValueError("a mapping by tier, such as {minutes: 35d, hours: 400d, days: forever}")
    return value


class HistorySection(Section):
    """Where minutes, hours and days are kept, and for how long."""

    url: Annotated[Text, AfterValidator(_database_url)] | None = None
    password_file: ReadableFile | None = Field(default=None, repr=False)
    path: Annotated[Path, BeforeValidator(_in_folder)] | None = None
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


class AlertmanagerSection(Section):
    """What Alertmanager must show to tell of alerts; without a token anybody may. `url` is where it is told of those
    that are judged here, which `/api/v2/alerts` comes behind."""

    url: BaseUrl | None = None
    bearer_token_file: ReadableFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class Sources(Section):
    """Where observations come from besides the sidecar of this process."""

    sidecars: tuple[Annotated[Text, AfterValidator(_sidecar_url)], ...] = ()


class MonitorConfig(Root):
    known: ClassVar[frozenset[str]] = SECTIONS

    node: Line = Field(default_factory=socket.gethostname)
    listen: Listen = Listen()
    scrape: Scrape = Scrape()
    history: HistorySection = HistorySection()
    sources: Sources = Sources()
    prometheus: PrometheusSection | None = None
    alertmanager: AlertmanagerSection = AlertmanagerSection()
    slos: Annotated[tuple[ReadableFile, ...], BeforeValidator(_listed)] = ()

    def unusable(self) -> list[str]:
        try:
            slos_of(self.slos)
        except ConfigError as error:
            return list(error.problems)
        return []

    @classmethod
    def across(cls, raw: Mapping[str, object]) -> list[Problem]:
        prometheus, sources, alertmanager = (raw.get(name) for name in ("prometheus", "sources", "alertmanager"))
        alike = list(contradictions("alertmanager", alertmanager)) if isinstance(alertmanager, dict) else []
        if not isinstance(prometheus, dict):
            return alike
        if isinstance(alertmanager, dict) and alertmanager.get("url"):
            told = "allowed: without `prometheus`, which tells Alertmanager itself"
            alike.append(Problem("alertmanager.url", "", told))
        named_twice = isinstance(sources, dict) and sources.get("sidecars")
        told = "allowed: without `prometheus`, which is read instead of the sidecars that it scrapes"
        twice = [Problem("sources.sidecars", "", told)] if named_twice else []
        return [*twice, *contradictions("prometheus", prometheus), *alike]
