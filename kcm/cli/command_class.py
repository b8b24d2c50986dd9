"""How a verb says that its command is of a class of its own.

The rule: the command line knows a verb by its function alone, so the class is kept there; this module
imports nothing, because it is loaded for every verb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Verb = TypeVar("Verb", bound=Callable[..., int])

_ATTRIBUTE = "command_class"


def of_class(kind: type) -> Callable[[Verb], Verb]:
    """Let a verb's command be of this class (a typer.core.TyperCommand)."""

    def decorate(verb: Verb) -> Verb:
        setattr(verb, _ATTRIBUTE, kind)
        return verb

    return decorate


def class_of(verb: Callable[..., int]) -> type | None:
    """Return the class of a verb's command; None for the usual one."""
    return getattr(verb, _ATTRIBUTE, None)
