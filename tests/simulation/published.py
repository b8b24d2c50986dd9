"""What the fold has published at each commit, and whether an exporter holds exactly that.

The rule: it follows the records of the fold's batches one by one and uses no digests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf
from controller_model.records.views import BrokerView, ClusterView, Deleted, decode_view, view_key
from exporter.core.records import ClusterSnapshot

Views = Mapping[str, Any]
"""The content of views by key, without their `as_of`."""

_NO_AS_OF = AsOf("", 0, 0)


class Published:
    """The views that the fold had published at each of its commits."""

    def __init__(self) -> None:
        self._at: dict[tuple[AsOf, int], Views] = {}
        self.has_stranger = False
        """Another program has written a readable view: its content may be the same, but not its bytes."""

    def note_stranger(self, value: bytes) -> None:
        """Record a record in the topic of views that the fold did not write."""
        with contextlib.suppress(UnreadableRecordError):
            decode_view(value)
            self.has_stranger = True

    def after(self, before: Views, records: Iterable[tuple[str, bytes | None]]) -> Views:
        """Return what is published after a batch, from what was published before it."""
        held = dict(before)
        for key, value in records:
            view = None if value is None else decode_view(bytes(value))
            match view:
                case ClusterView():
                    # A reader that never had a broker as published does not delete it: the
                    # cluster's view does.
                    known = set(view.brokers_known)
                    held = {
                        k: v
                        for k, v in held.items()
                        if not isinstance(v, BrokerView) or v.id in known
                    }
                    self._at[view.as_of, view.folded_at] = held
                case Deleted():
                    held.pop(key, None)
                case None:
                    pass
                case _:
                    held[key] = _said(view)
        return held

    def is_other(self, shown: ClusterSnapshot) -> bool:
        """Return whether an exporter shows views other than those published at its commit."""
        others = filter(None, (*shown.brokers.values(), shown.incidents, shown.recommendation))
        views: list[Any] = [*(entry.decode() for entry in shown.topics.values()), *others]
        held = {view_key(view): _said(view) for view in views}
        return held != self._at[shown.view.as_of, shown.view.folded_at]


def _said(view: Any) -> Any:
    return msgspec.structs.replace(view, as_of=_NO_AS_OF)
