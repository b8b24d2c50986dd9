"""The rows that cross between Spark's JVM and our Python.

The rule: every type is built from its parts and never parsed from text, because the Python workers
that read them have no session to parse with.
"""

from __future__ import annotations

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

LAYOUT_VERSION = 1
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
    ]
)
"""A cluster's control plane, packed; its batches so far; the last event's place (0, 0, 0: none)."""

TOPIC_KEY = StructType([StructField("topic", StringType())])

TOPIC = StructType([StructField("state", BinaryType())])
"""One topic of a cluster, packed."""
