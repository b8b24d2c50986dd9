"""What heartbeats report of the session."""

from __future__ import annotations

from controller_model.records.changes import ChangeKind, SessionState
from tests.support.ensemble_in_memory import Play
from zk_source.watcher.commands import ReplaceClient
from zk_source.watcher.session_tracker import SessionTracker


def test_a_session_is_reported_connected_only_once_a_resync_has_begun(play: Play) -> None:
    """Heartbeats report SUSPENDED until the resync's first mark, then CONNECTED."""
    play.disconnect()
    assert play.reader.changes[-1].session is SessionState.SUSPENDED
    play.connect()
    play.pass_time(10_000)
    assert play.reader.changes[-1].session is SessionState.SUSPENDED
    play.deliver_all()
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.CONNECTED


def test_fifteen_seconds_without_a_connection_lead_to_a_new_client(play: Play) -> None:
    """After fifteen seconds without a connection the session is given up and reported as LOST."""
    play.disconnect()
    play.pass_time(14_000)
    assert play.other_commands == []
    play.pass_time(1_000)
    (command,) = play.other_commands
    assert isinstance(command, ReplaceClient)
    assert play.reader.changes[-1].session is SessionState.LOST


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
