"""What changed at servers and GPUs, as the API tells it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from exporters.quote import quoted
from monitor.api.models import EventOut
from monitor.api.parameters import MOMENT, window
from monitor.history.life import EVENT_KINDS, Wanted
from monitor.history.minutes import Event
from monitor.history.question import InvalidParameter, closest
from monitor.history.storable import storable
from monitor.remarks import in_words


class EventsQuery(BaseModel):
    """The query string of /events."""

    model_config = ConfigDict(extra="forbid")

    node: str = Field(default="", description="only what is on this node", examples=["gpu-1"])
    server: str = Field(default="", description="only this server, as its node names it", examples=["gpu-1:8000"])
    uuid: str = Field(default="", description="only this GPU", examples=["GPU-5f1d"])
    kind: list[str] = Field(
        default=[], description=f"repeated or comma-separated: {', '.join(EVENT_KINDS)}", examples=[["restart"]]
    )
    since: str = Field(default="7d", description=MOMENT)
    until: str = Field(default="now", description=MOMENT)
    limit: int = Field(default=100, ge=1, le=10_000, description="1 to 10000: the newest so many")

    def wanted(self, now: float) -> Wanted:
        """Raises InvalidParameter."""
        kinds = [name.strip() for text in self.kind for name in text.split(",") if name.strip()]
        for kind in kinds:
            if kind not in EVENT_KINDS:
                near = closest(kind, EVENT_KINDS)
                raise InvalidParameter("kind", f"{quoted(kind)} is no kind of event", EVENT_KINDS, near)
        since, until = window(self.since, self.until, now)
        node, server, uuid = map(storable, (self.node, self.server, self.uuid))
        return Wanted(self.limit, node, server, uuid, tuple(kinds), since, until)


def event_out(event: Event) -> EventOut:
    of = dict(event.target)
    return EventOut(
        at=event.at,
        kind=event.kind,
        before=event.before,
        after=event.after,
        text=in_words(event),
        node=of.get("node", ""),
        server=of.get("server"),
        uuid=of.get("uuid"),
        gpu=of.get("gpu"),
    )
