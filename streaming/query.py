"""Builds the query: log -> fold -> views and events.

The rule: nothing here may change the order of a cluster's records. A record's Kafka key names its
cluster, so no JSON is read before Python. The offset is passed along, so that the processor can
restore the order. The source is never split finer than Kafka's partitions.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the customary name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from pipeline.topics import MAX_MESSAGE_BYTES, EnsuredTopics
from streaming.config import StreamSettings
from streaming.kafka_options import client_options
from streaming.lineage import Lineage
from streaming.processor import FoldParameters, FoldProcessor
from streaming.schemas import BATCH_COUNTS, COUNTS, OUTPUT

FETCH_WAIT_MS = 5
"""How long a broker may delay a fetch; the default of 500 ms would appear as task time."""

TIME_MODE = "None"
"""The processor has no timers."""

MAX_CAUSES = 20
"""How many exceptions are followed from a failed query to its cause; Spark nests five or six."""

REQUEST_BYTES = MAX_MESSAGE_BYTES + 512 * 1024
"""The largest request of source and sink: a record of the largest size, with its framing."""


def start_query(
    spark: SparkSession,
    settings: StreamSettings,
    topics: EnsuredTopics,
    lineage: Lineage,
    checkpoint: Path,
) -> StreamingQuery:
    """Start the fold from its checkpoint, or from the log's earliest record if that is empty."""
    # One task for each cluster folded in parallel; Spark keeps the number from the checkpoint's
    # first run.
    spark.conf.set("spark.sql.shuffle.partitions", str(topics.partitions))
    parameters = FoldParameters(
        lineage=lineage.name,
        views_topic=topics.names.views,
        events_topic=topics.names.events,
        partitions=topics.partitions,
        assumed=settings.assumed(),
        assumed_by_cluster=settings.assumed_by_cluster(),
    )
    records = source(spark, settings, topics.names.changes)
    if topics.partitions == 1:
        # One task reads and folds. Otherwise Spark runs two stages with a shuffle between them.
        records = records.coalesce(1)
    folded = fold(records, FoldProcessor(parameters))
    writer = (
        folded.writeStream.format("kafka")
        .queryName(f"kcm-{lineage.name}")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .options(**client_options(settings))
        .option("kafka.max.request.size", str(REQUEST_BYTES))
        .option("kafka.buffer.memory", str(8 * REQUEST_BYTES))
        .option("kafka.acks", "all")
        .option("kafka.linger.ms", "0")
    )
    return writer.start()


def failure_text(query: StreamingQuery) -> str:
    """Return why a query failed, with all causes, the innermost last."""
    found = query._jsq.exception()  # noqa: SLF001  # Python's copy has no causes
    if not found.isDefined():
        return "the query ended by itself"
    error = found.get()
    lines: list[str] = []
    while error is not None and len(lines) < MAX_CAUSES:
        lines.append(f"Caused by: {error.toString()}")
        error = error.getCause()
    return "\n".join(lines)


def source(spark: SparkSession, settings: StreamSettings, changes_topic: str) -> DataFrame:
    """Return the log as the processor's rows; `cluster` is the record's key, empty where that is not valid UTF-8."""
    records = (
        spark.readStream.format("kafka")
        .options(**client_options(settings))
        .option("subscribe", changes_topic)
        .option("startingOffsets", "earliest")
        # The holes in the seqs show a log that was cut; stopping would not restore it.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", str(settings.max_offsets_per_trigger))
        .option("kafka.fetch.max.wait.ms", str(FETCH_WAIT_MS))
        .option("kafka.max.partition.fetch.bytes", str(REQUEST_BYTES))
        .load()
    )
    name = F.coalesce(F.try_validate_utf8(F.col("key").cast("string")), F.lit(""))
    return records.select(
        name.alias("cluster"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "value",
    )


def fold(records: DataFrame, processor: FoldProcessor) -> DataFrame:
    """Return the records for the sink; the counts are observed as BATCH_COUNTS."""
    rows = _transform_with_state(records, processor)
    counts = [F.sum(name).alias(name) for name in COUNTS]
    observed = rows.observe(BATCH_COUNTS, *counts, F.max("newest_ms").alias("newest_ms"))
    # The sink takes its columns by name: choosing them here would cost each batch another step.
    return observed.where(F.col("topic").isNotNull())


def _transform_with_state(records: DataFrame, processor: StatefulProcessor) -> DataFrame:
    """Do what `records.groupBy("cluster").transformWithState(processor, OUTPUT, "update", "None")` does.

    That method requires pandas, though the rows never become its frames. Where pandas is installed,
    pyarrow imports it, whoever builds the plan. Without pandas the fold's Python needs 195 MiB, with
    it 260 (`python -m bench patches --only transform`, which needs pandas, beside `--only nothing`).
    """
    spark = records.sparkSession
    handler = TransformWithStateInPandasUdfUtils(processor, TIME_MODE).transformWithStateUDF
    kind = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
    handle = UserDefinedFunction(handler, returnType=OUTPUT, evalType=kind)
    transformed: Any = records.groupBy("cluster")._jgd.transformWithStateInPySpark(  # noqa: SLF001
        handle(*(records[name] for name in records.columns))._jc,  # noqa: SLF001
        spark._jsparkSession.parseDataType(OUTPUT.json()),  # noqa: SLF001
        "update",
        TIME_MODE,
        None,  # no initial state
        "",  # no column of event time
    )
    return DataFrame(transformed, spark)
