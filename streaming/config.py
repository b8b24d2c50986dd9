"""Defines the settings of the fold.

What changes how fast or where the fold runs may change at any start. What changes its
figures (what the watched brokers' own files say) takes effect with the next batch and is shown in
the views. min.insync.replicas has no default: what depends on it is unknown until a user sets it.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import NoDecode

from controller_model.state.control_plane import Assumed
from pipeline.settings import PipelineSettings

_T = TypeVar("_T")

MinIsr = Annotated[int, Field(ge=1, le=2**31 - 1)]
Percentage = Annotated[int, Field(ge=0, le=100)]


def by_cluster(value: Any) -> Any:
    """Return figures by cluster name, from any of the accepted forms; raise ValueError for other text.

    >>> by_cluster("prod=2,stage=1") == by_cluster({"prod": "2,stage=1"})
    True
    >>> by_cluster('{"prod": 2}')
    {'prod': 2}
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return json.loads(value)
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={figure}" for name, figure in value.items())
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() and sign for name, sign, _ in pairs):
        raise ValueError("name each cluster and its value, such as prod=2,stage=1")
    return {name.strip(): figure.strip() for name, _, figure in pairs}


ByCluster = Annotated[dict[str, _T], NoDecode, BeforeValidator(by_cluster)]
"""Figures by the names of clusters, in any of the accepted forms."""


class StreamSettings(PipelineSettings):
    """The settings of the fold, in addition to those of the topics."""

    checkpoint_dir: Path = Field(
        Path("~/.local/state/kcm/checkpoint"),
        description="Folder of the fold's state, offsets and temporary files, on a fast local "
        "disk. Only one fold at a time may use it. If it is lost, the fold starts "
        "again from the log. A batch takes 40 ms longer if Unix sockets cannot be "
        "created in it, because its path is longer than 50 bytes or its file system "
        "does not support them.",
    )
    max_offsets_per_trigger: int = Field(
        400,
        ge=1,
        le=10_000,
        description="Maximum number of the log's messages in one batch. A message has up to 125 "
        "changes or 128 KiB and is filled while an earlier one is being sent, so this "
        "limits a batch's changes and memory, and how long one cluster's resync delays "
        "the others.",
    )
    driver_memory: str = Field(
        "1g",
        pattern=r"^[1-9][0-9]*[mg]$",
        description="Heap of Spark's JVM, such as 1g; RocksDB and Python come on top.",
    )
    spark_master: str = Field(
        "local[2]",
        description="Spark's master: local[N] for N threads on this machine, or a cluster's URL.",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        description="More Spark properties, which override the monitor's; as JSON in the "
        "environment.",
    )
    connector_jars: Annotated[tuple[Path, ...], NoDecode] = Field(
        (),
        description="Jars of Spark's Kafka connector, separated by commas or colons; `kcm stream` "
        "downloads and fills them in.",
    )
    class_archive: Path | None = Field(
        None,
        description="Class data sharing archive for Spark's JVM, which halves its start time; `kcm "
        "up` creates one at its first start, and `kcm stream` uses it.",
    )
    java_home: Path | None = Field(
        None, description="Folder of Java 17 or newer; by default JAVA_HOME, else the java on PATH."
    )
    poll_delay_ms: int = Field(
        40,
        ge=1,
        le=10_000,
        description="Pause between two checks for new records while there are none; a longer pause "
        "adds delay and saves CPU time.",
    )
    topic_check_interval_s: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="How often the topics are checked for having been deleted or re-created.",
    )
    stream_metrics_port: int = Field(
        9642,
        ge=0,
        le=65535,
        description="Port of the fold's own /metrics; 0 takes a free one and logs it.",
    )
    min_insync_replicas: ByCluster[MinIsr] = Field(
        default_factory=dict,
        description="min.insync.replicas in the configuration files of each watched cluster's "
        "brokers, which ZooKeeper does not show, by cluster: prod=2,stage=1. For a "
        "cluster that is missing here, the figures that depend on it are not known; "
        "`kcm doctor` reads the value from the brokers.",
    )
    leader_imbalance_percentage: ByCluster[Percentage] = Field(
        default_factory=dict,
        description="leader.imbalance.per.broker.percentage in the configuration files of each "
        "watched cluster's brokers, by cluster; above it, the monitor recommends "
        "preferred elections.",
    )
    auto_leader_rebalance: ByCluster[bool] = Field(
        default_factory=dict,
        description="auto.leader.rebalance.enable in the configuration files of each watched "
        "cluster's brokers, by cluster: prod=false. For a cluster that is missing "
        "here, Kafka's default, true, is assumed: elections may be the controller's "
        "own.",
    )
    assumed_min_insync_replicas: MinIsr | None = Field(
        None, description="Value for all clusters that min_insync_replicas does not name."
    )
    assumed_leader_imbalance_percentage: Percentage = Field(
        10, description="Value for all clusters that leader_imbalance_percentage does not name."
    )

    @field_validator("checkpoint_dir", "class_archive", "java_home")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("connector_jars", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        if isinstance(value, str):
            separators = "," + re.escape(os.pathsep)
            return tuple(Path(part) for part in re.split(f"[{separators}]", value) if part.strip())
        return value

    def assumed(self, cluster: str = "") -> Assumed:
        """Return what the own files of a cluster's brokers say; "" stands for a cluster that no setting names."""
        return Assumed(
            self.min_insync_replicas.get(cluster, self.assumed_min_insync_replicas),
            self.leader_imbalance_percentage.get(cluster, self.assumed_leader_imbalance_percentage),
            self.auto_leader_rebalance.get(cluster, True),
        )

    def assumed_by_cluster(self) -> dict[str, Assumed]:
        """Return the same for every cluster that the settings name."""
        named = {
            *self.min_insync_replicas,
            *self.leader_imbalance_percentage,
            *self.auto_leader_rebalance,
        }
        return {name: self.assumed(name) for name in sorted(named)}
