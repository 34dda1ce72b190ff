"""Objectives and how they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from alerts.budget import State
from alerts.slo.spec import Slo
from monitor.api import problems
from monitor.evaluate.status import Burn, Status
from monitor.evaluate.watch import Told


class BurnOut(BaseModel):
    """A burn alert. A rate of 1 spends the budget exactly within the objective's window."""

    severity: str = Field(description="page or ticket", examples=["page"])
    factor: float = Field(description="it holds above this rate", examples=[14.4])
    long_seconds: int = Field(examples=[3600])
    short_seconds: int = Field(examples=[300])
    long: float | None = Field(description="rate over the long window; null: nothing was judged", examples=[0.7])
    short: float | None = Field(description="rate over the short window", examples=[0.2])
    holds: bool


class StatusOut(BaseModel):
    """One group of one objective."""

    labels: dict[str, str] = Field(examples=[{"model": "llama", "role": "unified"}])
    state: State
    budget_left: float | None = Field(description="share of it, below 0 if overspent; null: nothing judged")
    budget_left_certain: float | None = Field(
        description="the same of what is certainly bad: interpolation between buckets touches the rest"
    )
    exhausted_in_seconds: float | None = Field(description="at the fastest rate that goes on; null: it lasts")
    good: float
    bad: float
    unknown: float = Field(description="requests that nobody can judge")
    certainly_bad: float
    minutes: float = Field(description="of the window, without excluded ones")
    minutes_outage: float = Field(description="with no server up")
    minutes_unknown: float = Field(description="of which nobody knows whether a server was up")
    minutes_excluded: float = Field(description="maintenance")
    burns: list[BurnOut]
    bounds: list[str] = Field(
        description="where a framework's own bounds do not tell the threshold: what the numbers rest on instead"
    )


class SloOut(BaseModel):
    """An objective and all its groups."""

    name: str = Field(examples=["first-token"])
    description: str
    objective: float = Field(examples=[0.95])
    window_days: int = Field(examples=[30])
    at: int | None = Field(description="unix seconds: end of the newest minute judged; null: none yet")
    groups: list[StatusOut]


class SlosQuery(BaseModel):
    """The query string of /slos."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", description="only the objective of this name")
    state: State | None = Field(default=None, description="only groups in this state")


def router(told: Callable[[], Told]) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", dependencies=[Depends(problems.single)])

    @routes.get("/slos", summary="Objectives: state, error budget and burn rates")
    def slos(query: Annotated[SlosQuery, Query()]) -> list[SloOut]:
        """In the order of their files, and groups by their labels; judged once a minute."""
        return slos_out(told(), query)

    return routes


def slos_out(told: Told, query: SlosQuery | None = None) -> list[SloOut]:
    query = query or SlosQuery()
    wanted = [slo for slo in told.slos if query.name in ("", slo.name)]
    return [_slo(slo, told, query.state) for slo in wanted]


def _slo(slo: Slo, told: Told, state: State | None) -> SloOut:
    groups = [s for s in told.statuses if s.slo == slo and state in (None, s.state)]
    return SloOut(
        name=slo.name,
        description=slo.description,
        objective=float(slo.objective),
        window_days=slo.days,
        at=told.at,
        groups=[_status(s) for s in groups],
    )


def _status(of: Status) -> StatusOut:
    counts = of.counts
    return StatusOut(
        labels=of.labels,
        state=of.state,
        budget_left=of.left,
        budget_left_certain=of.left_certain,
        exhausted_in_seconds=of.exhausted_in,
        good=counts.good,
        bad=counts.bad,
        unknown=counts.unknown,
        certainly_bad=counts.certainly_bad,
        minutes=counts.minutes,
        minutes_outage=counts.minutes_outage,
        minutes_unknown=counts.minutes_unknown,
        minutes_excluded=counts.minutes_excluded,
        burns=[_burn(burn) for burn in of.burns],
        bounds=[blur.text for blur in of.blurs],
    )


def _burn(of: Burn) -> BurnOut:
    window = of.window
    return BurnOut(
        severity=window.severity,
        factor=float(window.factor),
        long_seconds=window.long,
        short_seconds=window.short,
        long=of.long,
        short=of.short,
        holds=of.holds,
    )
