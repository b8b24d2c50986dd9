"""What heartbeats report of the session."""

from __future__ import annotations

from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from tests.support.ensemble_in_memory import Play
from zk_source.watcher.commands import ReplaceClient
from zk_source.watcher.session_tracker import SessionTracker


def reported(play: Play) -> tuple[SessionState | None, int | None]:
    """Return the session's state in the newest heartbeat, and since when."""
    beat = play.reader.last[ChangeKind.HEARTBEAT]
    return beat.session, beat.session_since


def test_a_session_is_reported_connected_only_once_a_resync_has_begun(play: Play) -> None:
    """Heartbeats report SUSPENDED until the resync's first mark, then CONNECTED, and since when."""
    play.pass_time(1_000)
    lost_at = play.now_ms
    play.disconnect()
    assert reported(play) == (SessionState.SUSPENDED, lost_at)
    play.connect()
    play.pass_time(10_000)
    assert reported(play) == (SessionState.SUSPENDED, lost_at)
    play.deliver_all()
    begun_at = play.reader.last[ChangeKind.RESYNC_STARTED].observed_at
    assert begun_at > lost_at
    assert reported(play) == (SessionState.CONNECTED, begun_at)


def test_missed_notifications_are_reported_at_once_as_a_suspended_session(play: Play) -> None:
    """On a live connection, too, readers must not take the log for complete until a resync begins."""
    play.pass_time(1_000)
    play.watcher.on_overflow(1, play.now_ms)
    (beat,) = [each for each in play.watcher.commands() if isinstance(each, ZnodeChange)]
    assert (beat.session, beat.session_since) == (SessionState.SUSPENDED, play.now_ms)


def test_notifications_missed_by_a_lost_session_do_not_revive_it(play: Play) -> None:
    """Those that it had still received may overflow after its end; the time of that end stays."""
    play.pass_time(1_000)
    lost_at = play.now_ms
    play.disconnect(SessionState.LOST)
    play.pass_time(1_000)
    play.watcher.on_overflow(1, play.now_ms)
    play.carry_out()
    assert play.reader.changes[-1].observed_at == play.now_ms
    assert reported(play) == (SessionState.LOST, lost_at)


def test_fifteen_seconds_without_a_connection_lead_to_a_new_client(play: Play) -> None:
    """After fifteen seconds without a connection the session is given up and reported as LOST."""
    play.disconnect()
    play.pass_time(14_000)
    assert play.other_commands == []
    play.pass_time(1_000)
    (command,) = play.other_commands
    assert isinstance(command, ReplaceClient)
    assert reported(play) == (SessionState.LOST, play.now_ms - 15_000)


def test_a_watcher_that_never_connects_asks_for_a_new_client_too() -> None:
    """Its time without a connection counts from its start; nothing is published yet."""
    play = Play()
    play.pass_time(14_999)
    assert play.other_commands == []
    play.pass_time(1)
    assert play.other_commands == [ReplaceClient("no connection for 15 s")]
    assert play.reader.changes == []


def test_the_time_without_a_connection_counts_from_its_first_moment() -> None:
    """A session that is lost later does not begin it anew; a new client does."""
    tracker = SessionTracker(0)
    tracker.connection_up("zk1:2181")
    tracker.connection_down(SessionState.SUSPENDED, 1_000)
    tracker.connection_down(SessionState.LOST, 8_000)
    assert tracker.down_ms(16_000) == 15_000
    tracker.down_again(16_000)
    assert tracker.down_ms(16_500) == 500


def test_the_last_heartbeat_reports_the_session_lost(play: Play) -> None:
    """A clean stop ends with a heartbeat whose session is LOST."""
    play.watcher.on_stop(play.now_ms)
    play.carry_out()
    assert play.reader.changes[-1].session is SessionState.LOST
