"""The sidecar's part of the configuration. What may be written in the file, and nothing of how servers are read."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict, ValidationInfo, model_validator

from exporters import schema, tls
from exporters.allow import Allowed
from exporters.loader import ConfigError, Count, Flag, Problem, Root, Seconds, Section, Text, load, shown
from exporters.tables import FRONTENDS

__all__ = [
    "SECTIONS", "Config", "ConfigError", "Listen", "Probe", "Scrape", "Server", "SyntheticRequest", "Tls",
    "default_path", "load",
]  # fmt: skip

SECTIONS = frozenset({
    "advise", "alertmanager", "alerts", "api", "compare", "file_sd", "gpus", "history", "listen", "model_aliases",
    "monitor", "node", "page", "probe", "prometheus", "scrape", "servers", "sidecars", "slos", "sources", "web",
})  # fmt: skip
"""Every top-level key of `inferwatch.yml`, whichever process reads it."""

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HOST = re.compile(r"\[[0-9a-fA-F:.%]+\]|[^\s/\\?#@:\[\]]+")
_RESERVED_LABELS = (
    {"le"}.union(*schema.IDENTITY.values(), *(m.labels for m in schema.METRICS.values()))
    # Only llm_field_info and gpu_server_info have it, and there their own value stands.
    - {"source"}
)


def default_path() -> Path | None:
    """`inferwatch.yml` of the working directory, if there is one."""
    path = Path("inferwatch.yml")
    return path if path.exists() else None


def _url_parts(url: str) -> SplitResult:
    """Raises ValueError unless it is an http(s) URL with a host."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or any(c <= " " for c in url):
        raise ValueError
    return parts


def _url(value: str) -> str:
    if "@" in urlsplit(value).netloc:
        raise ValueError("a URL without user and password: give `bearer_token_file` or `bearer_token_env`")
    try:
        parts = _url_parts(value)
    except ValueError:
        raise ValueError("http or https URL, such as http://localhost:8000") from None
    if parts.query or parts.fragment:
        raise ValueError("a URL without query and fragment")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def host_and_port(url: str) -> str:
    """`localhost:8000`; the scheme's own port where the URL names none. Raises ValueError where it is no URL."""
    parts = _url_parts(url)
    default = ":443" if parts.scheme == "https" else ":80"
    return parts.netloc.lower() if parts.port is not None else parts.netloc.lower() + default


def _metrics_path(value: str) -> str:
    if not re.fullmatch(r"/[^\s#]*", value):
        raise ValueError("a path that starts with /, such as /metrics")
    return value


def _frontend(value: str) -> str:
    if value not in FRONTENDS:
        near = get_close_matches(value, FRONTENDS, 1)
        raise ValueError(f"did you mean {near[0]}?" if near else " or ".join(sorted(FRONTENDS)))
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("text on one line")
    return value


def _label_name(value: str) -> str:
    if not _LABEL_NAME.fullmatch(value) or value.startswith("__"):
        raise ValueError("letters, digits and _, not starting with a digit or __")
    if value in _RESERVED_LABELS:
        raise ValueError("a name that the schema does not use itself")
    return value


def _in_folder(value: object, info: ValidationInfo) -> object:
    folder = (info.context or {}).get("folder")
    return folder / value if folder is not None and isinstance(value, str) and value else value


def _readable(path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ValueError("a file that exists and can be read")
    return path


def _environment_variable(name: str) -> str:
    if not os.environ.get(name):
        raise ValueError("the name of an environment variable that is set")
    return name


def _targets_file(path: Path) -> Path:
    if path.suffix not in (".json", ".yml", ".yaml"):
        raise ValueError("a path that ends in .json, .yml or .yaml")
    return path


ReadableFile = Annotated[Path, BeforeValidator(_in_folder), AfterValidator(_readable)]
TargetsFile = Annotated[Path, BeforeValidator(_in_folder), AfterValidator(_targets_file)]
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

    interval: Annotated[Seconds, Field(ge=1)] = 60.0
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

    url: Annotated[Text, AfterValidator(_url)]
    name: Line
    frontend: Annotated[Text, AfterValidator(_frontend)] | None = None
    metrics_path: Annotated[Text, AfterValidator(_metrics_path)] | None = None
    role: Literal["unified", "prefill", "decode"] | None = None
    model: Line | None = None
    entry_model: Line | None = None
    engine_model: Line | None = None
    labels: Labels = Field(default={})
    timeout: Seconds | None = None
    bearer_token_file: ReadableFile | None = Field(default=None, repr=False)
    bearer_token_env: Annotated[Text, AfterValidator(_environment_variable)] | None = Field(default=None, repr=False)
    tls: Tls | None = None
    synthetic_request: SyntheticRequest | None = None
    max_body_bytes: Count = 16 * 2**20
    max_samples: Count = 50_000
    max_models: Count = 20

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        """The default name, and the path of a URL that points at the metrics page itself."""
        return _filled(values) if isinstance(values, dict) and isinstance(values.get("url"), str) else values


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    url = values["url"]
    try:
        parts, name = _url_parts(url), host_and_port(url)
    except ValueError:
        # The URL's own validator tells what is wrong with it.
        return {"name": "?", **values}
    found = {"name": name, **values}
    if parts.path.endswith("/metrics") and "metrics_path" not in values:
        return {**found, "url": url.removesuffix(parts.path), "metrics_path": parts.path}
    return found


class Listen(Section):
    host: Line = "127.0.0.1"
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 9840


class Probe(Section):
    """`allow` lists what /probe may be pointed at; nothing by default."""

    allow: tuple[Annotated[Text, AfterValidator(Allowed.checked)], ...] = ()


class Scrape(Section):
    """`interval` is for whoever collects by itself; a Prometheus brings its own."""

    interval: Seconds = 15.0
    timeout: Seconds = 10.0


class Config(Root):
    known: ClassVar[frozenset[str]] = SECTIONS

    node: Line = Field(default_factory=socket.gethostname)
    listen: Listen = Listen()
    scrape: Scrape = Scrape()
    servers: tuple[Server, ...] = ()
    file_sd: tuple[TargetsFile, ...] = ()
    probe: Probe = Probe()
    model_aliases: Mapping[Text, Text] = Field(default={})

    @classmethod
    def across(cls, raw: Mapping[str, object]) -> list[Problem]:
        servers = raw.get("servers")
        entries = [(i, s) for i, s in enumerate(servers) if isinstance(s, dict)] if isinstance(servers, list) else []
        return [*_repeated(entries), *(p for i, s in entries for p in _contradictions(f"servers[{i}]", s))]


def _repeated(servers: list[tuple[int, dict[str, Any]]]) -> Iterator[Problem]:
    names: dict[str, int] = {}
    pages: dict[tuple[str, str], int] = {}
    for index, server in servers:
        if not isinstance(server.get("url"), str):
            continue
        filled = _filled(server)
        name, page = filled["name"], (filled["url"].rstrip("/"), str(filled.get("metrics_path")))
        if name != "?" and isinstance(name, str) and names.setdefault(name, index) != index:
            path = f"servers[{index}].name"
            yield Problem(path, shown(path, name), f"allowed: a name of its own, servers[{names[name]}] has this one")
        elif pages.setdefault(page, index) != index:
            path = f"servers[{index}].url"
            yield Problem(path, shown(path, server["url"]), f"allowed: each server once, see servers[{pages[page]}]")


def _contradictions(path: str, server: dict[str, Any]) -> Iterator[Problem]:
    if "bearer_token_file" in server and "bearer_token_env" in server:
        yield Problem(f"{path}.bearer_token_env", "", "allowed: without `bearer_token_file`")
    tls = server.get("tls")
    if isinstance(tls, dict) and ("key_file" in tls) and "cert_file" not in tls:
        yield Problem(f"{path}.tls.key_file", "", "allowed: together with `cert_file`")
