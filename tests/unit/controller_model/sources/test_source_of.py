"""A cluster keeps the source of its first record, also in a packed state."""

import pytest

from controller_model.sources.kraft.source import KRAFT
from controller_model.sources.kraft.state import KraftState
from controller_model.sources.source_of import is_of, source_of
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import UnreadableStateError, pack_control, unpack_control
from tests.support.histories import History
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher


def a_control() -> ControlPlane:
    """Return a control plane that holds nothing."""
    return ControlPlane("prod", Assumed(), 0)


def test_the_first_record_decides() -> None:
    """A slice is of KRaft, a change of ZooKeeper; without either, nothing is lost by ZooKeeper."""
    (slice_,) = Watcher(KraftCluster()).slices()
    assert source_of(a_control(), [slice_]) is KRAFT
    assert source_of(a_control(), History().changes) is ZOOKEEPER
    assert source_of(a_control()) is ZOOKEEPER
    assert (is_of(KRAFT, slice_), is_of(ZOOKEEPER, slice_)) == (True, False)


@pytest.mark.parametrize("source", [KRAFT, ZOOKEEPER])
def test_what_is_held_decides_after_that(source: object) -> None:
    """Its bytes tell both apart."""
    control = a_control()
    source.adopt(control)  # type: ignore[attr-defined]  # a Source
    for each in (control, unpack_control(pack_control(control))):
        assert source_of(each, Watcher(KraftCluster()).slices()) is source


def test_a_packed_state_goes_on_where_it_was() -> None:
    """Everything that proves the next record is in the bytes."""
    cluster = KraftCluster()
    cluster.tick(2_000)
    fold = KraftFold().feed(Watcher(cluster).slices())
    held = fold.state.control.source
    KRAFT.adopt(fold.state.control)
    assert fold.state.control.source is held
    fold.repack()
    assert isinstance(fold.state.control.source, KraftState)
    assert fold.state.control.source == held


def test_damage_is_refused() -> None:
    """A state whose parts cannot be read is rebuilt from the log."""
    control = a_control()
    control.source = ["kraft", "nothing"]
    with pytest.raises(UnreadableStateError):
        KRAFT.adopt(control)
