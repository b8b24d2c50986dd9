"""What a change proves about ZooKeeper's clock, and what it does not prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_source.watcher.zookeeper_clock import ZookeeperClock

HOUR_MS = 3_600_000
APART_MS = 2_000
SET = "/brokers/topics/orders/partitions/0/state"


def notice(
    clock: ZookeeperClock, *, asked: int, noticed: int, read: int, mtime: int, path: str = SET
) -> int | None:
    """Let a change happen: a question before it, its notification, its value. Times are of the steady clock."""
    clock.on_notification(path, asked, noticed)
    clock.on_published()
    clock.on_value(path, mtime, read)
    return clock.ahead_ms(0)


def notice_twice(
    clock: ZookeeperClock, *, asked: int, noticed: int, read: int, mtime: int
) -> int | None:
    """Let the same happen twice, 2 s apart."""
    known = None
    for apart in (0, APART_MS):
        known = notice(
            clock,
            asked=asked + apart,
            noticed=noticed + apart,
            read=read + apart,
            mtime=mtime + apart,
        )
    return known


@given(
    st.lists(st.integers(0, HOUR_MS), min_size=4, max_size=4),
    st.integers(-2 * HOUR_MS, 2 * HOUR_MS),
    st.integers(-2 * HOUR_MS, 2 * HOUR_MS),
)
def test_the_reported_clock_difference_never_exceeds_the_true_one(
    moments: list[int], ahead: int, ours_ahead: int
) -> None:
    """However late the notification and the value are, the sign is right and the amount is at most the true one."""
    asked, made, noticed, read = sorted(moments)
    clock = ZookeeperClock()
    notice_twice(clock, asked=asked, noticed=noticed, read=read, mtime=made + ahead)
    measured, true = clock.ahead_ms(ours_ahead), ahead - ours_ahead
    assert measured is not None
    assert 0 <= measured <= true or true <= measured <= 0
    assert abs(true - measured) <= read - asked


@pytest.mark.parametrize(
    ("ahead", "expected"), [(HOUR_MS, HOUR_MS - 20), (-HOUR_MS, -HOUR_MS + 970)]
)
def test_a_clock_an_hour_off_is_measured_by_two_changes(ahead: int, expected: int) -> None:
    """Asked at 0, changed at 970, read at 990, and the same again."""
    clock = ZookeeperClock()
    assert notice(clock, asked=0, noticed=980, read=990, mtime=970 + ahead) is None
    for at in (1_000, 2_000):
        known = notice(clock, asked=at, noticed=at + 980, read=at + 990, mtime=at + 970 + ahead)
    assert known == expected


def test_old_changes_that_arrive_at_once_give_no_clock_difference() -> None:
    """A server that lost its quorum returns old data, and later receives all changes together."""
    clock = ZookeeperClock()
    for ms in range(0, APART_MS, 100):
        at = HOUR_MS + ms
        assert notice(clock, asked=HOUR_MS, noticed=at, read=at, mtime=5) is None
    now = HOUR_MS + APART_MS
    assert notice(clock, asked=now, noticed=now + 5, read=now + 9, mtime=now + 3) == 0


def test_a_moment_proves_only_what_all_its_changes_allow() -> None:
    """A change from the past that arrives shortly before a new one says nothing of the clocks."""
    clock = ZookeeperClock()
    for at in (HOUR_MS, HOUR_MS + APART_MS):
        notice(clock, asked=at, noticed=at, read=at, mtime=5)
        later = at + 100
        known = notice(clock, asked=later, noticed=later, read=later, mtime=later)
    assert known == 0


def test_a_clock_difference_needs_a_notification_of_a_change() -> None:
    """The age of a resync's value is unknown, as is that of a value before the log was complete once."""
    clock = ZookeeperClock()
    clock.on_value(SET, HOUR_MS, 0)
    assert clock.ahead_ms(0) is None
    clock.on_notification(SET, None, 0)
    clock.on_published()
    clock.on_value(SET, HOUR_MS, 0)
    assert clock.ahead_ms(0) is None


def test_a_new_connection_discards_the_pending_measurement() -> None:
    """The new server may not be as far as the one that sent the notification."""
    clock = ZookeeperClock()
    clock.on_notification(SET, 2 * HOUR_MS, 2 * HOUR_MS)
    clock.on_session()
    clock.on_published()
    clock.on_value(SET, 5, 2 * HOUR_MS + 20)
    assert clock.ahead_ms(0) is None


def test_one_change_is_measured_at_a_time_for_at_most_ten_seconds() -> None:
    """A change whose value does not arrive, such as of a znode that was deleted, is given up after 10 s."""
    clock = ZookeeperClock()
    clock.on_notification(SET, 0, 0)
    clock.on_published()
    for at in (0, 5_000, 10_000):
        assert notice(clock, asked=at, noticed=at, read=at, mtime=at, path="/b") is None
    for at in (10_001, 12_000):
        assert notice(clock, asked=at, noticed=at, read=at, mtime=at, path="/b") is None
    assert notice(clock, asked=12_001, noticed=12_001, read=12_001, mtime=12_001, path="/b") == 0


@pytest.mark.parametrize("is_published", [False, True])
def test_a_change_is_not_followed_over_a_new_session(*, is_published: bool) -> None:
    """The next server may be behind, and show the value of before the change."""
    clock = ZookeeperClock()
    for at in (0, APART_MS, 2 * APART_MS):
        clock.on_notification(SET, at, at + 10)
        if is_published:
            clock.on_published()
        clock.on_session()
        clock.on_published()
        clock.on_value(SET, at - HOUR_MS, at + 20)
    assert clock.ahead_ms(0) is None
