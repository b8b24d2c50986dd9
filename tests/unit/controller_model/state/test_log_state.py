"""The reason why figures are incomplete."""

from __future__ import annotations

from controller_model.records.views import LogView
from controller_model.state.log_state import LogState


def test_why_incomplete_names_lost_changes_before_what_is_hidden() -> None:
    """A resync can fix the changes, and reports when it has; without either there is no reason."""
    assert LogState().why_incomplete is None
    assert LogState(hidden_reason="denied").why_incomplete == "denied"
    log = LogState(view=LogView(incomplete_since=0), reason="a hole", hidden_reason="denied")
    assert log.why_incomplete == "a hole"
