"""Which source a cluster has: that of its first record, for as long as its state is held."""

from collections.abc import Iterable
from typing import Any

from controller_model.records.metadata_log import MetadataLogRecord
from controller_model.sources.kraft.source import KRAFT
from controller_model.sources.kraft.state import KraftState
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Source

_TAG = KraftState.__struct_config__.tag


def source_of(control: ControlPlane, records: Iterable[Any] = ()) -> Source:
    """Return the source of what is held of a cluster; if nothing is, that of the first of these records."""
    held = control.source
    if held is None:
        first = next(iter(records), None)
        return KRAFT if isinstance(first, MetadataLogRecord) else ZOOKEEPER
    is_kraft = isinstance(held, KraftState) or (isinstance(held, list) and held[:1] == [_TAG])
    return KRAFT if is_kraft else ZOOKEEPER


def is_of(source: Source, record: Any) -> bool:
    """Return whether a record is one of this source's."""
    return isinstance(record, MetadataLogRecord) == (source is KRAFT)
