"""The inbox keeps the order and is bounded."""

from __future__ import annotations

import time

from zk_source.wire.inbox import Inbox, Notification, Overflow


def test_an_inbox_overflow_marks_its_place_and_the_dropped_count() -> None:
    """The mark is behind the earlier notifications, and has the number of dropped ones."""
    inbox = Inbox(most_events=2)
    for number in range(5):
        inbox.put_notification(1, f"/{number}")
    taken = [inbox.pop(0) for _ in range(4)]
    assert taken == [Notification(1, "/0"), Notification(1, "/1"), Overflow(3), None]
    inbox.put_notification(1, "/again")
    assert inbox.pop(0) == Notification(1, "/again")


def test_a_notification_is_taken_only_after_the_pause() -> None:
    """Even one that was in the inbox before the pause."""
    inbox = Inbox()
    inbox.put_notification(1, "/a")
    began = time.monotonic()
    assert inbox.pop(0, pause_s=0.02) == Notification(1, "/a")
    assert time.monotonic() - began >= 0.02
