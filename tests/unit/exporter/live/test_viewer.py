"""What one viewer is sent: the newest message of each kind, once."""

from __future__ import annotations

from exporter.live.viewer import Viewer
from tests.support.live_feed import messages


def test_only_the_newest_state_is_kept_for_a_viewer_that_does_not_read() -> None:
    """Newer states replace those that were not sent yet: there is never a queue."""
    viewer = Viewer("prod")
    for number in range(1000):
        viewer.offer("cluster", b"event: cluster\ndata: %d\n\n" % number)
    viewer.offer("beat", b"event: beat\ndata: 0\n\n")
    assert messages(viewer.take()) == [("cluster", 999), ("beat", 0)]
    assert viewer.take() == b""
