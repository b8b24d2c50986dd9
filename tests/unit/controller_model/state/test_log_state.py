"""The reason why figures are incomplete."""

from __future__ import annotations

from controller_model.state.log_state import LogState


def test_why_incomplete_is_none_at_first() -> None:
    """Also if only those paths are denied that Kafka itself denies everybody."""
    assert LogState().why_incomplete() is None
    assert LogState(denied=("/config/brokers",)).why_incomplete() is None


def test_why_incomplete_names_the_denied_paths() -> None:
    """The first path, and the number of the others."""
    one = LogState(denied=("/controller",))
    assert one.why_incomplete() == "READ is denied on /controller: what depends on it is not known"
    more = LogState(denied=("/config/brokers", "/controller", "/brokers", "/admin"))
    assert str(more.why_incomplete()).startswith("READ is denied on /controller and 2 more: ")


def test_why_incomplete_names_lost_changes_before_denied_paths() -> None:
    """A resync can fix them, and reports when it has."""
    log = LogState(denied=("/controller",), incomplete_since=0, incomplete_reason="a hole")
    assert log.why_incomplete() == "a hole"
