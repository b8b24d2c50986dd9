"""What is collected while it is still open."""

from __future__ import annotations

import gc

import pytest


def left_open() -> list[object]:
    """Collect what nobody refers to; return the warnings of sockets and files that were not closed.

    Without it such a warning fails the test that runs when Python's collector finds the object.
    """
    unraisable: list[object] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.unraisablehook", unraisable.append)
        gc.collect()
    return unraisable
