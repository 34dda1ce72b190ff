"""What a file or an option says that is not allowed ends the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from exporters.loader import ConfigError
from inferwatch.console import MISUSED, CommandError


@contextmanager
def problems_end() -> Iterator[None]:
    """Raises CommandError with the problems of a ConfigError."""
    try:
        yield
    except ConfigError as error:
        raise CommandError(*error.problems, status=MISUSED) from error
