"""Says which records readers must have at once, and which may wait for others on their way into the log.

The rule: who is the active controller, which brokers are registered and fenced, and which partitions have a leader, and
whom, is never held back, nor is any record by which readers judge the log: snapshots, reconciliations, heartbeats. All
else may wait. The order of the log stays: what is urgent takes with it what waits before it (`source_log.publisher`).
"""

from controller_model.kafka.metadata_records import (
    LeaderChange,
    MetadataRecord,
    Partition,
    PartitionChange,
    RemoveTopic,
)
from controller_model.records.metadata_log import AnyMetadataRecord, MetadataSlice
from kraft_source.slices import ABOUT_BROKERS

AT_ONCE = (LeaderChange, Partition, RemoveTopic, *ABOUT_BROKERS)
"""Records that never wait. A change of a partition does not either if it names a leader."""


def may_wait(record: AnyMetadataRecord) -> bool:
    """Return whether a record of the log may wait: a slice in which nothing is urgent."""
    return isinstance(record, MetadataSlice) and not any(
        _is_urgent(each) for batch in record.batches for each in batch.records
    )


def _is_urgent(record: MetadataRecord) -> bool:
    if isinstance(record, PartitionChange):
        return record.leader is not None
    return isinstance(record, AT_ONCE)
