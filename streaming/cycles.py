"""How often the worker searches for cycles among its objects.

The rule: what the fold makes holds no cycles and is freed as soon as nobody refers to it, so that
Python's collector finds nothing however often it runs, and each run costs the fold time.
"""

import gc

_NEW_OBJECTS = 50_000
_YOUNGER_LOOKS = (20, 100)
"""Of each younger generation before the next one is searched; Python's own are 700, 10, 10."""


def look_for_cycles_rarely() -> None:
    """Let the collector of this process wait for 50,000 new objects; it still finds cycles of others."""
    gc.set_threshold(_NEW_OBJECTS, *_YOUNGER_LOOKS)
