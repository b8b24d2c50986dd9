"""Which source a cluster has: that of its first record, for as long as its state is held.

Each source stands in the table here, and its records in `AnyRecord` and in the decoders of `records`.
"""

from collections.abc import Iterable
from typing import Any

from controller_model.records.changes import ZnodeChange
from controller_model.records.metadata_log import MetadataLogRecord
from controller_model.sources.kraft.source import KRAFT
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Source

_SOURCES: tuple[tuple[Source, type], ...] = ((KRAFT, MetadataLogRecord), (ZOOKEEPER, ZnodeChange))
"""Each source with the class of its records, ZooKeeper's last: its state alone has no tag."""


def source_of(control: ControlPlane, records: Iterable[Any] = ()) -> Source:
    """Return the source of what is held of a cluster; if nothing is, that of the first of these records."""
    held = control.source
    if held is None:
        return _by_record(next(iter(records), None))
    for source, _ in _SOURCES:
        tag = source.state_type.__struct_config__.tag
        if isinstance(held, source.state_type) or (isinstance(held, list) and held[:1] == [tag]):
            return source
    return ZOOKEEPER


def is_of(source: Source, record: Any) -> bool:
    """Return whether a record is one of this source's."""
    return _by_record(record) is source


def _by_record(record: Any) -> Source:
    for source, records in _SOURCES:
        if isinstance(record, records):
            return source
    return ZOOKEEPER
