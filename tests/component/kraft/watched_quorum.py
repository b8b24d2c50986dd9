"""Observers of a real quorum, each on a thread of its own, and the controllers' own files to compare with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from controller_model.kafka.metadata_records import LeaderChange
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kraft_source.observer.observer import NOTHING, Observer
from kraft_source.observer.released import Committed, CommittedBatch, Released
from kraft_source.runner import ObserverRunner
from kraft_source.wire.batches import RecordBatch, split_batches
from kraft_source.wire.connection import Access
from kraft_source.wire.messages import ControllerEndpoint, EpochEnd, FetchAnswer
from tests.support.waiting import wait_until


def endpoints_of(cluster: KraftCluster) -> list[ControllerEndpoint]:
    """Return where the controllers listen."""
    return [ControllerEndpoint(HOST, port) for port in cluster.quorum.ports.values()]


LATE = "no answer in time"
"""What a line says of a controller that was asked on busy cores: it is asked again."""


class Watching:
    """One observer at work, and all that it released."""

    def __init__(
        self, cluster: KraftCluster, access: Access | None = None, start: EpochEnd = NOTHING
    ) -> None:
        self.observer = Observer(endpoints_of(cluster), start)
        self.released: list[Released] = []
        self.divergences = 0
        """Answers that said that records which were not committed are gone."""
        self.runner = ObserverRunner(
            self.observer, access or Access(cluster.quorum.cluster_id), self.released.append
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.runner.run, args=[self._stopping], daemon=True)
        handle = self.observer.handle_answer

        def handle_answer(
            endpoint: ControllerEndpoint, answer: FetchAnswer, now: float
        ) -> list[Released]:
            self.divergences += isinstance(answer, FetchAnswer) and answer.diverging is not None
            return handle(endpoint, answer, now)

        self.observer.handle_answer = handle_answer  # type: ignore[assignment,method-assign]  # counts, and passes on

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop observing."""
        self._stopping.set()
        self._thread.join(40)
        assert not self._thread.is_alive()

    @property
    def batches(self) -> list[CommittedBatch]:
        """All committed batches that were released, in order."""
        return [
            batch for each in self.released if isinstance(each, Committed) for batch in each.batches
        ]

    @property
    def elected(self) -> list[Leader]:
        """The elections that were released, in order."""
        return [
            Leader(record.leader_id, record.epoch)
            for batch in self.batches
            for _, record in batch.records
            if isinstance(record, LeaderChange)
        ]

    def await_leader(self, cluster: KraftCluster, *, after: Leader | None = None) -> Leader:
        """Wait until the last election that was released is that of the leader by its own file, and return it.

        Voters on busy cores elect each other without being killed, and a leader may be gone before its election is
        committed. `after`: of a larger epoch than this one.
        """
        epoch = -1 if after is None else after.epoch
        led, _ = wait_until(
            lambda: (cluster.leader(), self.elected),
            lambda both: (
                both[0] is not None and both[0].epoch > epoch and both[1][-1:] == [both[0]]
            ),
        )
        assert led is not None
        return led

    def await_copies(self, cluster: KraftCluster) -> None:
        """Wait until the last batch that was released is in each controller's file: a majority is enough to commit."""
        last = self.batches[-1].last_offset
        wait_until(
            lambda: {
                voter: max((each.last_offset for each in batches_on_disk(node.log_dir)), default=-1)
                for voter, node in cluster.controllers.items()
            },
            lambda ends: min(ends.values()) >= last,
        )


def batches_on_disk(log_dir: Path) -> Iterator[RecordBatch]:
    """Yield the batches of a controller's own log."""
    for segment in sorted((log_dir / METADATA_FOLDER).glob("*.log")):
        yield from split_batches(segment.read_bytes())
