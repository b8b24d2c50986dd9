"""A rehearsal and Python's garbage collector: the rest of its process continues."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from controller_model.kafka.cluster_facts import PartitionFacts
from tests.support.partition_facts import part
from tests.support.rehearsing import rehearsed

CLUSTER = [part(number) for number in range(1000)]
OLDEST = 2
OWN_THRESHOLDS = (700, 10, 1)
"""As Python's, except for the oldest generation, which is collected after every two of the middle one."""


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    """Restore the collector of the test run afterwards."""
    before = gc.get_threshold()
    gc.set_threshold(*OWN_THRESHOLDS)
    yield
    gc.set_threshold(*before)


def _collected(play: Callable[[], object]) -> list[int]:
    """Return the generations that were collected meanwhile."""
    seen: list[int] = []

    def note(phase: Literal["start", "stop"], info: dict[str, Any]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    try:
        play()
    finally:
        gc.callbacks.remove(note)
    return seen


def test_garbage_of_other_requests_is_collected_during_a_rehearsal() -> None:
    """A cycle that another request of the process left is collected, and no collection examined everything."""

    class Left:
        def __init__(self) -> None:
            self.itself = self

    left = weakref.ref(Left())
    seen = _collected(lambda: rehearsed("stop-broker:2", partitions=CLUSTER))
    assert left() is None
    assert seen
    assert OLDEST not in seen


def test_a_controller_that_has_resigned_is_collected_before_the_next_step() -> None:
    """One full collection for each, and no more."""
    steps = ("kill-broker:1", "stop-broker:2", "start-broker:1")
    seen = _collected(lambda: rehearsed(*steps, partitions=CLUSTER))
    assert seen.count(OLDEST) == 2


def _unreadable() -> Iterator[PartitionFacts]:
    yield CLUSTER[0]
    raise ZeroDivisionError


def test_the_garbage_collectors_settings_are_restored_afterwards() -> None:
    """Also if the rehearsal ends with an error."""
    rehearsed("stop-broker:2", partitions=CLUSTER)
    assert gc.get_threshold() == OWN_THRESHOLDS
    with pytest.raises(ZeroDivisionError):
        rehearsed("stop-broker:2", partitions=_unreadable())
    assert gc.get_threshold() == OWN_THRESHOLDS
    assert gc.isenabled()
