"""A long run: random operations with random kills, and their cost in memory, open files and delay.

The rule: one seed gives the whole run. Every ten minutes are reported separately, so that growth
shows.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kazoo.exceptions import KazooException

from tests.faults.cells import KILL, PARTS, TERM, Cell
from tests.faults.judge import STALE_S, Verdict, judge, oldest_live, stale_seconds
from tests.faults.shown import Sample, Shown, TopicAndNumber
from tests.faults.truth import Known
from tests.faults.world import BROKER_IDS, World

STEP_S = 6.0
"""The pause between two operations."""
KILL_EVERY = 15
"""One out of so many operations kills a part."""
STRETCH_S = 600.0
JUDGE_INTERVAL_S = 30.0
KEPT_S = 120.0
"""How long samples and history are kept: longer than a figure can be old."""
PARTS_MEASURED = ("watcher", "driver", "jvm", "worker", "exporter", "kafka")
REQUEST_TIMEOUT_S = 10.0
MAX_TOPICS = 8
MIB = 1 << 20


class Costs(NamedTuple):
    """What a part uses at a moment."""

    memory_mib: float
    open_files: int


class Stretch(NamedTuple):
    """The result of some minutes."""

    minutes: float
    happened: int
    kills: int
    changes: int
    delay_p50_s: float
    delay_p99_s: float
    """The time from ZooKeeper's write until the value is shown, sampled four times a second, with kills."""
    not_live_s: float
    oldest_live_s: float
    """How long ago the oldest figure shown as `live` had been replaced."""
    stale_s: float
    wrong: int
    costs: dict[str, Costs]
    """The highest use of each part."""


def soak(world: World, *, minutes: float, seed: int) -> Iterator[Stretch]:
    """Run for so long; yield the result of each stretch, the last one after a comparison with ZooKeeper."""
    story = _Story(world, random.Random(seed))  # noqa: S311  # a story, no secret
    ends = time.time() + minutes * 60
    while time.time() < ends:
        yield _stretch(world, story, min(ends, time.time() + STRETCH_S))
    world.revive()
    world.wait_for_agreement()


def _stretch(world: World, story: _Story, until: float) -> Stretch:
    began = judged_to = time.time()
    before = (story.happened, story.kills)
    verdicts: list[Verdict] = []
    delays: list[float] = []
    costs: dict[str, Costs] = {}
    while time.time() < until:
        story.go_on()
        for part in PARTS_MEASURED:
            costs[part] = most(costs.get(part), _costs(world, part))
        if time.time() - judged_to >= JUDGE_INTERVAL_S or time.time() >= until:
            world.truth.settled()
            samples = world.sampler.since(judged_to)
            judged_to = samples[-1].until if samples else judged_to
            found = judge(samples, world.truth.known())
            verdicts += found
            world.said += story.accounts_of(found)
            delays += delays_of(samples, world.truth.known())
            world.truth.forget(judged_to - KEPT_S)
            world.sampler.forget(judged_to - KEPT_S)
    delays.sort()
    oldest = oldest_live(verdicts)
    return Stretch(
        minutes=(time.time() - began) / 60,
        happened=story.happened - before[0],
        kills=story.kills - before[1],
        changes=len(delays),
        delay_p50_s=delays[len(delays) // 2] if delays else 0.0,
        delay_p99_s=delays[len(delays) * 99 // 100] if delays else 0.0,
        not_live_s=sum(v.lasted_s for v in verdicts if not v.live),
        oldest_live_s=oldest.old_s if oldest else 0.0,
        stale_s=stale_seconds(verdicts),
        wrong=sum(bool(v.wrong) for v in verdicts),
        costs=costs,
    )


def delays_of(samples: Iterable[Sample], known: Known) -> list[float]:
    """Return for each newly shown value how long ago it had been written, in seconds.

    >>> from tests.faults.truth import Written
    >>> known = {"/brokers/topics/t/partitions/0/state": [Written(5.0, 1, b"{}")]}
    >>> shown = [Sample(at, at, "live", {("t", 0): Shown(v, 1, (1,))}) for at, v in ((4, 0), (5.5, 1))]
    >>> delays_of(shown, known)
    [0.5]
    """
    written: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for path, history in known.items():
        if path.endswith("/state"):
            _, _, _, topic, _, number, _ = path.split("/")
            written[topic, int(number)] = {each.version: each.at for each in history}
    delays = []
    before: dict[TopicAndNumber, Shown] = {}
    for sample in samples:
        for name, shown in (sample.partitions or {}).items():
            version = shown.version
            if name in before and version is not None and before[name].version != version:
                at = written[name].get(version)
                delays += [] if at is None else [max(0.0, sample.at - at)]
        before = sample.partitions or before
    return delays


def most(one: Costs | None, other: Costs) -> Costs:
    """Return the larger of each figure."""
    if one is None:
        return other
    return Costs(max(one.memory_mib, other.memory_mib), max(one.open_files, other.open_files))


class _Story:
    """The operations, one after another."""

    def __init__(self, world: World, draws: random.Random) -> None:
        self.happened = 0
        self.kills = 0
        self._world = world
        self._draws = draws
        self._killed: list[tuple[float, str]] = []
        """What was killed, and when."""
        self._topics: list[str] = []
        self._made = 0
        self._deeds: tuple[Callable[[], object], ...] = (
            self._create,
            self._create,
            self._delete,
            self._depose,
            self._reassign,
        )

    def go_on(self) -> None:
        """Run one operation, and wait a moment."""
        self.happened += 1
        if self.happened % KILL_EVERY == 0:
            self._kill()
        else:
            with suppress(KafkaException, KazooException, ConnectionError):
                self._draws.choice(self._deeds)()
            time.sleep(STEP_S)

    def accounts_of(self, verdicts: Iterable[Verdict]) -> Iterator[str]:
        """Yield a line for each figure that was stale under `live`."""
        for verdict in verdicts:
            if verdict.live and verdict.old_s > STALE_S:
                before = [(at, what) for at, what in self._killed if at <= verdict.at]
                at, what = before[-1] if before else (verdict.at, "nothing was killed")
                yield (
                    f"{verdict.oldest} was replaced {verdict.old_s:.2f} s ago, and live; "
                    f"{verdict.at - at:.1f} s after: {what}"
                )

    def _kill(self) -> None:
        self.kills += 1
        part = self._draws.choice(PARTS)
        fault = self._draws.choice((KILL, TERM))
        self._killed.append((time.time(), f"{part.name}: {fault}"))
        Cell(part, fault).act(self._world)
        self._world.revive()

    def _create(self) -> None:
        if len(self._topics) >= MAX_TOPICS:
            return
        self._made += 1
        name = f"story-{self._made}"
        new = NewTopic(
            name,
            num_partitions=self._draws.randint(1, 4),
            replication_factor=self._draws.randint(1, len(BROKER_IDS)),
        )
        admin = self._world.kafka.admin
        admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[name].result()
        self._topics.append(name)

    def _delete(self) -> None:
        if not self._topics:
            return
        name = self._topics.pop(self._draws.randrange(len(self._topics)))
        admin = self._world.kafka.admin
        admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name].result()

    def _depose(self) -> None:
        self._world.truth.client.delete("/controller")

    def _reassign(self) -> None:
        if not self._topics:
            return
        replicas = ",".join(map(str, self._draws.sample(BROKER_IDS, 2)))
        moves = '{"version":1,"partitions":[{"topic":"%s","partition":0,"replicas":[%s]}]}'
        data = moves % (self._draws.choice(self._topics), replicas)
        self._world.truth.client.create("/admin/reassign_partitions", data.encode())


def _costs(world: World, part: str) -> Costs:
    pids = world.pids(part)
    with suppress(OSError):
        return Costs(sum(map(_memory_mib, pids)), sum(map(_open_files, pids)))
    return Costs(0.0, 0)


def _memory_mib(pid: int) -> float:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return resident * os.sysconf("SC_PAGE_SIZE") / MIB


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
