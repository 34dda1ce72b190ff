"""What /probe may be pointed at: nobody turns the sidecar into a way to reach other addresses.

An entry is one of

- an exact URL, `http://gateway:8000/model-a`: this URL and nothing else;
- `host:port`, with `*` for any characters except a dot in the host, or for any port: `gpu-*.example:8000`;
- a network, `10.20.0.0/16`: any port of addresses written as numbers; names are not resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from exporters import address

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._*-]+):(?P<port>[0-9]+|\*)")
_ALLOWED = "an exact URL, host:port (with * in it), or a network such as 10.20.0.0/16"


@dataclass(frozen=True, slots=True)
class Allowed:
    """One of the three is set."""

    url: str = ""
    pattern: re.Pattern[str] | None = None
    network: IPv4Network | IPv6Network | None = None

    @classmethod
    def parse(cls, entry: str) -> Allowed:
        """Raises ValueError, saying what is allowed."""
        if entry.startswith(("http://", "https://")):
            return cls(url=_exact(entry))
        if match := _HOST_AND_PORT.fullmatch(entry):
            host = re.escape(match["host"].lower()).replace(r"\*", "[^.:/]*")
            return cls(pattern=re.compile(f"{host}:{_port(match['port'])}"))
        try:
            return cls(network=ip_network(entry))
        except ValueError:
            raise ValueError(_ALLOWED) from None

    @classmethod
    def checked(cls, entry: str) -> str:
        cls.parse(entry)
        return entry

    def permits(self, url: str, host_and_port: str, path: str) -> bool:
        if self.url:
            return url.rstrip("/") == self.url
        if path not in ("", "/", "/metrics"):
            return False
        if self.pattern:
            return bool(self.pattern.fullmatch(host_and_port))
        return self.network is not None and _inside(urlsplit(url).hostname or "", self.network)


def _exact(url: str) -> str:
    address.parts(url)
    if not address.is_bare(url):
        raise ValueError("a URL without query and fragment")
    return url.rstrip("/")


def _port(text: str) -> str:
    """As a pattern."""
    if text == "*":
        return r"\d+"
    if not address.is_port(text):
        raise ValueError(address.PORTS)
    return text


def _inside(host: str, network: IPv4Network | IPv6Network) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def permitted(entries: Iterable[str], url: str, host_and_port: str) -> bool:
    """`url` is a valid http(s) URL, `host_and_port` its host and port."""
    path = urlsplit(url).path
    return any(Allowed.parse(entry).permits(url, host_and_port, path) for entry in entries)
