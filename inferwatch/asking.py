"""One question to a Prometheus that a command was given the URL of."""

from __future__ import annotations

from pydantic import ValidationError

from inferwatch.console import MISUSED, CommandError


async def ask(url: str, expression: str) -> list[dict[str, str]]:
    """Labels of the series of the answer."""
    from monitor.config import PrometheusSection
    from monitor.sources import SourceError
    from monitor.sources.prometheus.client import Client

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
