"""The fold creates no reference cycles, so the garbage collector finds nothing, and runs rarely."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bench.load import LogLoad, messages
from bench.map_state import TopicsInMemory
from controller_model.fold.replay import replay
from controller_model.records.changes import decode_message
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from streaming.cycles import look_for_cycles_rarely

PYTHONS_OWN = (700, 10, 10)


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*PYTHONS_OWN)
    yield
    gc.set_threshold(*before)


def test_the_garbage_collector_thresholds_are_raised() -> None:
    """Above Python's defaults, but finite: another library may create cycles."""
    look_for_cycles_rarely()
    assert gc.isenabled()
    assert all(now > own for now, own in zip(gc.get_threshold(), PYTHONS_OWN, strict=True))


def test_a_fold_creates_no_reference_cycles() -> None:
    """A resync and a thousand changes create no object that only the collector could free."""
    state = ClusterState(
        ControlPlane("test", assumed=Assumed(), counters_since=0), TopicsInMemory().batch()
    )
    load = LogLoad("test", topics=20, partitions=5, brokers=4)
    log = [*messages(load.resync()), *messages(load.changes(1_000))]
    gc.collect()
    gc.disable()
    try:
        for message in log:
            for change in decode_message(message).changes:
                replay(state, change)
            state.changed.clear()
        del message, change
        assert gc.collect() == 0
    finally:
        gc.enable()
