from monitor.gpus import GpuRow
from monitor.history.database import HistoryError
from monitor.history.life import Wanted
from monitor.history.minutes import Event
from monitor.page.changes import Change, Mark, changes
from tests.monitor.page.fleet_data import NOW, Past

UNTIL = 1_796_031_660
"""The last full minute before NOW; the hour before it is 120 wide."""
SERVER = (("node", "n"), ("server", "s"))
GPU_0 = (("gpu", "0"), ("node", "n"), ("uuid", "GPU-a"))
OTHER = (("gpu", "1"), ("node", "n"), ("uuid", "GPU-b"))
OWN = [GpuRow(node="n", uuid="GPU-a", gpu="0", up=True, observed_at=NOW, servers=["s"])]


class Lived(Past):
    """Says of a server what it is told, and of its node all there is."""

    def __init__(self, *known: Event) -> None:
        super().__init__()
        self.known = known

    def events(self, wanted: Wanted) -> list[Event]:
        return [e for e in self.known if not wanted.server or dict(e.target).get("server") == wanted.server]


class Broken(Past):
    def events(self, wanted: Wanted) -> list[Event]:
        raise HistoryError("the disk is full")


def test_all_changes_of_a_minute_are_one_mark() -> None:
    at = UNTIL - 1800 + 5
    lived = Lived(
        Event(SERVER, at + 10, "version", "1", "2"),
        Event(SERVER, at, "restart"),
        Event(SERVER, at, "tp", "1", "2"),
        Event(SERVER, at - 60, "restart"),
    )
    found = changes(lived, "n", "s", [], NOW)
    assert found.marks == (
        Mark("58.2", "09:10:05 UTC: restarted"),
        Mark("60.2", "09:11:05 UTC: restarted; tp: 1 → 2; version: 1 → 2"),
    )
    assert found.newest[0] == Change(at + 10, "version: 1 → 2")


def test_what_is_older_than_the_hour_is_in_the_list_and_not_in_the_charts() -> None:
    found = changes(Lived(Event(SERVER, UNTIL - 3601, "restart")), "n", "s", [], NOW)
    assert (found.marks, [change.text for change in found.newest]) == ((), ["restarted"])


def test_what_came_after_the_last_full_minute_stands_at_the_edge() -> None:
    [mark] = changes(Lived(Event(SERVER, UNTIL + 30, "restart")), "n", "s", [], NOW).marks
    assert mark.x == "120"


def test_what_happened_to_its_gpus_is_told_with_their_number() -> None:
    lived = Lived(
        Event(SERVER, UNTIL - 10, "restart"),
        Event(GPU_0, UNTIL - 200, "state", "up", "down"),
        Event(OTHER, UNTIL - 300, "state", "up", "down"),
    )
    found = changes(lived, "n", "s", OWN, NOW)
    assert [change.text for change in found.newest] == ["restarted", "GPU 0 does not answer"]


def test_a_flapping_server_fills_no_page() -> None:
    lived = Lived(*(Event(SERVER, UNTIL - n, "state", "awake", "sleeping") for n in range(600)))
    found = changes(lived, "n", "s", [], NOW)
    assert len(found.newest) == 10
    assert len(found.marks) == 11
    assert found.marks[1].text.endswith("; and 52 more")


def test_a_broken_history_costs_the_marks_alone() -> None:
    assert changes(Broken(), "n", "s", OWN, NOW).marks == ()
