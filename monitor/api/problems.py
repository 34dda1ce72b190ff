"""Errors as problem details (RFC 9457): what is wrong, and what is allowed."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Any, get_origin

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException

from monitor.api.models import Problem
from monitor.history.database import HistoryError
from monitor.history.question import InvalidParameter, QuestionError, closest

MEDIA_TYPE = "application/problem+json"


class NoSuchServer(Exception):
    def __init__(self, node: str, server: str, known: list[str], meant: str | None) -> None:
        super().__init__(f"no server {server!r} on node {node!r}")
        self.known = known
        self.meant = meant


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI description."""
    described = {"model": Problem, "content": {MEDIA_TYPE: {}}}
    return {status: {**described, "description": HTTPStatus(status).phrase} for status in statuses}


def install(app: FastAPI) -> None:
    """Makes `app` answer errors with problem details."""

    @app.exception_handler(QuestionError)
    def question(_request: Request, error: QuestionError) -> Response:
        return _problem(400, str(error), parameter=error.parameter, meant=error.meant, allowed=list(error.allowed))

    @app.exception_handler(NoSuchServer)
    def no_server(_request: Request, error: NoSuchServer) -> Response:
        return _problem(404, str(error), parameter="server", meant=error.meant, allowed=error.known)

    @app.exception_handler(HistoryError)
    def history(_request: Request, error: HistoryError) -> Response:
        return _problem(503, str(error))

    @app.exception_handler(RequestValidationError)
    def validation(request: Request, error: RequestValidationError) -> Response:
        return _invalid(request, error.errors()[0])

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        detail = error.detail if error.detail != "Not Found" else f"nothing at {request.url.path}"
        return _problem(error.status_code, detail)


async def single(request: Request) -> None:
    """Of a route: raises InvalidParameter where what has one value is given several."""
    for name, field in _parameters(request).items():
        if get_origin(field.annotation) is not list and len(request.query_params.getlist(name)) > 1:
            raise InvalidParameter(name, "given more than once", ["one value"])


def _invalid(request: Request, error: dict[str, Any]) -> Response:
    parameter = ".".join(str(part) for part in error["loc"][1:])
    known = _parameters(request)
    if error["type"] == "extra_forbidden":
        meant = closest(parameter, known)
        return _problem(400, f"{parameter}: no such parameter", parameter=parameter, meant=meant, allowed=list(known))
    found = "missing" if error["type"] == "missing" else repr(error["input"])
    allowed = _allowed(known.get(parameter.split(".")[0]))
    told = f"{parameter}: {found}: allowed: {allowed[0] if len(allowed) == 1 else ', '.join(allowed)}"
    return _problem(400, told if allowed else f"{parameter}: {error['msg']}", parameter=parameter, allowed=allowed)


def _allowed(field: FieldInfo | None) -> list[str]:
    """The values of an enumeration; of what else is declared, its description."""
    kind = None if field is None else field.annotation
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [each.value for each in kind]
    return [field.description] if field is not None and field.description else []


def _parameters(request: Request) -> dict[str, FieldInfo]:
    """Those of the route, also where they are declared as one model."""
    known: dict[str, FieldInfo] = {}
    for field in request.scope["route"].dependant.query_params:
        kind = field.field_info.annotation
        declared_as_one = isinstance(kind, type) and issubclass(kind, BaseModel)
        known |= kind.model_fields if declared_as_one else {field.alias: field.field_info}
    return known


def _problem(status: int, detail: str, **more: Any) -> Response:
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, **more)
    return Response(problem.model_dump_json(exclude_none=True), status, media_type=MEDIA_TYPE)
