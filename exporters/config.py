"""The sidecar's part of the configuration. What may be written in the file, and nothing of how servers are read."""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeGuard
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from exporters import address, schema, tls
from exporters.address import host_and_port
from exporters.allow import Allowed
from exporters.gpu import binding
from exporters.loader import (
    ConfigError,
    Count,
    Flag,
    PathInFolder,
    Problem,
    Root,
    Seconds,
    Section,
    Text,
    Told,
    load,
    shown,
    within,
)
from exporters.paths import usual
from exporters.tables import FRONTENDS

__all__ = [
    "RESERVED_LABELS", "SECTIONS", "BaseUrl", "Config", "ConfigError", "Gpus", "Line", "Listen", "Probe",
    "ReadableFile", "Scrape", "Server", "SyntheticRequest", "Tls", "TokenFile", "VariableName", "contradictions",
    "default_path", "host_and_port", "is_token", "load", "unread", "warn_of_unread",
]  # fmt: skip

_log = logging.getLogger(__name__)

SECTIONS = frozenset({
    "advise", "alertmanager", "alerts", "api", "compare", "file_sd", "gpus", "history", "listen", "model_aliases",
    "monitor", "node", "page", "probe", "prometheus", "scrape", "servers", "sidecars", "slos", "sources", "web",
})  # fmt: skip
"""Every top-level key of `inferwatch.yml`, whichever process reads it."""

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Digits do not mix with letters in these, as they do in tokens that stand where a name should.
_VARIABLE_NAME = re.compile(r"[A-Z]{1,16}[0-9]{0,4}(_([A-Z]{1,16}[0-9]{0,4}|[0-9]{1,4}))*")
RESERVED_LABELS = (
    {"le"}.union(*schema.IDENTITY.values(), *(m.labels for m in schema.METRICS.values()))
    # Only llm_field_info and gpu_server_info have it, and there their own value stands.
    - {"source"}
)


def default_path() -> Path | None:
    """`inferwatch.yml` of the working directory, if there is one."""
    path = Path("inferwatch.yml")
    return path if path.exists() else None


def _url(value: str) -> str:
    try:
        has_user = "@" in urlsplit(value).netloc
    except ValueError:
        has_user = False
    if has_user:
        raise ValueError("a URL without user and password: give `bearer_token_file` or `bearer_token_env`")
    url = address.normalised(value)
    if not address.is_bare(value):
        raise ValueError("a URL without query and fragment")
    return url


def _page_url(value: str) -> str:
    """That of a metrics page, where it is the base URL of one."""
    url = _url(value)
    return url if urlsplit(url).path else f"{url}/metrics"


def _metrics_path(value: str) -> str:
    if not re.fullmatch(r"/[^\s#]*", value):
        raise ValueError("a path that starts with /, such as /metrics")
    return value


def _frontend(value: str) -> str:
    if value not in FRONTENDS:
        near = get_close_matches(value, FRONTENDS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(" or ".join(sorted(FRONTENDS)) + hint)
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("text on one line")
    return value


def _label_name(value: str) -> str:
    if not _LABEL_NAME.fullmatch(value) or value.startswith("__"):
        raise ValueError("letters, digits and _, not starting with a digit or __")
    if value in RESERVED_LABELS:
        raise ValueError("a name that the schema does not use itself")
    return value


def _readable(path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ValueError("a file that exists and can be read")
    return path


def _token_file(path: Path) -> Path:
    try:
        token = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not is_token(token):
        raise ValueError("a file that holds a token: printable ASCII without spaces, and not nothing")
    return path


def is_token(text: str) -> bool:
    """Whether it can stand behind `Authorization: Bearer`."""
    return bool(re.fullmatch(r"[!-~]+", text))


def _environment_variable(name: str) -> str:
    if os.environ.get(name):
        return name
    if not _VARIABLE_NAME.fullmatch(name):
        # It may be the token itself.
        raise ValueError("the name of an environment variable that is set")
    raise Told(f"{name} is {'empty' if name in os.environ else 'not set'}")


def _listening_port(port: int) -> int:
    if not 0 <= port <= 65535:
        raise ValueError("a port of 0 to 65535")
    return port


def _targets_file(path: Path) -> Path:
    if path.suffix not in (".json", ".yml", ".yaml") or "\0" in str(path):
        raise ValueError("a path that ends in .json, .yml or .yaml")
    return path


BaseUrl = Annotated[Text, AfterValidator(_url)]
VariableName = Annotated[Text, AfterValidator(_environment_variable)]
ReadableFile = Annotated[PathInFolder, AfterValidator(_readable)]
TokenFile = Annotated[ReadableFile, AfterValidator(_token_file)]
TargetsFile = Annotated[PathInFolder, AfterValidator(_targets_file)]
Line = Annotated[Text, AfterValidator(_printable)]
Labels = Mapping[Annotated[str, Strict(), AfterValidator(_label_name)], Annotated[str, Strict()]]


class Tls(Section):
    ca_file: ReadableFile | None = None
    cert_file: ReadableFile | None = None
    key_file: ReadableFile | None = None
    insecure_skip_verify: Flag = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.context()
        except OSError as error:
            raise ValueError("certificates and key in PEM form that belong together") from error
        return self

    def context(self) -> ssl.SSLContext:
        return tls.context(self.ca_file, self.cert_file, self.key_file, self.insecure_skip_verify)


class SyntheticRequest(Section):
    """A completion of a few tokens that is asked for every `interval` seconds."""

    interval: Annotated[Seconds, within("1s", "1d")] = 60.0
    timeout: Seconds | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    model: Line | None = None
    prompt: Text = Field(default="Count on: one, two, three,", repr=False)
    max_tokens: Annotated[Count, Field(le=128)] = 4

    @property
    def time_allowed(self) -> float:
        return self.timeout or min(self.interval, 30.0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.time_allowed > self.interval:
            raise ValueError("`timeout` no longer than `interval`")
        return self


class Server(Section):
    """One inference server. `url` is its base URL; `name` becomes the label `server`."""

    url: BaseUrl
    name: Line
    frontend: Annotated[Text, AfterValidator(_frontend)] | None = None
    metrics_path: Annotated[Text, AfterValidator(_metrics_path)] | None = None
    role: Literal["unified", "prefill", "decode"] | None = None
    model: Line | None = None
    entry_model: Line | None = None
    engine_model: Line | None = None
    labels: Labels = Field(default={})
    timeout: Annotated[Seconds, within("10ms", "5m")] | None = None
    bearer_token_file: TokenFile | None = Field(default=None, repr=False)
    bearer_token_env: VariableName | None = Field(default=None, repr=False)
    tls: Tls | None = None
    synthetic_request: SyntheticRequest | None = None
    max_body_bytes: Count = 16 * 2**20
    max_samples: Count = 50_000
    max_models: Count = 20

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        """The default name, and the path of a URL that points at the metrics page itself."""
        return _filled(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.frontend not in (None, "triton") and (self.entry_model or self.engine_model):
            raise ValueError("`entry_model` and `engine_model` with `frontend: triton`, or without `frontend`")
        return self

    @property
    def page(self) -> tuple[str, str]:
        """What it is read from: the same for two that are one."""
        return _page(self.url, self.metrics_path)


def _page(url: str, metrics_path: str | None) -> tuple[str, str]:
    path = (metrics_path or "").rstrip("/")
    return url, "" if path in usual() else path


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    url = values.get("url")
    if not _is_url(url):
        # What is wrong with the URL is told; that no name follows from it is no error of its own.
        return {"name": "?", **values}
    found = {"name": host_and_port(url), **values}
    path = address.parts(url).path
    if path.rstrip("/").endswith("/metrics") and "metrics_path" not in values:
        return {**found, "url": url.removesuffix(path), "metrics_path": path}
    return found


def _is_url(value: object) -> TypeGuard[str]:
    try:
        return isinstance(value, str) and bool(address.parts(value))
    except ValueError:
        return False


class Listen(Section):
    host: Line = "127.0.0.1"
    port: Annotated[int, Strict(), AfterValidator(_listening_port)] = 9840


class Probe(Section):
    """`allow` lists what /probe may be pointed at; nothing by default."""

    allow: tuple[Annotated[Text, AfterValidator(Allowed.checked)], ...] = ()


class Scrape(Section):
    """`interval` is for whoever collects by itself; a Prometheus brings its own."""

    interval: Annotated[Seconds, within("100ms", "5m")] = 15.0
    """After longer pauses nothing is known of what was counted meanwhile."""
    timeout: Annotated[Seconds, within("10ms", "5m")] = 10.0


def _source_of_gpus(value: object) -> object:
    """`off` is false in YAML."""
    return "off" if value is False else value


def _gpu(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not number and not (isinstance(value, str) and value.startswith(("GPU-", "MIG-"))):
        raise ValueError("a GPU's number, or its uuid or the start of it, such as GPU-5d3f")
    return value


class Gpus(Section):
    """`auto` reads GPUs by NVML where there is a driver; `servers` says which run on which, where processes do not."""

    source: Annotated[Literal["auto", "nvml", "dcgm", "off"], BeforeValidator(_source_of_gpus)] = "auto"
    dcgm: Annotated[Text, AfterValidator(_page_url)] | None = None
    servers: Mapping[Line, tuple[Annotated[int | str, BeforeValidator(_gpu)], ...]] = Field(default={})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source == "dcgm" and self.dcgm is None:
            raise ValueError("`source: dcgm` together with `dcgm: URL`")
        if self.dcgm is not None and self.source not in ("auto", "dcgm"):
            raise ValueError("`dcgm` with `source: dcgm`, or without `source`")
        if self.source == "off" and self.servers:
            raise ValueError("`servers` with another `source` than `off`")
        return self


class Config(Root):
    known: ClassVar[frozenset[str]] = SECTIONS

    node: Line = Field(default_factory=socket.gethostname)
    listen: Listen = Listen()
    scrape: Scrape = Scrape()
    servers: tuple[Server, ...] = ()
    file_sd: tuple[TargetsFile, ...] = ()
    probe: Probe = Probe()
    gpus: Gpus = Gpus()
    model_aliases: Mapping[Text, Text] = Field(default={})

    def unusable(self) -> list[str]:
        wants_nvml = self.gpus.dcgm is None and self.gpus.source != "off"
        shadow = binding.shadow() if wants_nvml else None
        return [f"gpus: {shadow}"] if shadow else []

    @classmethod
    def across(cls, raw: Mapping[str, object]) -> list[Problem]:
        servers = raw.get("servers")
        entries = [(i, s) for i, s in enumerate(servers) if isinstance(s, dict)] if isinstance(servers, list) else []
        return [*_repeated(entries), *(p for i, s in entries for p in contradictions(f"servers[{i}]", s))]


_READ = frozenset(Config.model_fields) | {"alertmanager", "compare", "history", "prometheus", "slos", "sources"}
"""Sections that the sidecar or the monitor reads."""


def unread(config: Root) -> list[str]:
    """Sections of the file whose names are kept for later, and that nothing reads yet."""
    return sorted(set(config.foreign) - _READ)


def warn_of_unread(config: Root) -> None:
    if sections := unread(config):
        _log.warning("configuration: nothing reads these sections in this release: %s", ", ".join(sections))


def _repeated(servers: list[tuple[int, dict[str, Any]]]) -> Iterator[Problem]:
    names: dict[str, int] = {}
    pages: dict[tuple[str, str], int] = {}
    for index, server in servers:
        name, page = _name_and_page(server)
        if name is not None and names.setdefault(name, index) != index:
            path = f"servers[{index}].name"
            yield Problem(path, shown(path, name), f"allowed: a name of its own, servers[{names[name]}] has this one")
        elif page is not None and pages.setdefault(page, index) != index:
            path = f"servers[{index}].url"
            yield Problem(path, shown(path, server["url"]), f"allowed: each server once, see servers[{pages[page]}]")


def _name_and_page(server: dict[str, Any]) -> tuple[str | None, tuple[str, str] | None]:
    """As far as they are known of one that may have errors."""
    filled, is_url = _filled(server), _is_url(server.get("url"))
    name, path = filled["name"], filled.get("metrics_path")
    known = isinstance(name, str) and (is_url or "name" in server)
    page = _page(address.normalised(filled["url"]), path if isinstance(path, str) else None) if is_url else None
    return name if known else None, page


def contradictions(path: str, access: Mapping[str, Any]) -> Iterator[Problem]:
    """Within the keys that say how to get at something at `path`."""
    if "bearer_token_file" in access and "bearer_token_env" in access:
        yield Problem(f"{path}.bearer_token_env", "", "allowed: without `bearer_token_file`")
    tls = access.get("tls")
    if not isinstance(tls, dict):
        return
    if "key_file" in tls and "cert_file" not in tls:
        yield Problem(f"{path}.tls.key_file", "", "allowed: together with `cert_file`")
    if "ca_file" in tls and tls.get("insecure_skip_verify") is True:
        yield Problem(f"{path}.tls.ca_file", "", "allowed: without `insecure_skip_verify`, which takes any certificate")
    if str(access.get("url")).lower().startswith("http:"):
        yield Problem(f"{path}.tls", "", "allowed: with a `url` of https")
