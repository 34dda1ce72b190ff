"""HEAD for everything that answers GET: status and headers are the same, the body is left out."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class AnswersHead:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
