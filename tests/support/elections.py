"""A fake cluster that elects, shown by the real exporter, and the client through which `kcm elect` asks it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.changes import SessionState
from controller_model.records.views import Capability, ClusterConfig, ControllerView, Counts
from kcm.elect.admin import NOT_NEEDED
from tests.support.api_server import Served
from tests.support.samples import as_of, broker_view, cluster_view, log_view, topic_view

PARTITIONS = 7
"""Partition of topic t whose preferred replica is broker 1 and whose leader is broker 0."""


class Cluster:
    """A fake cluster, shown by the real exporter; it elects when asked."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.leaders = [0] * PARTITIONS
        self.live = {0, 1, 2}
        self.controller = 0
        self.session = SessionState.CONNECTED
        self.hidden: tuple[Capability, ...] = ()
        self.offline = 0
        self.under_min_isr = 0
        self.epochs = {0: 40, 1: 41, 2: 42}
        self.there = range(PARTITIONS)
        """Partitions that exist."""
        self.adding: set[int] = set()
        """Partitions that are being reassigned, whose preferred replica is new and in sync."""
        self.cluster_id: str | None = "played"
        self.asked: list[list[int]] = []
        self.after: dict[int, Callable[[], None]] = {}
        """What else happens with the request of this number, counted from 1."""
        self.refuses: dict[int, str] = {}
        """Errors by partition; a partition with an error keeps its leader."""
        self.late: dict[int, str] = {}
        """Errors by partition that Kafka returns although it elects."""
        self.deaf: set[int] = set()
        """Partitions that Kafka reports as elected while their leader does not move."""
        self._seq = itertools.count(1)

    def show(self) -> None:
        """Make the exporter show the current state."""
        at = as_of(next(self._seq))
        there, count = tuple(self.there), len(self.there)
        not_led = {each for each in there if self.leaders[each] != 1}
        wrong = len(not_led | self.adding.intersection(there))
        self.served.write(
            *(
                broker_view(id_, at, live=id_ in self.live, epoch=self.epochs[id_])
                for id_ in range(3)
            ),
            topic_view(
                "t",
                at,
                partitions=there,
                replicas=((1, 0),) * count,
                leader=tuple(self.leaders[each] for each in there),
                isr=((0, 1),) * count,
                leader_epoch=(1,) * count,
                controller_epoch=(7,) * count,
                partition_epoch=(1,) * count,
                leader_recovery_state=(None,) * count,
                adding=dict.fromkeys(self.adding, (1,)),
            ),
            cluster_view(
                at=at,
                config=ClusterConfig(cluster_id=self.cluster_id),
                brokers_live=tuple(sorted(self.live)),
                brokers_known=(0, 1, 2),
                log=log_view(session=self.session, hidden=self.hidden),
                controller=ControllerView(id=self.controller, epoch=7 + self.controller),
                counts=Counts(
                    topics=1,
                    partitions=count,
                    offline=self.offline,
                    under_min_isr=self.under_min_isr,
                    preferred_imbalance=wrong,
                    preferred_electable=len(not_led),
                ),
            ),
        )

    def elect(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str | None]:
        """Elect the preferred replicas, as Kafka does."""
        self.asked.append([p.partition for p in partitions])
        answer: dict[TopicPartition, str | None] = {}
        for each in partitions:
            error = self.refuses.get(each.partition)
            if error is None and self.leaders[each.partition] == 1:
                error = NOT_NEEDED
            if error is None and each.partition not in self.deaf:
                self.leaders[each.partition] = 1
            answer[each] = error or self.late.get(each.partition)
        self.after.get(len(self.asked), lambda: None)()
        self.show()
        return answer


class ElectingAdmin:
    """Replaces confluent-kafka's AdminClient of the watched cluster.

    The rule: it is the edge of the network, so all of kcm's own code runs.
    """

    def __init__(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, is_wrapped: bool = False
    ) -> None:
        """Take the cluster, and whether the error of a partition is wrapped in an exception."""
        self.cluster_id = "played"
        self.is_away = False
        self.properties: dict[str, Any] = {}
        self._cluster = cluster
        self._is_wrapped = is_wrapped
        monkeypatch.setattr("kcm.elect.admin.AdminClient", self._made)

    def _made(self, properties: dict[str, Any], *, logger: None) -> ElectingAdmin:
        assert logger is None
        self.properties = properties
        return self

    def describe_cluster(self, request_timeout: float) -> Future[Any]:
        """Return the cluster's id."""
        assert request_timeout > 0
        return self._answer(lambda: SimpleNamespace(cluster_id=self.cluster_id))

    def elect_leaders(
        self, kind: ck.ElectionType, partitions: list[ck.TopicPartition]
    ) -> Future[Any]:
        """Elect preferred replicas."""
        assert kind is ck.ElectionType.PREFERRED
        return self._answer(
            lambda: {
                ck.TopicPartition(each.topic, each.partition): self._error(name)
                for each, name in self._cluster.elect(
                    [TopicPartition(each.topic, each.partition) for each in partitions]
                ).items()
            }
        )

    def poll(self, _timeout: float) -> None:
        """Report why Kafka does not answer."""
        self.properties["error_cb"](ck.KafkaError(ck.KafkaError._TRANSPORT, "connection refused"))

    def _answer(self, answer: Callable[[], object]) -> Future[Any]:
        future: Future[Any] = Future()
        if self.is_away:
            future.set_exception(ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT)))
        else:
            future.set_result(answer())
        return future

    def _error(self, name: str | None) -> ck.KafkaError | ck.KafkaException | None:
        if name is None:
            return None
        error = ck.KafkaError(getattr(ck.KafkaError, name))
        return ck.KafkaException(error) if self._is_wrapped else error
