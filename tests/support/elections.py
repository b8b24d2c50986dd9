"""A fake cluster that elects, shown by the real exporter, and a run of elections on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from controller_model.kafka.ids import TopicPartition
from controller_model.records.changes import SessionState
from controller_model.records.views import Capability, ClusterConfig, ControllerView, Counts
from kcm.elect.admin import NOT_NEEDED
from kcm.elect.elect import make_plan
from kcm.elect.run import ElectionRun
from kcm.elect.watch import ClusterWatch
from kcm.queries.api_client import ExporterApi
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


class Ran:
    """A run that has ended."""

    def __init__(self, cluster: Cluster, url: str, *, chunk: int = 3) -> None:
        api = ExporterApi(url)
        plan = make_plan(api, "prod", None, None)
        chunks = [plan.partitions[at : at + chunk] for at in range(0, len(plan.partitions), chunk)]
        self.said: list[str] = []
        run = ElectionRun(
            chunks,
            elect=cluster.elect,
            watch=ClusterWatch(api, "prod"),
            pause_s=0.01,
            wait_s=1.0,
            say=self.said.append,
        )
        self.surprise = run.run()
        self.summary = "\n".join(run.summary())
