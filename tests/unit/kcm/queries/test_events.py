"""`kcm events`: which events it prints, and in which order."""

from __future__ import annotations

from kcm.queries.events import following, newest
from tests.support.api_server import Served
from tests.support.in_process_api import api_of

PATH = "/clusters/prod/events"


def test_the_newest_events_come_oldest_first(served: Served) -> None:
    """It prints as many as wanted, although the exporter lists the newest first."""
    found, newer = newest(api_of(served), PATH, most=3)
    assert [event["epoch"] for event in found] == [28, 29, 30]
    assert newer == "L1/1/30/0"


def test_events_are_followed_from_a_position(served: Served) -> None:
    """Nothing is repeated or left out."""
    happening = following(api_of(served), PATH, "L1/1/28/0")
    assert [next(happening)["epoch"] for _ in range(2)] == [29, 30]


def test_a_cluster_without_an_event_is_followed_from_its_first(served: Served) -> None:
    """There is no place to continue from yet."""
    happening = following(api_of(served), PATH, None)
    assert next(happening)["epoch"] == 1
