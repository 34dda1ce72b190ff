"""What the subjects of `check` stand for: servers of the configuration, servers at other URLs, saved pages."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from exporters.address import masked
from exporters.config import Config, Server, default_path, host_and_port, load
from exporters.file_sd import TargetFiles
from inferwatch.console import MISUSED, CommandError
from inferwatch.misuse import problems_end
from inferwatch.saved import STDIN

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]*):(?P<port>\d+)(?P<path>/\S*)?")


def config_path(given: Path | None, subjects: Sequence[str]) -> Path | None:
    """The file to use: saved pages need none, so for them alone none is looked for."""
    return given if given is not None or all(map(_is_page, subjects)) else default_path()


def url_of(subject: str) -> str | None:
    """None where the subject is a file. `localhost:8000` and `:8000` are URLs too, unless there is such a file."""
    if "://" in subject:
        return subject
    match = _HOST_AND_PORT.fullmatch(subject)
    if match is None or _is_page(subject):
        return None
    return f"http://{match['host'] or 'localhost'}:{match['port']}{match['path'] or ''}"


class Known:
    """Knows the configured servers, and with which credentials any server is asked."""

    def __init__(self, path: Path | None, token_file: Path | None) -> None:
        """Raises CommandError. The token of `token_file` is for every server, whatever is configured."""
        self.config = _loaded(path)
        self._servers = (*self.config.servers, *_from_files(self.config.file_sd))
        self._token_file = None if token_file is None else _token_file(token_file)

    def server(self, subject: str) -> Server | None:
        """None where it is a saved page. Raises CommandError."""
        found = self._named(subject) or self._at(subject)
        if found is None:
            return None
        changes: dict[str, object] = {"synthetic_request": None}
        if self._token_file is not None:
            changes |= {"bearer_token_file": self._token_file, "bearer_token_env": None}
        return found.model_copy(update=changes)

    def _named(self, subject: str) -> Server | None:
        return None if _is_page(subject) else next((s for s in self._servers if s.name == subject), None)

    def _at(self, subject: str) -> Server | None:
        url = url_of(subject)
        if url is None:
            self._refuse_unknown_name(subject)
            return None
        asked = _checked(subject, url)
        here = [s for s in self._servers if _is_same(s, asked, any_scheme="://" not in subject)]
        exact = next((s for s in here if s.metrics_path == asked.metrics_path), None)
        if exact is not None or not here:
            return exact or asked
        path = asked.metrics_path
        return here[0] if path is None else here[0].model_copy(update={"metrics_path": path})

    def _refuse_unknown_name(self, subject: str) -> None:
        if self._servers and not _is_page(subject) and "/" not in subject:
            names = ", ".join(s.name for s in self._servers)
            raise CommandError(f"{subject}: no such file, and no server of this name: {names}", status=MISUSED)


def _is_page(subject: str) -> bool:
    path = Path(subject)
    return subject == STDIN or ("://" not in subject and path.exists() and not path.is_dir())


def _is_same(server: Server, asked: Server, *, any_scheme: bool) -> bool:
    """A bare host and port tells no scheme."""
    mine, theirs = urlsplit(server.url), urlsplit(asked.url)
    at_same_place = host_and_port(server.url) == host_and_port(asked.url) and mine.path == theirs.path
    return at_same_place and (any_scheme or mine.scheme == theirs.scheme)


def _checked(subject: str, url: str) -> Server:
    try:
        return Server.model_validate({"url": url})
    except ValidationError as error:
        allowed = error.errors()[0].get("ctx", {}).get("error", error.errors()[0]["msg"])
        raise CommandError(f"{masked(subject)}: allowed: {allowed}", status=MISUSED) from error


def _loaded(path: Path | None) -> Config:
    with problems_end():
        return load(path, Config)


def _from_files(patterns: Sequence[Path]) -> Sequence[Server]:
    files = TargetFiles(patterns)
    files.refresh()
    if files.problems:
        raise CommandError(*files.problems, status=MISUSED)
    return files.servers


def _token_file(path: Path) -> Path:
    """It is read for each request, so it cannot be a pipe."""
    if not path.is_file() or not os.access(path, os.R_OK):
        allowed = "allowed: a file that exists and can be read"
        raise CommandError(f"--bearer-token-file: {str(path)!r}: {allowed}", status=MISUSED)
    return path
