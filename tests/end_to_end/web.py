"""Asking over HTTP, as any other program would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def get(url: str, **query: str) -> Answer:
    """Raises OSError where nothing answers."""
    try:
        with urlopen(f"{url}?{urlencode(query)}" if query else url, timeout=60) as response:
            return Answer(response.status, _lower(response.headers), response.read().decode())
    except HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers), error.read().decode())


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
