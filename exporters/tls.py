"""TLS contexts, one for each setting: making one reads every root certificate."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path


def context(
    ca_file: Path | None = None, cert_file: Path | None = None, key_file: Path | None = None, insecure: bool = False
) -> ssl.SSLContext:
    """The same one until a file changes. Raises OSError where a file is not what it should be."""
    changed = tuple(f.stat().st_mtime_ns for f in (ca_file, cert_file, key_file) if f is not None)
    return _made(ca_file, cert_file, key_file, insecure, changed)


@lru_cache(maxsize=64)
def _made(
    ca_file: Path | None, cert_file: Path | None, key_file: Path | None, insecure: bool, _changed: tuple[int, ...]
) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=ca_file)
    if cert_file is not None:
        made.load_cert_chain(cert_file, key_file)
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


@lru_cache(maxsize=1)
def unused() -> ssl.SSLContext:
    """For clients that only speak http: trusts nobody, and costs nothing to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
