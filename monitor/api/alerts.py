"""The history of alerts, and the webhook by which Alertmanager tells of them."""

from __future__ import annotations

from collections.abc import Callable
from secrets import compare_digest
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from exporters.connection import Credentials, bearer_token
from exporters.quote import cut, quoted
from monitor.alert_history.alert import DELIVERED_WITHIN_SECONDS, Alert, State
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.notification import InvalidNotification, parse
from monitor.alert_history.store import Wanted
from monitor.api import problems
from monitor.api.parameters import MOMENT, window
from monitor.history.question import InvalidParameter, closest
from monitor.history.storable import storable

MAX_BYTES = 4 * 2**20
"""Some thousands of alerts."""
_STATES = tuple(state.value for state in State)
_MINUTES = round(DELIVERED_WITHIN_SECONDS / 60)
_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"type": "object", "description": "Alertmanager's webhook, version 4"}}},
}


class AlertsQuery(BaseModel):
    """The query string of /alerts."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", description="only alerts of this name", examples=["TimeToFirstTokenBurn"])
    severity: str = Field(default="", description="only with this label `severity`", examples=["page"])
    server: str = Field(default="", description="only with this label `server`", examples=["gpu-1:8000"])
    state: str = Field(default="", description=f"only {', '.join(_STATES)}", examples=["firing"])
    delivered: bool | None = Field(
        default=None, description=f"true or false: false are those that fired {_MINUTES} minutes without being told of"
    )
    since: str = Field(default="7d", description=f"that fired at or after: {MOMENT}")
    until: str = Field(default="now", description=f"that began before: {MOMENT}")
    limit: int = Field(default=100, ge=1, le=10_000, description="1 to 10000: the newest so many")

    def wanted(self, now: float) -> Wanted:
        """Raises InvalidParameter."""
        if self.state and self.state not in _STATES:
            raise InvalidParameter("state", f"{quoted(self.state)} is no state", _STATES, closest(self.state, _STATES))
        since, until = window(self.since, self.until, now)
        return Wanted(
            limit=self.limit,
            now=now,
            name=storable(self.name) or None,
            severity=storable(self.severity) or None,
            server=storable(self.server) or None,
            state=State(self.state) if self.state else None,
            delivered=self.delivered,
            since=since,
            until=until,
        )


class ReceiverOut(BaseModel):
    """A receiver of Alertmanager's that was told of the alert."""

    name: str = Field(examples=["oncall"])
    delivered_at: float = Field(description="unix seconds", examples=[1764495660.5])
    resolved_at: float | None = Field(description="when it was told of the end", examples=[1764496200.1])


class AlertOut(BaseModel):
    """One firing of one alert."""

    fingerprint: str = Field(description="Alertmanager's name of it", examples=["aa1949bc6b1eb814"])
    name: str = Field(examples=["TimeToFirstTokenBurn"])
    severity: str | None = Field(examples=["page"])
    server: str | None = Field(examples=["gpu-1:8000"])
    state: State = Field(description="unknown: it fired when Prometheus was last heard")
    starts_at: float = Field(description="unix seconds", examples=[1764495600.123])
    ends_at: float | None = Field(description="the first moment at which it was known to be over")
    last_seen: float | None = Field(description="of Prometheus' newest sample; null: only Alertmanager told of it")
    delivered: bool | None = Field(
        description=f"false: fired for {_MINUTES} minutes without being told of; null: not known"
    )
    receivers: list[ReceiverOut]
    labels: dict[str, str]
    annotations: dict[str, str]
    generator_url: str | None


class TakenOut(BaseModel):
    """What became of a notification."""

    stored: int = Field(description="alerts", examples=[2])
    left_out: int = Field(description="by Alertmanager, for its `max_alerts`", examples=[0])


def router(alerts: AlertHistory, clock: Callable[[], float]) -> APIRouter:
    """`clock` tells unix seconds."""
    routes = APIRouter(dependencies=[Depends(problems.single)])

    @routes.get("/api/v1/alerts", summary="Alerts that fire or fired", responses=problems.responses(400, 503))
    def history(query: Annotated[AlertsQuery, Query()]) -> list[AlertOut]:
        """The newest first: as Prometheus saw them, with what Alertmanager told of them. One that fired and was never
        delivered is worth a look."""
        now, was_told = clock(), alerts.was_told()
        if query.delivered is False and not was_told:
            return []
        return [_out(alert, now, was_told) for alert in alerts.find(query.wanted(now))]

    @routes.post(
        "/alertmanager",
        summary="Alertmanager's webhook",
        responses=problems.responses(400, 401, 413, 415, 503),
        openapi_extra={"requestBody": _BODY},
    )
    async def webhook(request: Request) -> TakenOut:
        """Answers once the alerts are stored; until then Alertmanager tries again. Telling twice changes nothing."""
        _check(request, alerts.access)
        try:
            notification = parse(await _body(request))
        except InvalidNotification as error:
            raise HTTPException(400, str(error)) from error
        await alerts.take(notification)
        return TakenOut(stored=len(notification.alerts), left_out=notification.truncated_alerts)

    return routes


def _check(request: Request, access: Credentials) -> None:
    expected = bearer_token(access)
    if expected is None:
        raise HTTPException(503, "could not read the token of `alertmanager`: see its file or variable")
    given = request.headers.get("authorization", "")
    if expected and not compare_digest(given.encode(), f"Bearer {expected}".encode()):
        told = "the token that `alertmanager` in the configuration names, as `Authorization: Bearer TOKEN`"
        raise HTTPException(401, f"authorization: {'another' if given else 'missing'}: allowed: {told}")
    # Other sites' pages can make a browser here send anything else without asking first.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"content-type: {cut(kind) or 'missing'}: allowed: application/json")


async def _body(request: Request) -> bytes:
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BYTES:
            told = "set `max_alerts` in Alertmanager's webhook configuration"
            raise HTTPException(413, f"the body: more than {MAX_BYTES} bytes: {told}")
    return bytes(found)


def _out(alert: Alert, now: float, was_told: bool) -> AlertOut:
    shown: dict[str, Any] = {
        "receivers": [
            ReceiverOut(name=name, delivered_at=told.delivered_at, resolved_at=told.resolved_at)
            for name, told in sorted(alert.deliveries.items())
        ],
        "labels": dict(sorted(alert.labels.items())),
        "annotations": dict(sorted(alert.annotations.items())),
    }
    return AlertOut(
        fingerprint=alert.fingerprint,
        name=alert.name,
        severity=alert.labels.get("severity"),
        server=alert.labels.get("server"),
        state=alert.state(now),
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        last_seen=alert.last_seen,
        delivered=alert.was_delivered(now) if was_told else None,
        generator_url=alert.generator_url,
        **shown,
    )
