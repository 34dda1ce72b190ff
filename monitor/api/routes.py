"""The routes of the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from monitor.api import problems
from monitor.api.events import EventsQuery, event_out
from monitor.api.gpus import all_gpus
from monitor.api.history import answered
from monitor.api.models import EventOut, GpusOut, HistoryOut, ServerDetail
from monitor.api.parameters import Format, HistoryQuery
from monitor.api.servers import detail
from monitor.fleet import Fleet, ServerRow
from monitor.history.ask import History
from monitor.history.life import Wanted
from monitor.history.question import closest

_EVENTS_SHOWN = 50
Node = Annotated[str, Path(description="the node that the server is listed with, by /api/v1/servers")]
Server = Annotated[str, Path(description="its name there, such as gpu-1:8000; it may hold slashes")]


def router(fleet: Fleet, history: History, clock: Callable[[], float]) -> APIRouter:
    """`clock` tells unix seconds."""
    routes = APIRouter(prefix="/api/v1", dependencies=[Depends(problems.single)])
    _add_servers(routes, fleet, history, clock)
    _add_gpus(routes, fleet, history, clock)
    _add_events(routes, history, clock)
    _add_history(routes, history, clock)
    return routes


def _add_servers(routes: APIRouter, fleet: Fleet, history: History, clock: Callable[[], float]) -> None:
    @routes.get("/servers", summary="All servers as they are now")
    def all_servers() -> list[ServerRow]:
        """One row for each server, sorted by node and name; also those that are down."""
        return fleet.rows(clock())

    @routes.get("/servers/{node}/{server:path}", summary="One server in full", responses=problems.responses(404, 503))
    def one_server(node: Node, server: Server) -> ServerDetail:
        """Every value of the last reading, every field of the schema with its quality, findings, first and last sight,
        and what changed."""
        row, observation = fleet.row(node, server, clock()), fleet.latest(node, server)
        if row is None or observation is None:
            raise _no_such(node, server, fleet.rows(clock()))
        events = history.events(Wanted(_EVENTS_SHOWN, node, server))
        return detail(row, observation, history.seen_server(node, server), events)


def _add_gpus(routes: APIRouter, fleet: Fleet, history: History, clock: Callable[[], float]) -> None:
    @routes.get("/gpus", summary="All GPUs as they are now")
    def gpus() -> GpusOut:
        """One row for each GPU and MIG instance, sorted by node and number; also those that are lost. Of a host where
        none can be read the findings say why."""
        return all_gpus(fleet.gpus, history, clock())


def _add_events(routes: APIRouter, history: History, clock: Callable[[], float]) -> None:
    @routes.get("/events", summary="What changed at servers and GPUs", responses=problems.responses(400, 503))
    def events(query: Annotated[EventsQuery, Query()]) -> list[EventOut]:
        """The newest first, each once, however long it lasts: annotations for a chart. A server is restarted, or has
        another version, model, state, flag or other GPUs; a GPU does not answer or does again, or has another
        driver."""
        return [event_out(event) for event in history.events(query.wanted(clock()))]


def _no_such(node: str, server: str, rows: Sequence[ServerRow]) -> problems.NoSuchServer:
    """The name is compared alone where the node is right: a long node would make all its servers look alike."""
    known = [f"{r.node}/{r.server}" for r in rows]
    on_node = {r.server: f"{r.node}/{r.server}" for r in rows if r.node == node}
    meant = closest(server, on_node)
    return problems.NoSuchServer(
        node, server, known, on_node[meant] if meant else None if on_node else closest(f"{node}/{server}", known)
    )


_CSV = {"content": {"text/csv": {"schema": {"type": "string"}}}}
_MEDIA_TYPES = {Format.JSON: "application/json", Format.CSV: "text/csv; charset=utf-8; header=present"}


def _add_history(routes: APIRouter, history: History, clock: Callable[[], float]) -> None:
    @routes.get(
        "/history",
        summary="Any metric over any past window",
        response_model=HistoryOut,
        responses={200: _CSV, **problems.responses(400, 503)},
    )
    def ask(query: Annotated[HistoryQuery, Query()]) -> Response:
        """Windows without observations have no point. Quantiles come from merged histograms, with the bounds between
        which the true one lies. Ratios are never summed."""
        asked = query.question(clock())
        return Response(answered(asked, history.tell(asked), query.format), media_type=_MEDIA_TYPES[query.format])
