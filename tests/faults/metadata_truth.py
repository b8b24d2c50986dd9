"""What was true when in a KRaft cluster: what a majority of its controllers has in its own log files.

The rule: what a record means is read here by Kafka's rules (PartitionRegistration.merge, ClusterControlManager.replay),
not by the monitor's; only the codec of records is the monitor's, which is compared with Kafka's own elsewhere. A value
is true from the append of its batch on, or from when a majority has it, if that is later. What a leader appended in its
last second may be known as committed only with its successor's LeaderChange: its high watermark died with it. Values have the paths
that ZooKeeper would give them, so that the same judge serves both.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from controller_model.kafka import metadata_records as kafka
from kcm.demo.figures import TrueFigures
from kcm.demo.truth import TOPICS, figures_of_znodes, state_path
from kcm.servers.quorum import METADATA_FOLDER
from kraft_source.wire.batches import CorruptBatchError, RecordBatch, split_batches
from kraft_source.wire.records import decode
from tests.faults.truth import VACANT, Known, Written

POLL_S = 0.1
LATE_S = 1.0
"""A batch that is seen so long after its append was not committed before, or the test itself was late."""
KNOWN_IN_S = 1.0
"""How long a leader may take to learn that a majority has a record."""
QUIET_S = 0.5
STOP_DEADLINE_S = 10.0


class Batch(NamedTuple):
    """A committed batch: its offsets, epoch, time, and records by offset."""

    offset: int
    last_offset: int
    epoch: int
    at: int
    records: Mapping[int, Any]


class MetadataLogs:
    """The logs of all voters, read as far as a majority agrees."""

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self._folders = [each / METADATA_FOLDER for each in log_dirs]
        self._held: list[list[RecordBatch]] = [[] for _ in log_dirs]
        self._places: list[tuple[Path, int]] = [(Path(), 0) for _ in log_dirs]
        """Where the last batch of each begins: a voter that has led alone cuts its log, and writes others there."""
        self.committed: list[Batch] = []

    def read(self) -> list[Batch]:
        """Read what is new; return the batches that are committed now and were not before."""
        for voter in range(len(self._folders)):
            try:
                self._read_voter(voter)
            except CorruptBatchError:  # cut and written again while it was read
                self._held[voter].clear()
        majority = len(self._folders) // 2 + 1
        found: list[Batch] = []
        while True:
            number = len(self.committed)
            next_ones = [held[number] for held in self._held if len(held) > number]
            places = [(each.offset, each.last_offset, each.epoch) for each in next_ones]
            chosen = next((each for each in places if places.count(each) >= majority), None)
            if chosen is None:
                return found
            batch = next_ones[places.index(chosen)]
            new = Batch(*batch[:4], dict(decode(batch).records))
            self.committed.append(new)
            found.append(new)

    def _read_voter(self, voter: int) -> None:
        held = self._held[voter]
        path, position = self._places[voter]
        segments = sorted(self._folders[voter].glob("*.log"))
        if not segments:
            return
        data = _behind(path, position) if path in segments else b""
        if not held or not data.startswith(held[-1].data):  # cut, and perhaps written again
            held.clear()
            path, position = segments[0], 0
            data = _behind(path, 0)
        start = len(held[-1].data) if held else 0
        for segment in segments[segments.index(path) :]:
            if segment != path:
                position = start = 0
                data = _behind(segment, 0)
            for batch in split_batches(data, start):
                if held and batch.offset != held[-1].last_offset + 1:
                    held.clear()  # cut meanwhile: it is read again the next time
                    return
                held.append(batch)
                self._places[voter] = (segment, position + start)
                start += len(batch.data)


def _behind(path: Path, position: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read()


class LedPartition(NamedTuple):
    """What a leader must know to change a partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int


class _Partition:
    """A partition by Kafka's rules."""

    def __init__(self, record: kafka.Partition) -> None:
        self.replicas, self.isr, self.leader = record.replicas, record.isr, record.leader
        self.epoch, self.leader_epoch = record.partition_epoch, record.leader_epoch

    def change(self, record: kafka.PartitionChange) -> None:
        """Apply a change."""
        self.replicas = self.replicas if record.replicas is None else record.replicas
        self.isr = self.isr if record.isr is None else record.isr
        if record.leader is not None:
            self.leader = record.leader
            self.leader_epoch += 1
        self.epoch += 1

    @property
    def state(self) -> bytes:
        """Leader and ISR, as a state znode has them."""
        return json.dumps({"leader": self.leader, "isr": self.isr}).encode()


class MetadataTruth:
    """Each value's history, kept current by a thread that reads the controllers' files."""

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        """Describe the reader; `start` begins."""
        self.logs = MetadataLogs(log_dirs)
        self._history: dict[str, list[Written]] = defaultdict(list)
        self._history[VACANT] = []
        self._names: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._brokers: dict[int, tuple[bool, bool]] = {}
        """Whether each is fenced, and whether it shuts down."""
        self._last_at = 0.0
        self._turns = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="truth", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(STOP_DEADLINE_S)

    def settled(self) -> None:
        """Wait until all that is written now has been read."""
        before = self._turns
        while self._turns < before + 2 and self._thread.is_alive():
            time.sleep(POLL_S / 2)
        time.sleep(QUIET_S)

    def known(self) -> Known:
        """Return each value's history, the oldest first."""
        with self._lock:
            found = {path: list(history) for path, history in self._history.items()}
            # Whoever led last may lead no more, and nothing says so yet.
            found[VACANT].append(Written(self._last_at, 0, None, self._last_at))
            return found

    def led(self) -> dict[tuple[str, int], LedPartition]:
        """Return the partitions as they are, by topic id and number."""
        with self._lock:
            return {
                key: LedPartition(p.leader, p.leader_epoch, p.epoch)
                for key, p in self._partitions.items()
            }

    def figures(self) -> TrueFigures:
        """Count what exists now."""
        with self._lock:
            newest = {path: history[-1].data for path, history in self._history.items() if history}
            topics: dict[str, dict[str, tuple[int, ...]]] = {}
            for (topic, number), partition in self._partitions.items():
                name = self._names[topic]
                topics.setdefault(name, {})[str(number)] = tuple(partition.replicas)
        values = {
            path: data for path, data in newest.items() if data is not None and path != VACANT
        }
        for name, partitions in topics.items():
            values[f"{TOPICS}/{name}"] = json.dumps({"partitions": partitions}).encode()
        return figures_of_znodes(values)

    def changes(self, since: float, until: float) -> int:
        """Return how many values were written between two times."""
        with self._lock:
            every = [each.at for history in self._history.values() for each in history]
        return sum(since <= at < until for at in every)

    def _run(self) -> None:
        before = 0.0
        while not self._stop.wait(POLL_S):
            began = time.time()
            found = self.logs.read()
            now = time.time()
            with self._lock:
                for batch in found:
                    at = batch.at / 1000
                    earliest = max(at, before)  # no majority had it when the last look began
                    at = at if now - at < LATE_S else now
                    for record in batch.records.values():
                        for path, version, data in self._apply(record, at):
                            self._note(path, Written(at, version, data, min(at, earliest)))
                    self._last_at = at
            before = began
            self._turns += 1

    def _note(self, path: str, written: Written) -> None:
        history = self._history[path]
        if not history or history[-1][1:3] != written[1:3]:
            history.append(written)

    def _apply(self, record: Any, at: float) -> Iterator[tuple[str, int, bytes | None]]:
        match record:
            case kafka.LeaderChange():
                self._date_last_states(at)
                # Between the last record of one leader and the first of the next one nobody may have led.
                self._history[VACANT] += [
                    Written(self._last_at, 0, None, self._last_at),
                    Written(at, 0, json.dumps({"brokerid": record.leader_id}).encode()),
                ]
                yield "/controller", 0, json.dumps({"brokerid": record.leader_id}).encode()
                yield "/controller_epoch", 0, str(record.epoch).encode()
            case kafka.Topic():
                self._names[record.topic_id] = record.name
            case kafka.RemoveTopic():
                for topic, number in [key for key in self._partitions if key[0] == record.topic_id]:
                    del self._partitions[topic, number]
                    yield state_path(self._names[topic], number), -1, None
            case kafka.Partition():
                new = _Partition(record)
                self._partitions[record.topic_id, record.partition_id] = new
                yield self._state(record.topic_id, record.partition_id)
            case kafka.PartitionChange():
                self._partitions[record.topic_id, record.partition_id].change(record)
                yield self._state(record.topic_id, record.partition_id)
            case kafka.RegisterBroker():
                state = (record.fenced, record.in_controlled_shutdown)
                yield self._broker(record.broker_id, state)
            case kafka.UnregisterBroker():
                yield self._broker(record.broker_id, (True, False))
            case kafka.BrokerRegistrationChange():
                was_fenced, stops = self._brokers[record.broker_id]
                fenced = was_fenced if record.fenced is None else record.fenced
                yield self._broker(
                    record.broker_id, (fenced, stops or record.in_controlled_shutdown)
                )
            case _:
                pass

    def _date_last_states(self, at: float) -> None:
        """Date the states that the former leader wrote at last by the election of its successor."""
        for path, history in self._history.items():
            is_late = history and history[-1].at > self._last_at - KNOWN_IN_S
            if path.endswith("/state") and is_late:
                history[-1] = history[-1]._replace(at=at)

    def _state(self, topic: str, number: int) -> tuple[str, int, bytes]:
        held = self._partitions[topic, number]
        return state_path(self._names[topic], number), held.epoch, held.state

    def _broker(self, broker: int, state: tuple[bool, bool]) -> tuple[str, int, bytes | None]:
        self._brokers[broker] = state
        return f"/brokers/ids/{broker}", 0, None if any(state) else b"{}"
