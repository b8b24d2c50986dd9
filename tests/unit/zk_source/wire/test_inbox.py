"""The inbox keeps the order and is bounded."""

from __future__ import annotations

import time

from zk_source.wire.inbox import Inbox, Notification, Overflow


def test_an_overfull_inbox_marks_where_and_how_many_it_dropped() -> None:
    """The mark of the overflow is behind what arrived before, and carries the number of dropped ones."""
    inbox = Inbox(most_events=2)
    for number in range(5):
        inbox.put_notification(1, f"/{number}")
    taken = [inbox.take(0) for _ in range(4)]
    assert taken == [Notification(1, "/0"), Notification(1, "/1"), Overflow(3), None]
    inbox.put_notification(1, "/again")
    assert inbox.take(0) == Notification(1, "/again")


def test_what_comes_while_the_inbox_is_left_alone_is_taken_after_it() -> None:
    """The pause is over before anything is taken, whatever waits."""
    inbox = Inbox()
    inbox.put_notification(1, "/a")
    began = time.monotonic()
    assert inbox.take(0, pause_s=0.02) == Notification(1, "/a")
    assert time.monotonic() - began >= 0.02
