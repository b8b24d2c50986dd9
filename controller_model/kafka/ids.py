"""Identifiers: cluster names, partitions, replicas, and positions in the log.

An id is a small immutable value that sorts as people expect. Ids are defined here and
nowhere else, because all parts of the pipeline must agree on them exactly.
"""

import re
import zlib
from typing import NamedTuple

import msgspec

from controller_model.kafka.errors import ModelError

NO_LEADER = -1
"""The leader that Kafka writes when a partition has none (LeaderAndIsr.NoLeader)."""

LEADER_DURING_DELETE = -2
"""The leader that Kafka writes while the partition is deleted (LeaderAndIsr.LeaderDuringDelete)."""

NO_CONTROLLER = -1
"""The controller id that the figures show while nobody holds /controller."""

new_tuple = tuple.__new__
"""Creates a NamedTuple in half the time of its own constructor, which is Python code."""

_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TopicPartition(NamedTuple):
    """One partition of a topic (org.apache.kafka.common.TopicPartition)."""

    topic: str
    partition: int


class PartitionAndReplica(NamedTuple):
    """One replica of a partition, on the broker `replica` (kafka.controller.PartitionAndReplica)."""

    topic: str
    partition: int
    replica: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that it is a replica of."""
        return new_tuple(TopicPartition, self[:2])


class Position(NamedTuple):
    """A position in a cluster's log: the generation of a watcher, and the number (seq) of a change.

    Positions sort in the order of the log: a position of a later generation is after all positions
    of an earlier one.
    """

    generation: int
    seq: int


NOWHERE = Position(0, 0)
"""Before the first change of the first generation: generations and seqs start at 1."""


class AsOf(msgspec.Struct, frozen=True, order=True):
    """Which changes a view includes: all up to (generation, seq), folded in this lineage.

    A lineage's name begins with the time at which it was made, so `<` finds the newer of two views
    of one key, across restarts, replays of a batch, and a lost checkpoint.
    """

    lineage: str
    generation: int
    seq: int

    @property
    def position(self) -> Position:
        """The position in the log up to which the view includes all changes."""
        return Position(self.generation, self.seq)


def check_cluster_name(name: str) -> str:
    """Return the name if it is valid as a key, a label and a file name; raise ModelError otherwise.

    >>> check_cluster_name("prod-eu.1")
    'prod-eu.1'
    """
    if not _CLUSTER_NAME.fullmatch(name):
        raise ModelError(
            f"cluster name {name!r}: use 1 to 64 of letters, digits, '.', '_' and '-', "
            "a letter or digit first"
        )
    return name


def join_host_port(host: str, port: int) -> str:
    """Return an address as clients and URLs read it: IPv6 in brackets.

    >>> join_host_port("b1", 9092), join_host_port("::1", 9092)
    ('b1:9092', '[::1]:9092')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def broker_address(host: str | None, port: int | None) -> str | None:
    """Return where a broker listens, as Kafka's clients read it: IPv6 in brackets. None if it has no host.

    >>> [broker_address(*each) for each in (("b1", 9092), ("::1", 9092), ("b1", None), (None, None))]
    ['b1:9092', '[::1]:9092', 'b1', None]
    """
    if host is None or port is None:
        return host
    return join_host_port(host, port)


def partition_of(cluster: str, partitions: int) -> int:
    """Return the partition that holds all records of a cluster, the same in all three topics.

    >>> partition_of("prod", 1)
    0
    """
    return zlib.crc32(cluster.encode()) % partitions
