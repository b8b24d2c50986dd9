"""A verb may say of which class its command is; others say nothing."""

from __future__ import annotations

from kcm.cli.command_class import class_of, of_class


def test_a_verb_says_its_class() -> None:
    """And stays what it is."""

    def plain() -> int:
        return 3

    assert class_of(plain) is None
    assert class_of(of_class(int)(plain)) is int
    assert plain() == 3
