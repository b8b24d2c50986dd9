"""Which sessions watch /controller; that it is deleted and taken again is run by tests/system and the demo."""

from __future__ import annotations

from kcm.servers.controller_handle import watchers


def test_watches_are_read_by_their_path() -> None:
    """An answer that is empty, or does not have the path, names no session."""
    assert watchers("", "/controller") == set()
    assert watchers("\t0x10\n", "/controller") == set()
    assert watchers("/controller\n/b\n\t0x10\n", "/controller") == set()
    answer = "/controller\n\t0x100000abc0001\n\n/controller\n\t0x2\n"
    assert watchers(answer, "/controller") == {0x100000ABC0001, 2}
