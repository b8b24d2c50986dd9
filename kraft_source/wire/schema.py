"""Defines how `schemas` describes Kafka's messages: a field is a line, a message a table of fields.

The terms are those of the JSON files inside Kafka's jars, from which `python -m tools.kraft` makes
`schemas`: a kind is Kafka's type, names are in snake_case.
"""

from typing import NamedTuple

ANY_VERSION = 32_767


class Field(NamedTuple):
    """One field of a message, in the versions from `since` to `until`."""

    name: str
    kind: str
    """int8 ... int64, uint16, bool, string, bytes, records, uuid, the name of a struct, or [] and one of these."""
    since: int = 0
    until: int = ANY_VERSION
    tag: int | None = None
    """The number of a tagged field, which is written only if its value is not the default."""
    default: int | str | bool | None = None
    """What an absent field means; None: null if the field is nullable, else the zero of its kind."""
    is_nullable: bool = False
    is_compact: bool = True
    """False where lengths keep their fixed size in flexible versions too: the client id of a request's header."""
    fields: tuple["Field", ...] = ()
    """The fields of a struct, or of an array's structs."""

    def is_in(self, version: int) -> bool:
        """Return whether a version of the message has this field."""
        return self.since <= version <= self.until


class Message(NamedTuple):
    """A request, a response, a header or a record."""

    api_key: int | None
    """The number of the request, or of the metadata record; None for headers and control records."""
    versions: tuple[int, int]
    """The first and the last version that the table describes."""
    flexible_since: int
    """The first version with compact lengths and tagged fields."""
    fields: tuple[Field, ...]
