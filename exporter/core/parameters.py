"""The query parameters of a request: defined once, for the OpenAPI document and for the check.

The rule: a parameter that is not understood is refused, with its name and what it may be. If a mistyped
filter were ignored, the answer would be to another question than the client asked.
"""

from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipeline.clock import parse_time

MAX_VALUES = 100
"""Most repetitions of one parameter: more than anybody types, few enough to process."""

_LARGEST_INTEGER = 2**53
_LONGEST_NUMBER = 19
"""Most digits of a number of 64 bits."""


class Parameter(NamedTuple):
    """One query parameter."""

    name: str
    text: str
    """What it does, for the OpenAPI document."""
    values: tuple[str, ...] = ()
    """The values that it may have; empty: any text."""
    is_whole: bool = False
    is_time: bool = False
    least: int = 0
    most: int = _LARGEST_INTEGER
    default: int | None = None
    many: bool = False
    """It may be repeated."""
    longest: int = 300
    """Most characters: a topic's name has 249 at most, an event's id fewer."""

    def schema(self) -> dict[str, Any]:
        """Return the values that it may have, as JSON Schema."""
        one: dict[str, Any] = {"type": "string"}
        if self.values:
            one = {"type": "string", "enum": list(self.values)}
        elif self.is_whole:
            one = {"type": "integer", "minimum": self.least, "maximum": self.most}
            if self.default is not None:
                one["default"] = self.default
        return {"type": "array", "items": one} if self.many else one

    def read(self, text: str) -> str | int:
        """Return the value: text, a whole number, or a time; raise HTTPException 400 where it is not allowed."""
        if self.values and text not in self.values:
            raise refuse(self.name, f"{text!r} is none of {', '.join(self.values)}")
        if self.is_whole:
            try:
                number = whole_number(text)
            except ValueError:
                number = None
            if number is None or not self.least <= number <= self.most:
                bounds = f"from {self.least} to {self.most}"
                raise refuse(self.name, f"{text!r} is not a whole number {bounds}")
            return number
        if self.is_time:
            try:
                return parse_time(text)
            except ValueError as error:
                # An unescaped + in a query means a space.
                hint = " (a + is to be written as %2B)" if " " in text else ""
                raise refuse(self.name, f"{error}{hint}") from None
        return text


class Query:
    """The checked parameters of one request."""

    def __init__(self, request: Request, parameters: tuple[Parameter, ...]) -> None:
        """Check the parameters of the request; raise HTTPException 400 for the first that is wrong."""
        self._known = known = {parameter.name: parameter for parameter in parameters}
        self._given: dict[str, list[str | int]] = {}
        for name, text in request.query_params.multi_items():
            if name not in known:
                raise refuse(
                    name, f"there is none of this name; known: {', '.join(known) or 'none'}"
                )
            if len(text) > known[name].longest:
                raise refuse(name, f"longer than {known[name].longest} characters")
            given = self._given.setdefault(name, [])
            given.append(known[name].read(text))
            if len(given) > (MAX_VALUES if known[name].many else 1):
                raise refuse(name, "given too often")

    def one(self, name: str) -> Any:
        """Return a parameter's value, or its default; None if it has neither."""
        if name in self._given:
            return self._given[name][0]
        return self._known[name].default if name in self._known else None

    def all(self, name: str) -> tuple[Any, ...]:
        """Return all values of a parameter; empty when it was not given."""
        return tuple(self._given.get(name, ()))


def refuse(name: str, why: str) -> HTTPException:
    """Return the HTTPException 400 that names a parameter and says what is wrong with it."""
    return HTTPException(400, f"parameter {name!r}: {why}")


def whole_number(text: str) -> int:
    """Return a whole number from a cursor; raise ValueError for any text but plain digits.

    >>> whole_number("17")
    17
    >>> whole_number("1_7")
    Traceback (most recent call last):
    ValueError: 1_7
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise ValueError(text)
    return int(text)
