"""Reduces how often the worker searches for cycles among its objects.

The rule: the fold makes no cycles, so its objects are freed as soon as nothing refers to them.
Python's collector finds nothing however often it runs, and each run costs the fold time.
"""

import gc

_NEW_OBJECTS = 50_000
_YOUNGER_LOOKS = (20, 100)
"""Thresholds of the collector: new objects, and then runs of each younger generation before the
next one is searched. Python's own are 700, 10, 10."""


def look_for_cycles_rarely() -> None:
    """Let this process's collector run after 50,000 new objects only; it still finds cycles of other libraries."""
    gc.set_threshold(_NEW_OBJECTS, *_YOUNGER_LOOKS)
