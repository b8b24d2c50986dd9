"""The next release of the tests: it must fail where versions are not checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from controller_model.kafka.ids import AsOf
from controller_model.records.views import ControllerView, Deleted, decode_view
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.controller_state import ControllerState
from controller_model.state.packing import pack_control
from tests.component.fold.releases import NEWS, environment_of, next_release

PROGRAM = """
import sys
import msgspec
from controller_model.kafka.ids import AsOf
from controller_model.records import views
from controller_model.state import packing

ours = sys.stdin.buffer.read()
try:
    packing.unpack_control(ours)
except packing.UnreadableStateError as error:
    refused = str(error)
misread = packing.unpack_control(bytes([packing.STATE_VERSION]) + ours[1:])
view = views.encode_view(views.Deleted(v=views.VERSION, cluster="c", as_of=AsOf("l", 1, 1)))
reported = [refused, misread.controller.view.elections, view.decode()]
sys.stdout.buffer.write(msgspec.json.encode(reported))
"""


def test_the_next_release_refuses_state_of_this_format(tmp_path: Path) -> None:
    """Only the version of the state prevents wrong counters; the larger views are readable."""
    held = ControllerState(view=ControllerView(elections=5, id_changes=3))
    ours = ControlPlane("c", Assumed(), 0, controller=held)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment_of(next_release(tmp_path)),
        input=pack_control(ours),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    refused, elections, view = msgspec.json.decode(done.stdout, type=tuple[str, int, str])
    assert "a state of format" in refused
    assert elections == held.view.id_changes
    assert NEWS in view
    assert decode_view(view.encode()) == Deleted(v=1, cluster="c", as_of=AsOf("l", 1, 1))
