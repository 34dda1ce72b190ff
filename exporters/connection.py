"""How one server is asked: its client, its token, its limits."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from exporters import tls
from exporters.config import Server, Tls, is_token
from exporters.fetch import JSON_TYPE, METRICS_TYPE, Body, Failure, Transport, fetch, transport
from exporters.paths import url_of
from exporters.table import Document, Form

_MAX_SIDE_BYTES = 2**20
_MAX_RECORDS_BYTES = 2**23
_RECORDS_SECONDS = 60.0
"""In the background. An idle server takes 2 s, a busy one may take longer; records given up on are lost."""


class Credentials(Protocol):
    """Where the configuration says that a token is, if there is one."""

    @property
    def bearer_token_file(self) -> Path | None: ...
    @property
    def bearer_token_env(self) -> str | None: ...


class Access(Credentials, Protocol):
    """What is needed of the configuration of whatever is asked."""

    @property
    def url(self) -> str: ...
    @property
    def tls(self) -> Tls | None: ...


class Connection:
    """`timeout` is for side documents; whoever asks for metrics or health brings a deadline."""

    def __init__(self, server: Server, timeout: float, transport: Transport = transport) -> None:
        self.tls = tls_context(server)
        self.client = transport(self.tls)
        self._server = server
        self._timeout = timeout

    async def metrics(self, url: str, deadline: float) -> Body | Failure:
        return await self._get(url, deadline, METRICS_TYPE, self._server.max_body_bytes)

    async def read(self, document: Document, deadline: float) -> Body | Failure:
        accept = JSON_TYPE if document.form is Form.JSON else "*/*"
        most = _MAX_RECORDS_BYTES if document.destructive else _MAX_SIDE_BYTES
        return await self._get(url_of(self._server.url, document.path), deadline, accept, most)

    async def read_aside(self, document: Document) -> Body | Failure:
        """In the background, in a time that is the document's own."""
        seconds = _RECORDS_SECONDS if document.destructive else max(self._timeout, document.within)
        return await self.read(document, asyncio.get_running_loop().time() + seconds)

    async def aclose(self) -> None:
        await self.client.aclose()

    async def _get(self, url: str, deadline: float, accept: str, max_bytes: int) -> Body | Failure:
        token = bearer_token(self._server)
        got = await fetch(
            self.client, url, deadline=deadline, max_bytes=max_bytes, accept=accept, bearer_token=token or ""
        )
        if token is None and isinstance(got, Failure) and got.reason == "unauthorized":
            return replace(got, reason="credentials_unreadable")
        return got


def bearer_token(access: Credentials) -> str | None:
    """Read anew for each request, so that a token may be replaced. None where it cannot be read or is no token."""
    token = ""
    if access.bearer_token_env is not None:
        token = os.environ.get(access.bearer_token_env, "")
    elif access.bearer_token_file is not None:
        try:
            token = access.bearer_token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
    else:
        return ""
    return token if is_token(token) else None


def tls_context(access: Access) -> ssl.SSLContext:
    if access.url.startswith("http://"):
        return tls.unused()
    return access.tls.context() if access.tls else tls.context()
