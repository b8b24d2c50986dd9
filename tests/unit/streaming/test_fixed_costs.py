"""What each batch is spared: reference cycles and the garbage collector's runs, settings of Hadoop that nothing uses."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from bench.load import LogLoad, messages
from bench.map_state import TopicsInMemory
from controller_model.fold.replay import replay
from controller_model.records.changes import decode_message
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from streaming.fixed_costs import (
    MAX_OBJECTS,
    _shorten_hadoop_configuration,
    freeze_long_lived,
)
from streaming.processor import FoldParameters, FoldProcessor

PYTHONS_OWN = (700, 10, 10)


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*PYTHONS_OWN)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_processor_raises_the_thresholds_of_the_garbage_collector() -> None:
    """Above Python's defaults, but finite: another library may create cycles."""
    processor = FoldProcessor(FoldParameters("0000000000001-abc", "v", "e", 1, Assumed()))
    TwsTester(processor)  # which initializes it, as a worker of Spark does
    assert gc.isenabled()
    assert all(now > own for now, own in zip(gc.get_threshold(), PYTHONS_OWN, strict=True))


def test_a_fold_creates_no_reference_cycles() -> None:
    """A resync and a thousand changes create no object that only the collector could free."""
    state = ClusterState(
        ControlPlane("test", assumed=Assumed(), counters_since=0),
        TopicsInMemory().batch(),
        ZOOKEEPER,
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


class _Cycle:
    """An object that refers to itself: only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_the_collector_skips_what_was_alive_before() -> None:
    """Few objects remain for a run to search, and a cycle that arises later is still found."""
    held = [[number] for number in range(MAX_OBJECTS + 1)]
    freeze_long_lived()
    assert gc.get_freeze_count() > len(held)
    assert len(gc.get_objects()) < MAX_OBJECTS
    later = weakref.ref(_Cycle())
    gc.collect()
    assert later() is None


def test_the_collector_frees_what_is_dead_before_it_skips_the_rest() -> None:
    """A cycle that is dead already would otherwise stay in memory for ever."""
    gc.disable()
    try:
        dead = weakref.ref(_Cycle())
        held = [[number] for number in range(MAX_OBJECTS + 1)]
        freeze_long_lived()
    finally:
        gc.enable()
    assert dead() is None
    assert held


def test_a_few_new_objects_are_not_worth_a_run() -> None:
    """The next batches find the rest skipped already."""
    freeze_long_lived()
    before = gc.get_freeze_count()
    held = [[number] for number in range(100)]
    freeze_long_lived()
    assert gc.get_freeze_count() == before
    assert held


def test_of_hadoops_settings_only_the_users_remain() -> None:
    """Without the prefix that they have among Spark's, as Spark passes them on; Hadoop's defaults are gone."""
    held = {"fs.s3a.threads.max": "96", "fs.permissions.umask-mode": "022"}
    hadoop = SimpleNamespace(clear=held.clear, set=held.__setitem__)
    _shorten_hadoop_configuration(
        hadoop, {"spark.hadoop.fs.permissions.umask-mode": "027", "spark.ui.enabled": "false"}
    )
    assert held == {"fs.permissions.umask-mode": "027"}
