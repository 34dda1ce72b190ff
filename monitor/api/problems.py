"""Errors as problem details (RFC 9457): what is wrong, and what is allowed."""

from __future__ import annotations

from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from monitor.api.models import Problem
from monitor.history.database import HistoryError
from monitor.history.question import QuestionError

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


def _invalid(request: Request, error: dict[str, Any]) -> Response:
    parameter = ".".join(str(part) for part in error["loc"][1:])
    if error["type"] != "extra_forbidden":
        return _problem(400, f"{parameter}: {error['msg']}", parameter=parameter)
    known = _parameters(request)
    near = get_close_matches(parameter, known, 1)
    return _problem(
        400, f"{parameter}: no such parameter", parameter=parameter, meant=near[0] if near else None, allowed=known
    )


def _parameters(request: Request) -> list[str]:
    """Those of the route, also where they are declared as one model."""
    declared = [(field.alias, field.field_info.annotation) for field in request.scope["route"].dependant.query_params]
    return [
        name
        for alias, kind in declared
        for name in (kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else [alias])
    ]


def _problem(status: int, detail: str, **more: Any) -> Response:
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, **more)
    return Response(problem.model_dump_json(exclude_none=True), status, media_type=MEDIA_TYPE)
