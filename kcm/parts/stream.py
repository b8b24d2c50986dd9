"""`kcm stream`: the fold alone, with the jars of Spark's Kafka connector at hand."""

from __future__ import annotations

from pathlib import Path

from kcm.cli.options import Options, with_options
from kcm.cli.parts import STREAM, run_part
from kcm.jars.jars import ensure_jars
from streaming.config import StreamSettings


@with_options((STREAM.title, STREAM.settings))
def stream(config: Path | None, options: Options) -> int:
    """Fold the log into views and events with Spark.

    Example: kcm stream --bootstrap-servers k1:9092 --checkpoint-dir /var/lib/kcm/checkpoint

    Every option can also be given as an environment variable (--driver-memory as KCM_DRIVER_MEMORY) or in the
    configuration file (driver_memory = "1g"). Java 17 or newer is needed.
    """
    return run_part(STREAM, config, options, prepare=with_connector_jars)


def with_connector_jars(settings: StreamSettings) -> StreamSettings:
    """Return the settings with the connector's jars, downloading them if nobody gave any."""
    if settings.connector_jars:
        return settings
    jars = tuple(ensure_jars(progress=True).connector)
    return settings.model_copy(update={"connector_jars": jars})
