"""Reduces what Python's garbage collector costs the worker.

The rule: the fold makes no cycles, so its objects are freed as soon as nothing refers to them.
Python's collector finds nothing however often it runs, and each run costs the fold time.
"""

import gc

_NEW_OBJECTS = 50_000
_YOUNGER_LOOKS = (20, 100)
"""Thresholds of the collector: new objects, and then runs of each younger generation before the
next one is searched. Python's own are 700, 10, 10."""

MOST_OBJECTS = 5_000
"""Objects that every run may search again; that takes some tenths of a millisecond."""


def look_for_cycles_rarely() -> None:
    """Let this process's collector run after 50,000 new objects only; it still finds cycles of other libraries."""
    gc.set_threshold(_NEW_OBJECTS, *_YOUNGER_LOOKS)


def skip_what_stays() -> None:
    """Exclude the objects that are alive now from later runs of the collector, if they are many.

    Spark's worker runs the collector after each task (`manager` in pyspark.daemon). Over the objects
    of all modules, some 50,000, a run takes more time than the fold needs for a small batch. Cycles
    that arise later are found as before.
    """
    if len(gc.get_objects()) > MOST_OBJECTS:
        gc.collect()  # what is dead now would stay for ever
        gc.freeze()
