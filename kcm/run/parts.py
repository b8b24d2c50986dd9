"""`kcm watch`, `kcm stream`, `kcm export`: run one part, with options made from its settings."""

from pathlib import Path

from kcm.cli.options import NO_CLUSTER, Options, with_options
from kcm.cli.parts import (
    EXPORT,
    KRAFT_WATCH,
    STREAM,
    WATCH,
    load_part,
    require_cluster,
    run_part,
    watch_part,
)
from kcm.servers.class_archive import SPARK_CLASSES, find_class_archive
from kcm.servers.jars import ensure_jars
from pipeline.java import use_java
from streaming.config import StreamSettings


@with_options(WATCH.settings, KRAFT_WATCH.settings, defaults=NO_CLUSTER)
def watch(config: Path | None, options: Options) -> int:
    """Watch one cluster's ZooKeeper, or its KRaft controllers, and write its changes to the log.

    Examples: kcm watch --cluster prod --zookeeper zk1:2181,zk2:2181/kafka --bootstrap-servers k1:9092,
    kcm watch --cluster prod --controllers c1:9093,c2:9093,c3:9093 --bootstrap-servers k1:9092

    Every option can also be given as an environment variable (--session-timeout-s as KCM_SESSION_TIMEOUT_S) or in
    the configuration file (session_timeout_s = 6). Give passwords there: arguments are visible to all users.
    """
    part = watch_part(config, options)
    load_part(part, config, options)  # what is wrong with a setting comes first
    require_cluster(config, options)
    return run_part(part, config, options)


@with_options(STREAM.settings)
def stream(config: Path | None, options: Options) -> int:
    """Fold the log into views and events with Spark.

    Example: kcm stream --bootstrap-servers k1:9092 --checkpoint-dir /var/lib/kcm/checkpoint

    Every option can also be given as an environment variable (--driver-memory as KCM_DRIVER_MEMORY) or in the
    configuration file (driver_memory = "1g"). Java 17 or newer is needed.
    """
    return run_part(STREAM, config, options, prepare=with_connector_jars)


@with_options(EXPORT.settings)
def export(config: Path | None, options: Options) -> int:
    """Serve /metrics for Prometheus, an HTTP API and a live page.

    Example: kcm export --bootstrap-servers k1:9092 --host 0.0.0.0 --port 9640

    Every option can also be given as an environment variable (--port as KCM_PORT) or in the configuration file
    (port = 9640).
    """
    return run_part(EXPORT, config, options)


def with_connector_jars(settings: StreamSettings) -> StreamSettings:
    """Return the settings with the connector's jars, downloaded if none were given, and their class archive."""
    java = use_java(settings.java_home)
    jars = settings.connector_jars or tuple(ensure_jars().connector)
    archive = settings.class_archive or find_class_archive(SPARK_CLASSES, jars, java)
    return settings.model_copy(update={"connector_jars": jars, "class_archive": archive})
