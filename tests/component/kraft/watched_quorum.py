"""Observers of a real quorum, each on a thread of its own, and the controllers' own files to compare with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import METADATA_FOLDER
from kraft_source.observer.observer import NOTHING, Observer
from kraft_source.observer.released import Committed, CommittedBatch, Released
from kraft_source.runner import ObserverRunner
from kraft_source.wire.batches import RecordBatch, split_batches
from kraft_source.wire.connection import Access
from kraft_source.wire.messages import ControllerEndpoint, EpochEnd, FetchAnswer


def endpoints_of(cluster: KraftCluster) -> list[ControllerEndpoint]:
    """Return where the controllers listen."""
    return [ControllerEndpoint(HOST, port) for port in cluster.quorum.ports.values()]


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


def batches_on_disk(log_dir: Path) -> Iterator[RecordBatch]:
    """Yield the batches of a controller's own log."""
    for segment in sorted((log_dir / METADATA_FOLDER).glob("*.log")):
        yield from split_batches(segment.read_bytes())
