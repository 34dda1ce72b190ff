"""The frameworks side by side, as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from exporters.quote import quoted
from monitor.api import problems
from monitor.api.parameters import MOMENT, moment, window
from monitor.compare.ask import Comparer
from monitor.compare.asked import BY_VERSION, Asked, By
from monitor.compare.model import Cell, Comparison, Estimate, Measure
from monitor.compare.rows import MINUTE
from monitor.compare.text import as_csv, as_markdown
from monitor.compare.words import sections
from monitor.history.question import InvalidParameter


class Form(StrEnum):
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


class CompareQuery(BaseModel):
    """The query string of /compare."""

    model_config = ConfigDict(extra="forbid")

    since: str = Field(default="7d", description=f"{MOMENT}; rounded down to the minute")
    until: str = Field(default="now", description=MOMENT)
    model: str = Field(default="", description="only this model", examples=["llama-3.1-8b"])
    by: By | None = Field(default=None, description="what is told apart beside: version or server")
    matched: bool = Field(
        default=False, description="true or false: only minutes whose mean lengths all of the compared have"
    )
    split: str = Field(
        default="",
        description=f"what was before and what after: `{BY_VERSION}` for each server's newest release, or a moment "
        "within the time",
        examples=["2026-11-01T12:00Z"],
    )
    format: Form = Field(default=Form.JSON, description="json, csv or markdown")

    def asked(self, now: float) -> Asked:
        """Raises InvalidParameter."""
        since, until = (int(at // MINUTE) * MINUTE for at in window(self.since, self.until, now))
        split = None if not self.split else self._split(since, until, now)
        if split == BY_VERSION and self.by is By.VERSION:
            raise InvalidParameter("by", "releases are what is split already", [By.SERVER])
        return Asked(since, until, self.model, self.by, self.matched, split)

    def _split(self, since: int, until: int, now: float) -> str | float:
        if self.split == BY_VERSION:
            return BY_VERSION
        found = moment("split", self.split, now, also=(BY_VERSION,))
        if not since < found < until:
            raise InvalidParameter(
                "split", f"{quoted(self.split)} is not within the time", [BY_VERSION, "a moment in it"]
            )
        return found


def query(given: Mapping[str, object]) -> CompareQuery:
    """Raises InvalidParameter."""
    try:
        return CompareQuery.model_validate(given)
    except ValidationError as error:
        raise problems.wrong(error.errors(), CompareQuery.model_fields) from error


class EstimateOut(BaseModel):
    """A number, and the interval that holds the true one in 95 of 100 cases."""

    value: float = Field(examples=[11180.5])
    low: float | None = Field(description="null: not known", examples=[11020.1])
    high: float | None = Field(description="null: not known, or beyond what was measured", examples=[11342.9])
    lower: float | None = Field(description="percentiles only: the measured one is not below", examples=[None])
    upper: float | None = Field(description="percentiles only: it is not above", examples=[None])
    at_least: bool = Field(description="the percentile may lie beyond what was measured", examples=[False])
    no_interval: str | None = Field(description="why there is no interval; null: there is one", examples=[None])


class CellOut(BaseModel):
    """One group in one band of concurrency."""

    framework: str = Field(examples=["vllm"])
    model: str = Field(examples=["llama-3.1-8b"])
    gpu: str = Field(description="type of GPU; empty: not known", examples=["NVIDIA H100 80GB HBM3"])
    role: str = Field(examples=["unified"])
    version: str = Field(description="where releases are told apart")
    server: str = Field(description="node and name, where servers are told apart")
    side: str = Field(description="before or after, where it is about a change")
    tool: str = Field(description="of an imported load test: what measured it")
    file: str = Field(description="of an imported load test")
    simulated: bool = Field(description="its servers are none")
    at_once: int = Field(description="the band, by its middle: up to √2 more or less", examples=[16])
    minutes: int = Field(description="of servers; 0 of a load test", examples=[184])
    told: bool = Field(description="false: too few minutes, so no measures")
    concurrency: float = Field(description="requests that ran or waited at a server, on average", examples=[15.7])
    measures: dict[Measure, EstimateOut] = Field(description="what is not known is not here")
    missing: dict[Measure, str] = Field(description="why it is not, where that can be said")
    prompt_tokens: float | None = Field(description="mean of a request", examples=[512])
    output_tokens: float | None = Field(description="mean of a request", examples=[256])
    abort_ratio: float | None = Field(description="share of finished requests that clients aborted", examples=[0.01])


class LeftOut(BaseModel):
    """Minutes of servers that were left out."""

    idle: int
    restarted: int = Field(description="with a restart, another release or other GPUs")
    partial: int = Field(description="not observed all through")
    unsteady: int = Field(description="at no steady concurrency, or for too short a time")
    unlike: int = Field(description="with lengths that not all have, where matched")


class DefinitionOut(BaseModel):
    """A metric that is not the same quantity for all of the compared."""

    metric: str = Field(examples=["llm_time_to_first_token_seconds"])
    said: dict[str, str] = Field(description="by frontend")


class ComparisonOut(BaseModel):
    """Cells in order of model, type of GPU, role, band and framework."""

    since: int = Field(description="unix seconds")
    until: int
    split: str = Field(description="empty: not about a change")
    matched: bool
    currency: str = Field(description="of cost_per_million_tokens")
    cells: list[CellOut]
    rankings: list[str] = Field(
        description="the best first, by tokens per second and by the P99 of the time to first token; ≈: no difference "
        "is shown, ?: not known",
        examples=[["llama on NVIDIA H100 80GB HBM3: tokens/s at about 16: sglang > vllm"]],
    )
    left_out: LeftOut
    notes: list[str] = Field(description="what to know to read it right")
    definitions: list[DefinitionOut]


def router(comparer: Comparer, clock: Callable[[], float]) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", dependencies=[Depends(problems.single)])
    texts = {form: {"schema": {"type": "string"}} for form in ("text/csv", "text/markdown")}

    @routes.get(
        "/compare",
        summary="The frameworks side by side, by how many requests ran at once",
        response_model=ComparisonOut,
        responses={200: {"content": texts}, **problems.responses(400, 503)},
    )
    def compare(query: Annotated[CompareQuery, Query()]) -> Response:
        """From minutes of servers, grouped by how many requests ran or waited. Where the intervals of two cells
        overlap no difference is shown."""
        told = comparer.compare(query.asked(clock()))
        return Response(answered(told, query.format), media_type=_MEDIA_TYPES[query.format])

    return routes


_MEDIA_TYPES = {
    Form.JSON: "application/json",
    Form.CSV: "text/csv; charset=utf-8; header=present",
    Form.MARKDOWN: "text/markdown; charset=utf-8",
}


def answered(told: Comparison, form: Form) -> str:
    if form is Form.CSV:
        return as_csv(told)
    return as_markdown(told) if form is Form.MARKDOWN else as_model(told).model_dump_json()


def as_model(told: Comparison) -> ComparisonOut:
    left = told.left
    return ComparisonOut(
        since=told.since,
        until=told.until,
        split=told.split,
        matched=told.matched,
        currency=told.currency,
        cells=[_cell(cell) for cell in told.cells],
        rankings=[f"{section.title}: {each}" for section in sections(told) for each in section.rankings()],
        left_out=LeftOut(
            idle=left.idle,
            restarted=left.restarted,
            partial=left.partial,
            unsteady=left.unsteady,
            unlike=left.unlike,
        ),
        notes=list(told.notes),
        definitions=[DefinitionOut(metric=each.metric, said=dict(each.said)) for each in told.definitions],
    )


def _cell(of: Cell) -> CellOut:
    group = of.group
    return CellOut(
        framework=group.framework,
        model=group.model,
        gpu=group.gpu,
        role=group.role,
        version=group.version,
        server=group.server,
        side=group.side,
        tool=group.tool,
        file=group.file,
        simulated=group.simulated,
        at_once=of.band.at_once,
        minutes=of.minutes,
        told=of.is_told,
        concurrency=of.concurrency,
        measures={measure: _estimate(estimate) for measure, estimate in of.measures.items()},
        missing=dict(of.missing),
        prompt_tokens=of.workload.prompt_tokens,
        output_tokens=of.workload.generation_tokens,
        abort_ratio=of.workload.abort_ratio,
    )


def _estimate(of: Estimate) -> EstimateOut:
    high, upper = (None if end is None or math.isinf(end) else end for end in (of.high, of.upper))
    at_least = math.inf in (of.high, of.upper)
    return EstimateOut(
        value=of.value,
        low=of.low,
        high=high,
        lower=of.lower,
        upper=upper,
        at_least=at_least,
        no_interval=of.no_interval or None,
    )
