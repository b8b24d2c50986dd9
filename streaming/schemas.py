"""The rows that cross between Spark's JVM and our Python.

The rule: every type is built from its parts and never parsed from text, because the Python workers
that read them have no session to parse with.
"""

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

LAYOUT_VERSION = 2
"""Of the state's types below; a checkpoint of another version is rebuilt from the log."""

INPUT_COLUMNS = ("cluster", "partition", "offset", "timestamp_ms", "value")
"""What the processor gets of a record of the log: `cluster` is the record's key, or empty."""

COUNTS = ("changes", "unreadable", "unattributed", "errors")
"""What a batch counts of its rows."""

OUTPUT = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        *(StructField(name, LongType()) for name in (*COUNTS, "newest_ms")),
    ]
)
"""A record for the sink, or (topic null) the tally of one key's batch, which only metrics see."""

CONTROL = StructType(
    [
        StructField("control", BinaryType()),
        StructField("folds", LongType()),
        StructField("event_generation", LongType()),
        StructField("event_seq", LongType()),
        StructField("event_index", LongType()),
        StructField("chunks", LongType()),
        StructField("base_bytes", LongType()),
        StructField("list", LongType()),
        StructField("written", LongType()),
    ]
)
"""A cluster's control plane, packed; its batches so far; the last event's place (0, 0, 0: none); and
where base and journal of its topics stand (JournalPlace)."""

MEMBERS_KEY = StructType([StructField("group", IntegerType())])

MEMBERS = StructType([StructField("members", BinaryType())])
"""The memberships of a group of brokers, packed."""

CHUNK_KEY = StructType([StructField("chunk", LongType())])

CHUNK = StructType([StructField("topics", BinaryType())])
"""Some topics of a cluster, packed, by name."""

ENTRIES = StructType([StructField("topics", BinaryType())])
"""The topics that a batch changed, packed, by name; nil for one that is gone."""
