"""The report of a back-test: alerts by their times, and the incidents without an alert."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from controller_model.records.incidents import Incident
from kcm.backtest.evaluation import Evaluated, FiredAlert, Firing, Trouble
from kcm.backtest.history import ScrapedHistory
from kcm.backtest.report import BackTest, as_json, as_text
from kcm.backtest.rules import Group, Rule, RuleFile

GONE = Rule(alert="Gone", expr="up")
SLOW = Rule(alert="Slow", expr="up")
RECORDED = Rule(record="a:b", expr="up")
RULES = RuleFile(groups=[Group(name="g", rules=[GONE, SLOW, RECORDED])])
LABELS = {"cluster": "prod", "broker": "1", "severity": "critical"}


def incident(number: int, started_at: int, closed_at: int | None) -> Incident:
    """Return an incident of a broker."""
    return Incident(
        number=number,
        started_at=started_at,
        last_abnormal_at=started_at,
        closed_at=closed_at,
        opened_by="BrokerStopped",
        summary=f"Incident number {number}.",
    )


def outcome(*fired: FiredAlert, trouble: tuple[Trouble, ...] = (), **fields: Any) -> BackTest:
    """Return a back-test of a history of 100 s."""
    history = ScrapedHistory(
        cluster="prod",
        scrapes=range(0, 100_001, 10_000),
        samples=11,
        window=(0, 100_000),
        incidents=[],
    )
    return BackTest(history._replace(**fields), RULES, Evaluated(list(fired), list(trouble)))


def text_of(test: BackTest) -> list[str]:
    """Return the lines that are printed."""
    out = io.StringIO()
    Console(file=out, width=200).print(as_text(test))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_an_alert_belongs_to_the_incident_in_which_it_began() -> None:
    """An alert that fired before does not report a new incident; it is listed separately."""
    one = FiredAlert(GONE, LABELS, Firing(10_000, 20_000, 70_000))
    test = outcome(one, incidents=[incident(1, 15_000, 40_000), incident(2, 60_000, None)])
    assert [each.number for each in test.unnoticed] == [2]
    found = as_json(test)
    first, second = found["incidents"]
    assert [each["alert"] for each in first["alerts"]] == ["Gone"]
    assert (second["alerts"], [each["alert"] for each in second["alerts_before"]]) == ([], ["Gone"])
    assert found["incidents_without_alert"] == [2]
    assert found["not_fired"] == ["Slow"]
    lines = text_of(test)
    assert "    Gone after 5.0 s" in lines
    assert "    NO ALERT FIRED (fired already: Gone)" in lines


def test_the_table_shows_when_for_how_long_and_for_whom() -> None:
    """An alert at the end of the history still fires; labels that all alerts share are left out."""
    ended = FiredAlert(GONE, LABELS, Firing(10_000, 20_000, 70_000))
    still = FiredAlert(SLOW, {"cluster": "prod"}, Firing(50_000, 90_000, None))
    lines = text_of(outcome(ended, still))
    rows = [line.split() for line in lines]
    assert ["Gone", "1970-01-01T00:00:20.000Z", "50.0", "s", "broker=1"] in rows
    assert ["Slow", "1970-01-01T00:01:30.000Z", "10.0", "s,", "still", "-"] in rows
    assert "no incident was recorded" in lines


def test_what_fired_outside_of_the_window_is_left_out() -> None:
    """The history begins earlier than the window."""
    before = FiredAlert(GONE, LABELS, Firing(10_000, 20_000, 40_000))
    test = outcome(before, window=(50_000, 100_000))
    assert test.fired == []
    assert "no alert would have fired" in text_of(test)


def test_a_rule_that_the_history_cannot_judge_is_named() -> None:
    """It is not counted among those that would not have fired."""
    test = outcome(trouble=(Trouble(SLOW, "the history has no m"),))
    assert as_json(test)["not_judged"] == [{"rule": "Slow", "reason": "the history has no m"}]
    assert as_json(test)["not_fired"] == ["Gone"]
    assert "not judged: Slow: the history has no m" in text_of(test)


def test_what_can_never_match_is_told_once() -> None:
    """With the line of the rule, and not as unjudged as well."""
    rule = Rule(alert="Slow", expr="z", line=7)
    trouble = (Trouble(rule, "the history has no z"), Trouble(GONE, "no reason"))
    test = outcome(trouble=trouble)
    test = test._replace(
        evaluated=test.evaluated._replace(never=[Trouble(rule, "kcm serves no z")])
    )
    told = [line for line in text_of(test) if "Slow" in line or "Gone" in line]
    assert (
        told
        == ["not judged: Gone: no reason", "can never match: Slow (line 7): kcm serves no z"][::-1]
    )
    assert as_json(test)["never_match"] == [
        {"rule": "Slow", "line": 7, "reason": "kcm serves no z"}
    ]
