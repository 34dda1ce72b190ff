"""Errors as problem details (RFC 9457): what is wrong, and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, get_args, get_origin

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException

from exporters.quote import cut, quoted
from monitor.api.models import Problem
from monitor.api.parameters import Parameters
from monitor.history.database import HistoryError
from monitor.history.question import InvalidParameter, QuestionError, closest

MEDIA_TYPE = "application/problem+json"
_UNKNOWN = "extra_forbidden"


class NoSuchServer(Exception):
    def __init__(self, node: str, server: str, known: list[str], meant: str | None) -> None:
        super().__init__(f"no server {quoted(server)} on node {quoted(node)}")
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
        return _refused(error)

    @app.exception_handler(NoSuchServer)
    def no_server(_request: Request, error: NoSuchServer) -> Response:
        return _problem(404, str(error), parameter="server", meant=error.meant, allowed=error.known)

    @app.exception_handler(HistoryError)
    def history(_request: Request, error: HistoryError) -> Response:
        return _problem(503, str(error))

    @app.exception_handler(RequestValidationError)
    def validation(request: Request, error: RequestValidationError) -> Response:
        return _invalid(request, error.errors())

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        detail = error.detail if error.detail != "Not Found" else f"nothing at {cut(request.url.path)}"
        return _problem(error.status_code, detail)


async def single(request: Request) -> None:
    """Of a route: raises InvalidParameter where what has one value is given several."""
    of_one = {name for name, field in _parameters(request).items() if get_origin(field.annotation) is not list}
    once([(name, value) for name, value in request.query_params.multi_items() if name in of_one])


def once(given: Parameters) -> dict[str, str]:
    """Raises InvalidParameter where a name has several values."""
    found: dict[str, str] = {}
    for name, value in given:
        if name in found:
            raise InvalidParameter(cut(name), "given more than once", ["one value"])
        found[name] = value
    return found


def wrong(errors: Sequence[Mapping[str, Any]], known: Mapping[str, FieldInfo]) -> InvalidParameter:
    """What pydantic says of the parameters, in words. One that is not known comes first: others may lack for it."""
    error = min(errors, key=lambda error: error["type"] != _UNKNOWN)
    parameter = ".".join(str(part) for part in error["loc"])
    if error["type"] == _UNKNOWN:
        return InvalidParameter(cut(parameter), "no such parameter", known, closest(parameter, known))
    allowed = _allowed(known.get(parameter.split(".")[0]))
    if not allowed:
        return InvalidParameter(parameter, error["msg"])
    return InvalidParameter(parameter, "missing" if error["type"] == "missing" else _shown(error["input"]), allowed)


def _shown(given: object) -> str:
    return quoted(given) if isinstance(given, str) else cut(repr(given))


def _invalid(request: Request, errors: Sequence[Mapping[str, Any]]) -> Response:
    known = _parameters(request)
    found = wrong([{**error, "loc": error["loc"][1:]} for error in errors], known)
    is_known = found.parameter.split(".")[0] in known
    return _refused(found, f": allowed: {', '.join(found.allowed)}" if is_known and found.allowed else "")


def _refused(error: QuestionError, more: str = "") -> Response:
    allowed = list(error.allowed)
    return _problem(400, f"{error}{more}", parameter=error.parameter, meant=error.meant, allowed=allowed)


def _allowed(field: FieldInfo | None) -> list[str]:
    """The values of an enumeration, which may be left out; of what else is declared, its description."""
    if field is None:
        return []
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return [each.value for each in kind]
    return [field.description] if field.description else []


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
