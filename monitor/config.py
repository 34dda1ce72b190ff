"""The monitor's part of the configuration."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from exporters.config import SECTIONS, Line, Listen, Scrape, host_and_port
from exporters.loader import Root, Seconds, Section, Text
from monitor.history.database import default_url, sqlite_url

_DAY = 86400.0


def _database_url(value: str) -> str:
    try:
        url = make_url(value)
    except ArgumentError:
        raise ValueError("a database URL, such as sqlite:////var/lib/inferwatch/history.sqlite") from None
    if url.password is not None:
        raise ValueError("a database URL without password: PostgreSQL's own PGPASSFILE or PGPASSWORD gives it")
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


class HistorySection(Section):
    """Where minutes are kept, and for how long."""

    url: Annotated[Text, AfterValidator(_database_url)] | None = None
    path: Annotated[Path, BeforeValidator(_in_folder)] | None = None
    retention: Seconds = 35 * _DAY

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.url is not None and self.path is not None:
            raise ValueError("either `url` or `path`")
        return self

    @property
    def database(self) -> str:
        return self.url or (default_url() if self.path is None else sqlite_url(self.path))


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
