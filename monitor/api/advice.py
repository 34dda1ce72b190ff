"""Advice as the API tells it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from exporters.quote import quoted
from monitor.advise import said
from monitor.advise.adviser import CAPACITY, Adviser, Told
from monitor.advise.capacity import Capacity
from monitor.advise.findings import RULES
from monitor.advise.framework import Basis, Choice
from monitor.advise.model import Change, Confidence, Evidence, Finding, Missing, Target
from monitor.api import problems
from monitor.api.parameters import MOMENT, window
from monitor.history.question import InvalidParameter, QuestionError

_TITLES = {rule.name: rule.title for rule in RULES} | {CAPACITY: "How many more requests"}


class AdviceQuery(BaseModel):
    """The query string of /advice."""

    model_config = ConfigDict(extra="forbid")

    since: str = Field(default="24h", description=MOMENT)
    until: str = Field(default="now", description=MOMENT)
    server: str = Field(default="", description="only of this server: node/name, or the name alone")


class TargetOut(BaseModel):
    """A server, a GPU, or all servers of a model; what does not apply or is not known is empty."""

    name: str = Field(examples=["gpu-1/llama"])
    node: str
    server: str
    framework: str
    model: str
    version: str
    gpu: str


class EvidenceOut(BaseModel):
    what: str = Field(examples=["preemptions per finished request"])
    value: float
    unit: str = Field(examples=["ratio"])
    said: str = Field(description="the number with its unit, for people", examples=["15 %"])
    metric: str
    since: int = Field(description="unix seconds")
    until: int
    page: str = Field(description="where the page shows it, step by step")
    question: str = Field(description="where the API tells it")


class ChangeOut(BaseModel):
    """The setting to change."""

    flags: list[str] = Field(description="of this framework and release; several where the release is not known")
    text: str = Field(examples=["raise `--gpu-memory-utilization` (the default is 0.9)"])
    current: str | None


class AdviceFindingOut(BaseModel):
    name: str = Field(examples=["kv_cache_short"])
    title: str
    target: TargetOut
    text: str
    confidence: Confidence
    why: str = Field(description="the reason of the confidence")
    held_seconds: float = Field(description="for how long of the window")
    change: ChangeOut | None = Field(description="null: no flag of the server helps")
    instead: str = Field(description="what to do where there is no flag, or besides")
    evidence: list[EvidenceOut]


class MissingOut(BaseModel):
    """What could not be judged."""

    name: str
    title: str
    needs: str
    targets: list[str]


class SentenceOut(BaseModel):
    text: str
    basis: Basis = Field(description="what it rests on; a reference estimate is an article's opinion, no measurement")


class ChoiceOut(BaseModel):
    """Which framework for one model."""

    model: str
    framework: str | None = Field(description="null: nothing speaks for one more than for another")
    basis: Basis
    sentences: list[SentenceOut]


class CurvePointOut(BaseModel):
    requests_per_second: float
    slow_ratio: float
    requests: float


class CapacityOut(BaseModel):
    """How many requests a second an objective allows."""

    slo: str
    labels: dict[str, str]
    text: str
    now: float = Field(description="requests/s of the last hour")
    seen: float = Field(description="requests/s of the last point of the curve")
    limit: float | None = Field(
        description="requests/s; null: the threshold was never approached, it is at least `seen`"
    )
    low: float = Field(description="95 % interval")
    high: float | None
    extrapolated: bool
    budget: float
    curve: list[CurvePointOut]


class AdviceOut(BaseModel):
    since: int = Field(description="unix seconds")
    until: int
    servers: list[str] = Field(description="node/name of those that were observed")
    simulated: list[str] = Field(description="those of them that are simulated")
    findings: list[AdviceFindingOut] = Field(description="in the order in which to look at them")
    missing: list[MissingOut]
    frameworks: list[ChoiceOut]
    not_compared: str | None = Field(description="why frameworks were not compared")
    capacity: list[CapacityOut]


def router(adviser: Adviser, clock: Callable[[], float]) -> APIRouter:
    """`clock` tells unix seconds."""
    routes = APIRouter(prefix="/api/v1", dependencies=[Depends(problems.single)])

    @routes.get("/advice", summary="What to change, with the evidence", responses=problems.responses(400, 503))
    def advice(query: Annotated[AdviceQuery, Query()]) -> AdviceOut:
        """Findings, what could not be judged and why, which framework for each model, and how many more requests a
        second its objectives allow. A fleet that is well has no findings."""
        return advice_out(asked(adviser, query, clock()))

    return routes


def asked(adviser: Adviser, query: AdviceQuery, now: float) -> Told:
    """Raises QuestionError and ReadError."""
    since, until = window(query.since, query.until, now)
    try:
        return adviser.advise(since, until, query.server, now)
    except QuestionError as error:
        if error.parameter in AdviceQuery.model_fields:
            raise
        told = f"{quoted(query.since)} is too long before `until`: it makes too many points, even by the day"
        raise InvalidParameter("since", told, ["a later moment"]) from error


def advice_out(told: Told) -> AdviceOut:
    advice = told.advice
    return AdviceOut(
        since=advice.since,
        until=advice.until,
        servers=list(told.servers),
        simulated=list(told.simulated),
        findings=[_finding(each) for each in advice.findings],
        missing=[_missing(each) for each in advice.missing],
        frameworks=[_choice(each) for each in told.choices],
        not_compared=told.compared or None,
        capacity=[_capacity(each) for each in told.capacities],
    )


def _finding(of: Finding) -> AdviceFindingOut:
    return AdviceFindingOut(
        name=of.name,
        title=_TITLES[of.name],
        target=_target(of.target),
        text=of.text,
        confidence=of.confidence,
        why=of.why,
        held_seconds=of.seconds,
        change=None if of.change is None else _change(of.change),
        instead=of.instead,
        evidence=[_evidence(each) for each in of.evidence],
    )


def _change(of: Change) -> ChangeOut:
    return ChangeOut(flags=[flag.name for flag in of.flags], text=of.text, current=of.current or None)


def _target(of: Target) -> TargetOut:
    return TargetOut(
        name=of.name,
        node=of.node,
        server=of.server,
        framework=of.framework,
        model=of.model,
        version=of.version,
        gpu=of.gpu,
    )


def _evidence(of: Evidence) -> EvidenceOut:
    return EvidenceOut(
        what=of.what,
        value=of.value,
        unit=of.unit,
        said=said.number(of),
        metric=of.asked.metric,
        since=of.since,
        until=of.until,
        page=f"/history?{of.query}",
        question=f"/api/v1/history?{of.query}",
    )


def _missing(of: Missing) -> MissingOut:
    return MissingOut(
        name=of.name, title=_TITLES[of.name], needs=of.needs, targets=[target.name for target in of.targets]
    )


def _choice(of: Choice) -> ChoiceOut:
    return ChoiceOut(
        model=of.traits.model,
        framework=of.first or None,
        basis=of.basis,
        sentences=[SentenceOut(text=each.text, basis=each.basis) for each in of.sentences],
    )


def _capacity(of: Capacity) -> CapacityOut:
    limits = of.limits
    return CapacityOut(
        slo=of.slo,
        labels=dict(of.labels),
        text=said.capacity(of),
        now=of.now,
        seen=limits.seen,
        limit=_finite(limits.value),
        low=limits.low if math.isfinite(limits.low) else limits.seen,
        high=_finite(limits.high),
        extrapolated=limits.extrapolated,
        budget=of.budget,
        curve=[CurvePointOut(requests_per_second=p.rate, slow_ratio=p.share, requests=p.requests) for p in of.curve],
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
