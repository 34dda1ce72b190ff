from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.budget import Counts, State
from alerts.slo.spec import Slo
from monitor.evaluate.status import Burn, Status
from monitor.evaluate.status import status as judged
from monitor.evaluate.watch import Told
from monitor.page.slo_view import Card, objectives, summary
from tests.monitor.evaluate.minutes import available, kv_below, latency

AVAILABLE = available()
MINUTES_30D = 30 * 1440


def status(
    state: State = State.OK, left: float | None = 1.0, certain: float | None = None, *burns: Burn, of: Slo = AVAILABLE
) -> Status:
    return Status(of, ("m", "unified"), 0, state, Counts(), left, left if certain is None else certain, burns, None)


def card(of: Status) -> Card:
    (objective,) = objectives(Told(0, (of.slo,), (of,)))
    (only,) = objective.cards
    return only


@pytest.mark.parametrize(
    ("left", "certain", "told"),
    [
        (1.0, 1.0, ("100 %", "of the budget left")),
        (0.9996, 0.9996, ("> 99.9 %", "of the budget left")),
        (0.4, 0.6, ("40 %", "of the budget left, at most 60 %")),
        (0.0004, 0.0004, ("< 0.1 %", "of the budget left")),
        (0.0, 0.0, ("100 %", "of the budget spent")),
        (-0.5, -0.5, ("150 %", "of the budget spent")),
        (-0.5, -0.25, ("150 %", "of the budget spent, at least 125 %")),
        (-0.5, 0.25, ("150 %", "of the budget spent, at least 75 %")),
        (None, None, (None, "of the budget left")),
    ],
)
def test_a_budget_is_what_is_left_or_what_is_spent(
    left: float | None, certain: float | None, told: tuple[str | None, str]
) -> None:
    found = card(status(left=left, certain=certain))
    assert (found.budget, found.of_budget) == told


def test_objectives_in_trouble_come_first_and_the_others_as_their_files_have_them() -> None:
    calm, also_calm, burning = (
        AVAILABLE.model_copy(update={"name": name}) for name in ("calm", "also-calm", "burning")
    )
    told = Told(0, (calm, also_calm, burning), (status(of=calm), status(State.BURNING, 0.5, of=burning)))
    assert [objective.name for objective in objectives(told)] == ["burning", "calm", "also-calm"]


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ((0.0, 0.0), "0 / 0"),
        ((0.004, 0.4), "< 0.01 / 0.4"),
        ((14.4, 13.44), "14.4 / 13.4"),
        ((99.96, 1234.5), "100 / 1,234"),
        ((None, 1.0), None),
    ],
)
def test_burn_rates_have_three_digits(rates: tuple[float | None, float | None], told: str | None) -> None:
    window = AVAILABLE.burn_windows()[0][0]
    (line,) = card(status(State.OK, 1.0, 1.0, Burn(window, *rates, None, holds=False))).burns
    assert (line.window, line.rate, line.limit) == ("1h / 5m", told, "14.4")


@pytest.mark.parametrize(
    ("slo", "asked"),
    [
        (AVAILABLE, "99 % of requests end well, over 30 days"),
        (latency("ttft", 0.5, window="7d"), "99 % of first tokens within 500 ms, over 7 days"),
        (latency("itl", 0.1), "99 % of gaps between tokens within 100 ms, over 30 days"),
        (latency("tpot", 0.1), "99 % of times per output token within 100 ms, over 30 days"),
        (latency("e2e", 40), "99 % of requests within 40 s, over 30 days"),
        (kv_below(0.95), "99 % of minutes with llm_kv_cache_utilization_ratio (max) below 0.95, over 30 days"),
    ],
)
def test_an_objective_is_said_in_words(slo: Slo, asked: str) -> None:
    (objective,) = objectives(Told(0, (slo,), ()))
    assert (objective.asked, objective.cards) == (asked, ())


def test_groups_are_counted_by_state_with_the_worst_first() -> None:
    states = (State.OK, State.BURNING, State.OK, State.EXHAUSTED, State.IDLE)
    found = summary(Told(0, (AVAILABLE,), tuple(status(state) for state in states)))
    assert [(condition.word, many) for condition, many in found.states] == [
        ("exhausted", 1), ("burning", 1), ("ok", 2), ("idle", 1),
    ]  # fmt: skip
    assert found.in_trouble == 2


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (19, "observed for 19 min of 30 d"),
        (MINUTES_30D // 10, "observed for 3 d of 30 d"),
        (MINUTES_30D // 10 + 60, "26 d 23 h not observed"),
        (MINUTES_30D - 60, "1 h not observed"),
        (MINUTES_30D, None),
    ],
)
def test_a_window_of_which_little_was_observed_says_how_much(seen: int, told: str | None) -> None:
    counts = Counts(good=100, minutes=MINUTES_30D, minutes_unknown=MINUTES_30D - seen)
    assert card(replace(status(), counts=counts)).notes[1:] == (() if told is None else (told,))


def test_a_young_history_that_is_exhausted_says_how_much_an_alert_needs() -> None:
    """9 bad of 19 minutes. Of minutes an alert needs as many as may be bad: 14.4 % of an hour are 8.64, but none is
    bad within the last five; 6 % of 6 h are 21.6, 3 % of a day are 43.2, 1 % of 3 days are 43.2."""
    slo = kv_below(0.95)
    whole = Counts(good=10, bad=9, certainly_bad=9, minutes=MINUTES_30D, minutes_unknown=MINUTES_30D - 19)
    over = dict.fromkeys((1800, 7200, 21600), whole) | {300: Counts(good=5), 60: Counts(good=1)}
    lengths = (3600, 21600, 86400, 259200, 30 * 86400)
    found = judged(slo, ("m", "unified"), dict.fromkeys(lengths, whole) | over, 0)
    assert found.state is State.EXHAUSTED
    assert card(found).notes == (
        "9 of 19 minutes bad",
        "observed for 19 min of 30 d",
        "no alert fires: too few minutes for one yet, which needs 22 in 6 h or 44 in 24 h or 44 in 3 d",
    )


def test_one_that_is_exhausted_and_burns_no_more_says_so() -> None:
    calm = Burn(AVAILABLE.burn_windows()[0][0], 20.0, 0.0, 0.2, holds=False)
    found = card(status(State.EXHAUSTED, -0.5, None, calm)).notes[-1]
    assert found == "no alert fires: over none of their windows does it burn fast enough now"
    for silent in (
        status(State.EXHAUSTED, -0.5, None, replace(calm, holds=True)),
        status(State.EXHAUSTED, -0.5),
        status(State.OK, 0.5, None, calm),
    ):
        assert "no alert" not in card(silent).notes[-1]


def test_a_group_without_a_label_is_all_or_one_whose_label_is_not_known() -> None:
    assert card(status()).whole == ""
    assert card(replace(status(), group=("", "unified"))).whole == "model not known"
    everything = available(group_by=())
    assert card(replace(status(of=everything), group=("unified",))).whole == "all"
