"""Bugs planted into the watcher's decisions: a step that is left out.

They stand for unit tests of the same classes: each has seeds that catch it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

from source_log.generation_fencing import FencingDecision, Generations
from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.watcher.recorder import Recorder
from zk_source.watcher.watcher import Watcher

Plant = Callable[[], AbstractContextManager[Any]]

PLANTED: Mapping[str, Plant] = {
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
    "overflow not resynced": (0, 19),
    "muted without end": (21,),
    "newcomers ignored": (7, 10),
    "reads kept over a resync": (2, 3),
    "deletes not published": (0, 1),
}
"""By name: seeds that catch it."""
