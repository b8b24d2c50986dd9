"""`python -m kcm.servers.archive_training spark|kafka FILE JAVA JAR...`: run a JVM that writes its loaded classes to FILE at its end."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kcm.servers.class_archive import DEADLINE_S, SPARK_CLASSES
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor

BATCHES = 3
"""Batches of the query: nothing new is loaded from the second one on."""

_POLL_S = 0.1


def _train_spark(made: Path, java: Path, connector: Sequence[Path]) -> None:
    """Start Spark as the fold does, and run a query with state."""
    from pipeline.settings import load  # noqa: PLC0415  # Spark takes a second to import
    from streaming.config import StreamSettings  # noqa: PLC0415
    from streaming.session import Session  # noqa: PLC0415
    from streaming.workspace import Workspace  # noqa: PLC0415

    settings = load(
        StreamSettings,
        connector_jars=tuple(connector),
        spark_conf={"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={made}"},
    )
    with Workspace(made.parent / "checkpoint", stop=threading.Event()) as workspace:
        session = Session(settings, workspace, java)
        try:
            _query(session.spark, workspace.root)
        finally:
            session.close(jvm_deadline_s=DEADLINE_S)


def _query(spark: Any, folder: Path) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.selectExpr("value % 3 AS key").groupBy("key").count()
    writer = counts.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", os.fspath(folder / "query")).start()
    while query.isActive and (query.lastProgress or {}).get("batchId", 0) < BATCHES:
        time.sleep(_POLL_S)
    query.stop()


def _train_kafka(made: Path, broker: Sequence[Path]) -> None:
    """Start a node that is a broker and a controller, with the Java that all servers take, and stop it."""
    with Supervisor(made.parent, kill_on_exit=True) as supervisor:
        server = KraftBroker(supervisor, Jars([], list(broker)), made.parent / "broker")
        server.jvm_options = (f"-XX:ArchiveClassesAtExit={made}",)
        server.start()
        server.stop()


def main(of: str, made: Path, java: Path, jars: Sequence[Path]) -> None:
    """Run the JVM of the kind whose name is `of`."""
    made.parent.mkdir(parents=True, exist_ok=True)
    if of == SPARK_CLASSES.name:
        _train_spark(made, java, jars)
    else:
        _train_kafka(made, jars)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), [Path(each) for each in sys.argv[4:]])
