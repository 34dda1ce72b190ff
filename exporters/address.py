"""URLs of servers: which are good, when two are the same, and how one may be shown."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

PORTS = "a port of 1 to 65535"
_ALLOWED = "http or https URL, such as http://localhost:8000"
_PLACE = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s/\\?#@:\[\]]+)(:(?P<port>[0-9]+))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT_DIGITS = 5

# Up to the last @: passwords hold any character.
_USER_INFO = re.compile(r"(?<=//).*@|^[^/\s]*:(?!//).*@", re.DOTALL)
_QUERY = re.compile(r"[?#](?=.)", re.DOTALL)
_NOT_SHOWN = "(not shown)"


def parts(url: str) -> SplitResult:
    """Raises ValueError, saying what is allowed, unless it is an http(s) URL with a host and without a user."""
    try:
        found = urlsplit(url)
    except ValueError:
        raise ValueError(_ALLOWED) from None
    place = _PLACE.fullmatch(found.netloc)
    if place is None or found.scheme not in _DEFAULT_PORTS or any(c <= " " for c in url):
        raise ValueError(_ALLOWED)
    if place["port"] is not None and not is_port(place["port"]):
        raise ValueError(PORTS)
    return found


def is_port(digits: str) -> bool:
    return len(digits.lstrip("0")) <= _MAX_PORT_DIGITS and 1 <= int(digits) <= 65535


def normalised(url: str) -> str:
    """The same text for the same address. A name and its number stay two. Raises ValueError as `parts` does."""
    found = parts(url)
    host, port = _host(found), found.port
    place = host if port in (None, _DEFAULT_PORTS[found.scheme]) else f"{host}:{port}"
    return f"{found.scheme}://{place}{found.path.rstrip('/')}"


def host_and_port(url: str) -> str:
    """`localhost:8000`; the scheme's own port where the URL names none. Raises ValueError as `parts` does."""
    found = parts(url)
    return f"{_host(found)}:{found.port or _DEFAULT_PORTS[found.scheme]}"


def _host(found: SplitResult) -> str:
    host = found.netloc if found.port is None else found.netloc.rpartition(":")[0]
    return host.lower()


def is_bare(url: str) -> bool:
    """Whether a good URL has neither query nor fragment, not even an empty one."""
    return not {"?", "#"} & set(url)


def masked(text: str) -> str:
    """Whatever may be a URL, without user, password, query and fragment."""
    return without_query(_USER_INFO.sub(f"{_NOT_SHOWN}@", text))


def without_query(text: str) -> str:
    """A `?` or `#` in what is no URL, such as the name `gpu#1`, stays."""
    start = _QUERY.search(text)
    if start is None:
        return text
    is_query = {"/", ":"} & set(text[: start.start()]) or "=" in text[start.end() :]
    return text[: start.end()] + _NOT_SHOWN if is_query else text
