"""The parameters of a request: defined once, for the document that is served and for the check.

The rule: what is not understood is refused with the name of the parameter and what it may be. A
filter that was mistyped and ignored would answer another question than the one that was asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipeline.clock import parse_time

MOST_VALUES = 100
"""Repetitions of one parameter: more than anybody types, few enough to work through."""

_LARGEST_INTEGER = 2**53
_LONGEST_NUMBER = 19
"""Digits of any number within 64 bits."""
_LARGEST_TEXT = 300
"""Characters: a topic's name has 249 at most, an event's id fewer."""


class Parameter(NamedTuple):
    """One query parameter."""

    name: str
    text: str
    """What it does, for the document."""
    values: tuple[str, ...] = ()
    """All that it may be; none: any text."""
    is_whole: bool = False
    is_time: bool = False
    least: int = 0
    most: int = _LARGEST_INTEGER
    default: int | None = None
    many: bool = False
    """It may be repeated."""

    def schema(self) -> dict[str, Any]:
        """Return what it may be, as JSON Schema."""
        one: dict[str, Any] = {"type": "string"}
        if self.values:
            one = {"type": "string", "enum": list(self.values)}
        elif self.is_whole:
            one = {"type": "integer", "minimum": self.least, "maximum": self.most}
            if self.default is not None:
                one["default"] = self.default
        return {"type": "array", "items": one} if self.many else one

    def check(self, value: str) -> str:
        """Return the value; raise a 400 that names the parameter when it cannot be."""
        if self.values and value not in self.values:
            raise _bad(self.name, f"{value!r} is none of {', '.join(self.values)}")
        if self.is_whole and not _is_whole(value, self.least, self.most):
            raise _bad(
                self.name, f"{value!r} is not a whole number from {self.least} to {self.most}"
            )
        if self.is_time:
            try:
                parse_time(value)
            except ValueError as error:
                # In a query a bare + is a space.
                hint = " (a + is to be written as %2B)" if " " in value else ""
                raise _bad(self.name, f"{error}{hint}") from None
        return value


class Query:
    """The checked parameters of one request."""

    def __init__(self, request: Request, parameters: tuple[Parameter, ...]) -> None:
        """Check what was given; raises HTTPException 400 for the first that is wrong."""
        known = {parameter.name: parameter for parameter in parameters}
        self._known = known
        self._given: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            if name not in known:
                raise _bad(name, f"there is none of this name; known: {', '.join(known) or 'none'}")
            if len(value) > _LARGEST_TEXT:
                raise _bad(name, f"longer than {_LARGEST_TEXT} characters")
            given = self._given.setdefault(name, [])
            given.append(known[name].check(value))
            if len(given) > (MOST_VALUES if known[name].many else 1):
                raise _bad(name, "given too often")

    def text(self, name: str) -> str | None:
        """Return a parameter's value; None when it was not given."""
        given = self._given.get(name)
        return given[0] if given else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a parameter's values; none when it was not given."""
        return tuple(self._given.get(name, ()))

    def whole(self, name: str) -> int | None:
        """Return a whole number, or its default."""
        value = self.text(name)
        return self._known[name].default if value is None else int(value)

    @property
    def limit(self) -> int:
        """How many things are asked for, of an operation that has a limit."""
        return self.whole("limit") or 1

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return whole numbers; none when it was not given."""
        return tuple(map(int, self.texts(name)))

    def time(self, name: str) -> int | None:
        """Return a time in milliseconds since 1970; None when it was not given."""
        value = self.text(name)
        return None if value is None else parse_time(value)


def refuse(name: str, why: str) -> HTTPException:
    """Return the error for a value that only the cluster shows to be wrong."""
    return _bad(name, why)


def whole_number(text: str) -> int:
    """Return a whole number of a cursor; raises ValueError for any other spelling of it.

    >>> whole_number("17")
    17
    >>> whole_number("1_7")
    Traceback (most recent call last):
    ValueError: 1_7
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise ValueError(text)
    return int(text)


def _is_whole(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 18 and least <= int(text) <= most  # noqa: PLR2004  # digits of any number within 64 bits


def _bad(name: str, why: str) -> HTTPException:
    return HTTPException(400, f"parameter {name!r}: {why}")
