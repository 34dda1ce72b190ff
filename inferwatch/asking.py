"""One question to a Prometheus that a command was given the URL of."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from exporters.terminal import LogFormat
from inferwatch.console import MISUSED, CommandError


async def ask(url: str, expression: str) -> list[dict[str, str]]:
    """Labels of the series of the answer."""
    from monitor.config import PrometheusSection
    from monitor.sources import SourceError
    from monitor.sources.prometheus import reach
    from monitor.sources.prometheus.client import Client

    _log_all_but(reach.__name__)
    try:
        config = PrometheusSection(url=url)
    except ValidationError as error:
        raise CommandError(f"--prometheus: {url}: allowed: the URL of a Prometheus", status=MISUSED) from error
    client = Client(config)
    try:
        return [dict(series.labels) for series in await client.query(expression)]
    except SourceError as error:
        raise CommandError(str(error)) from error
    finally:
        await client.aclose()


def _log_all_but(name: str) -> None:
    """Warnings of Prometheus; that it cannot be reached is what the command ends with."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormat())
    handler.addFilter(lambda record: record.name != name)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
