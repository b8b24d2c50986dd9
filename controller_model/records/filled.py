"""Build records that repeat fields of another object under the same names."""

from typing import TypeVar

import msgspec

_RecordT = TypeVar("_RecordT", bound=msgspec.Struct)


def filled(kind: type[_RecordT], held: object, **others: object) -> _RecordT:
    """Return a record with the values of `others`, and each other field as `held` has it.

    Raises AttributeError for a field that neither has.

    >>> from controller_model.kafka.ids import AsOf, Position
    >>> filled(AsOf, Position(1, 7), lineage="l")
    AsOf(lineage='l', generation=1, seq=7)
    """
    same = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**others, **{name: getattr(held, name) for name in same})
