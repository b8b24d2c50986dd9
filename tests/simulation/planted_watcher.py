"""Bugs planted into the watcher's decisions: a step that is left out.

They stand for unit tests of the same classes: each has seeds that catch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from controller_model.fold.broker_views import BrokerViews
from source_log.generation_fencing import FencingDecision, Generations
from zk_source.config import WatchSettings
from zk_source.service import service
from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.watcher.recorder import Recorder
from zk_source.watcher.watcher import Intervals, Watcher


@contextmanager
def resync_at_each_reconciliation() -> Iterator[None]:
    """A watcher reads everything anew where it should compare."""
    real = service.intervals

    def intervals(settings: WatchSettings) -> Intervals:
        made = real(settings)
        return replace(made, resync_ms=made.reconciliation_ms)

    with mock.patch.object(service, "intervals", intervals):
        yield


@contextmanager
def brokers_published_with_each_batch() -> Iterator[None]:
    """The fold publishes brokers that have not changed."""
    real = BrokerViews.changed

    def changed(_self: BrokerViews, *about: Any) -> Any:
        return real(BrokerViews(), *about)

    with mock.patch.object(BrokerViews, "changed", changed):
        yield


Plant = Callable[[], AbstractContextManager[Any]]

PLANTED: Mapping[str, Plant] = {
    "resync at each reconciliation": resync_at_each_reconciliation,
    "brokers published with each batch": brokers_published_with_each_batch,
} | {
    name: partial(mock.patch.object, owner, method, return_value=instead)
    for name, owner, method, instead in (
        ("overflow not resynced", Watcher, "on_overflow", None),
        ("muted without end", Watcher, "on_pipeline_back", None),
        ("newcomers ignored", Generations, "judge_record", FencingDecision.IGNORE),
        ("reads kept over a resync", DirtyPaths, "clear", None),
        ("deletes not published", Recorder, "absence", None),
    )
}
"""By name: how to plant it."""

CAUGHT_BY: Mapping[str, tuple[int, ...]] = {
    "resync at each reconciliation": (0, 3),
    "brokers published with each batch": (8, 9),
    "overflow not resynced": (0, 19),
    "muted without end": (21,),
    "newcomers ignored": (7, 5),
    "reads kept over a resync": (2, 7),
    "deletes not published": (0, 1),
}
"""By name: seeds that catch it."""
