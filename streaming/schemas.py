"""Defines the rows that pass between Spark's JVM and Python.

Every type is built from its parts and never parsed from text, because the Python workers
that read them have no session to parse with.
"""

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

LAYOUT_VERSION = 3
"""The version of the state's types below; a checkpoint of another version is rebuilt from the log."""

COUNTS = ("changes", "unreadable", "unattributed", "errors")
"""What a batch counts about its rows."""

BATCH_COUNTS = "fold"
"""The name in Spark's progress of what the query observes about itself."""

OUTPUT = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        *(StructField(name, LongType()) for name in (*COUNTS, "newest_ms")),
    ]
)
"""A record for the sink, or (topic null) the counts of one key's batch, which only metrics use."""

STATE_KEY = StructType([StructField("part", IntegerType()), StructField("key", LongType())])
"""Where a value is in the state of a cluster (state_map.StatePart)."""

STATE_VALUE = StructType([StructField("packed", BinaryType())])
"""The control plane, the memberships of a group of brokers, a chunk of topics, or the topics that a
batch changed."""
