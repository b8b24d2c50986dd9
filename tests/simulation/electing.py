"""Runs of `kcm elect` during everything else, in some seeds: the real plan, run and watch against the real API.

The rule: this module draws from its own random numbers, so that a seed without it stays the same.
The run blocks, so it has a thread that the clock resumes. A request to Kafka is judged by
ZooKeeper's history in the time by which figures may be late, and the final summary by the requests.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import httpx

from controller_model.kafka.ids import TopicPartition
from controller_model.records.election_requests import ElectionRequest, encode_request
from kcm.elect.admin import NOT_NEEDED, ElectionRefusedError
from kcm.elect.elect import check_cluster, make_plan
from kcm.elect.run import POLL_INTERVAL_S, UNSURE, ElectionRun
from kcm.elect.watch import ClusterSample, ClusterWatch
from pipeline.runtime import KcmError
from tests.simulation.oracle import LIVE_LAG_MS, MINORITY_LAG_MS, BrokenError
from tests.simulation.process import KilledError, Process
from tests.simulation.stage import CLUSTER
from tests.simulation.znode_truth import ZnodeTruth
from tests.support.histories import state_path
from tests.support.in_process_api import api_of

if TYPE_CHECKING:
    from kcm.elect.admin import Elections
    from tests.simulation.live_page import Server
    from tests.simulation.world import World

EVERY, AT = 21, (9, 10)
"""Two seeds out of so many; not the seeds that are pinned for a planted bug of another kind."""

_BEGINS_MS = (300, 5_000)
_LOOKS_AFTER_MS = (0, 1_500)
"""The time after leaders have moved."""
_PAUSES_S = (0.0, 1.0, 7.0)
_WAITS_S = (1.0, 5.0, 30.0)
_ASKED_MS = (1, 1, 5, 30, 700)
_ELECTED_MS = (5, 40, 300, 2_000)
_LATE_MS = (100, 3_000, None)
"""How long after its answer a timed-out request takes effect; None: never."""
_DISTURBED = 0.6
"""The share of pauses between two chunks in which something else happens."""
_STILL = 0.9
"""The share of the cluster's acts that are left out while a run should make progress."""


def is_electing(seed: int) -> bool:
    """Return whether `kcm elect` is run in a seed."""
    return seed % EVERY in AT


class NotedWatch(ClusterWatch):
    """The run's watch of the cluster, which records each sample."""

    run: Run

    def sample(self) -> ClusterSample:
        """Return a sample, and record it."""
        asked_at = self.run.world.clock.now
        sample = super().sample()
        self.run.note(sample, asked_at)
        return sample


class Sampled(NamedTuple):
    """A sample, and when it was requested."""

    sample: ClusterSample
    asked_at: int


class Run:
    """One `kcm elect --confirm`, and the Kafka that it talks to."""

    servers = "kafka:9092"

    def __init__(self, electing: Electing) -> None:
        self._electing = electing
        self.world = electing.world
        self._rng = electing.rng
        self._truth = electing.truth
        self._first: ClusterSample | None = None
        """The sample with which the run compares all later ones."""
        self._newest: Sampled | None = None
        self._has_slept = False
        """Whether the run has slept since the newest sample."""
        self._asked: list[TopicPartition] = []
        self._refused = ""
        self._run: ElectionRun | None = None
        self._began: tuple[int, int] = (0, 0)
        """The history of the ensemble and its zxid at the start, allowing for late figures."""

    # --- the command ------------------------------------------------------------------------

    def work(self) -> None:
        """Do what the command does, and judge its result."""
        rng = self._rng
        api = api_of(self)
        try:
            self.wait(rng.choice(_LOOKS_AFTER_MS))
            check_cluster(api, CLUSTER, cast("Elections", self))
            plan = make_plan(api, CLUSTER, None, None)
        except (KcmError, KeyboardInterrupt):
            self.world.hit("kcm elect refused to begin")
            return
        size = rng.choice((1, 1, 2, 3))
        chunks = [plan.partitions[at : at + size] for at in range(0, len(plan.partitions), size)]
        if not chunks:
            return
        proof = self.world.recently(LIVE_LAG_MS)
        self._began = (self.world.zk.era, self.world.zk.zxid if proof is None else proof.first)
        watch = NotedWatch(api, CLUSTER)
        watch.run = self
        self._run = run = ElectionRun(
            chunks,
            elect=self.elect,
            watch=watch,
            pause_s=rng.choice(_PAUSES_S),
            wait_s=rng.choice(_WAITS_S),
            say=self.world.trace,
        )
        self.world.hit("kcm elect began")
        try:
            stopped_by = run.run()
        except KeyboardInterrupt:
            stopped_by = "interrupted"
        self.world.trace(f"ELECT {stopped_by}")
        self.world.hit("kcm elect stopped" if stopped_by else "kcm elect finished")
        self._check_end(run, chunks, is_done=stopped_by is None)

    def wait(self, ms: int) -> None:
        """Wait as the command does."""
        self._electing.wait(ms)
        self._truth.catch_up()

    def sleep(self, seconds: float) -> None:
        """Replace time.sleep in the run."""
        self._has_slept = True
        if seconds != POLL_INTERVAL_S and self._rng.random() < _DISTURBED:
            self.world.clock.after(self._rng.randint(0, 900), self._disturb)
        self.wait(round(seconds * 1000))

    def _disturb(self) -> None:
        """Cause something in a pause that elections do not cause."""
        kafka = self.world.kafka
        if not self._electing.is_quiet:
            self.world.hit("the cluster changed in a pause of kcm elect")
            self._rng.choice(
                (kafka.broker_down, kafka.elect, kafka.lead_by_others, kafka.lead_by_others)
            )()

    # --- the exporter -----------------------------------------------------------------------

    def get(self, path: str, *, headers: dict[str, str]) -> httpx.Response:
        """Return the answer of the exporter that runs now; raises OSError for one that has ended meanwhile."""
        self.wait(self._rng.choice(_ASKED_MS))
        server: Server = self.world.exporter.server
        answered = server.ask(path, headers)
        while not answered.done():
            if server is not self.world.exporter.server:
                raise ConnectionResetError
            self.wait(10)
        self.wait(self._rng.choice(_ASKED_MS))
        return answered.result()

    def note(self, sample: ClusterSample, asked_at: int) -> None:
        """Record a sample; the first that is not late is the one with which later ones are compared."""
        self._newest, self._has_slept = Sampled(sample, asked_at), False
        if self._first is None and sample.status != "behind":
            self._first = sample

    # --- Kafka ------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """Return the id of the current cluster."""
        return f"cluster-{self.world.clusters}"

    def elect(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str | None]:
        """Judge a request, and answer it as Kafka does, with success or an error."""
        self._check_request(partitions)
        rng, world = self._rng, self.world
        self._asked += partitions
        if rng.random() < 0.5:
            self._say(partitions)
        self.wait(rng.choice(_ELECTED_MS))
        if world.kafka.controller() is None or rng.random() < 0.03:
            self._refused = "without an answer"
            if rng.random() < 0.5:
                self._elect_later(partitions)
            raise ElectionRefusedError("it timed out")
        answer = {each: self._elect_one(each) for each in partitions}
        self.wait(rng.choice(_ELECTED_MS))
        wrong = {error for error in answer.values() if error not in {None, NOT_NEEDED, *UNSURE}}
        self._refused = ", ".join(map(str, wrong))
        world.hit("kcm elect requested a chunk")
        return answer

    def _elect_one(self, each: TopicPartition) -> str | None:
        rng, kafka, zk = self._rng, self.world.kafka, self.world.zk
        path = state_path(*each)
        if not zk.exists(path) or each.topic in zk.names("/admin/delete_topics"):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if rng.random() < 0.05:
            return "NOT_CONTROLLER"
        if rng.random() < 0.1:
            self._elect_later([each])
            return "REQUEST_TIMED_OUT"
        before = zk.data(path)
        if kafka.is_led_by_preferred(*each):
            return NOT_NEEDED
        kafka.elect_preferred(*each)
        return "PREFERRED_LEADER_NOT_AVAILABLE" if zk.data(path) == before else None

    def _elect_later(self, partitions: Sequence[TopicPartition]) -> None:
        ms, electing, world = self._rng.choice(_LATE_MS), self._electing, self.world

        def elect() -> None:
            for each in partitions:
                if world.zk.exists(state_path(*each)) and not electing.is_quiet:
                    world.kafka.elect_preferred(*each)

        if ms is not None:
            world.clock.after(ms, elect)

    def _say(self, partitions: Sequence[TopicPartition]) -> None:
        """Write to the log what is requested, as the command does where it knows the pipeline's Kafka."""
        now = self.world.clock.now
        request = ElectionRequest(
            v=1,
            cluster=CLUSTER,
            kind="election_requested",
            partitions=tuple(partitions),
            requested_at=now,
            holds_ms=60_000,
        )
        self.world.log.append(now, CLUSTER.encode(), encode_request(request))

    # --- what is judged ---------------------------------------------------------------------

    def _check_request(self, partitions: Sequence[TopicPartition]) -> None:
        """Judge a request: everything before must have succeeded, and the cluster must be as at the start."""
        run, first, newest = self._run, self._first, self._newest
        assert run is not None
        what = f"{partitions}"
        if first is None or newest is None or self._has_slept:
            raise BrokenError("kcm elect looks again after a pause", what)
        if newest.sample.status != "live":
            raise BrokenError("kcm elect goes by live figures", f"{newest.sample.status}: {what}")
        if self._refused:
            raise BrokenError("kcm elect ends with the first refusal", f"{self._refused}: {what}")
        if sorted(self._asked) != sorted([*run.elected, *run.not_needed]):
            raise BrokenError("kcm elect sees each effect", f"{self._asked} before {what}")
        self._truth.catch_up()
        world = self.world
        in_minority = newest.asked_at < world.minority_until + LIVE_LAG_MS
        lag_ms = MINORITY_LAG_MS if in_minority else LIVE_LAG_MS
        proof = world.recently(world.clock.now - newest.asked_at + lag_ms)
        if proof is None or world.zk.era != self._began[0]:
            return
        facts: list[tuple[int | str, object]] = [
            ("controller", first.controller),
            ("epoch", first.epoch),
            *first.registrations.items(),
        ]
        others = [
            str(name)
            for name, value in facts
            if not self._truth.was(name, partial(operator.eq, value), proof.first, proof.last)
        ]
        if not self._truth.was("offline", first.offline.__ge__, proof.first, proof.last):
            others.append("offline partitions")
        if others:
            wrong = ", ".join(others)
            raise BrokenError("kcm elect stops at a surprise", f"{wrong} when it asked for {what}")

    def _check_end(
        self, run: ElectionRun, chunks: Sequence[Sequence[TopicPartition]], *, is_done: bool
    ) -> None:
        """Judge the final summary."""
        parts = (run.elected, run.not_needed, run.unsure, run.lost, list(run.failed))
        said = sorted(each for part in parts for each in part)
        total = sum(map(len, chunks))
        if said != sorted(self._asked):
            raise BrokenError(
                "kcm elect accounts for all it asked for", f"{said}, not {self._asked}"
            )
        if _summed(run.summary()) != total:
            raise BrokenError("kcm elect's summary adds up", f"{run.summary()} of {total}")
        if is_done and (len(run.elected) + len(run.not_needed), self._refused) != (total, ""):
            raise BrokenError("kcm elect has done all when it says so", f"{run.summary()}")
        self._truth.catch_up()
        era, first = self._began
        for each in (*run.elected, *run.not_needed):
            last = self.world.zk.zxid
            if era == self.world.zk.era and not self._truth.was(each, bool, first, last):
                raise BrokenError("what kcm elect calls elected was so", f"{each}")


class Electing:
    """Runs `kcm elect` again and again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed} elects")  # noqa: S311  # a play, not a secret
        self.truth = ZnodeTruth(world.zk)
        self.is_quiet = False
        self._run: Run | None = None
        self._process: Process | None = None
        self._is_still = False
        self._plan()

    def _plan(self) -> None:
        self.world.clock.after(self.rng.randint(*_BEGINS_MS), self._begin)

    def _begin(self) -> None:
        """Start a run, unless one is in progress."""
        self._plan()
        if self.is_quiet or self._is_running or not self.world.exporter.is_shown_live:
            return
        self._is_still = self.rng.random() < 0.7
        if self.rng.random() < 0.8:
            self.world.kafka.lead_by_others()
        self._run = Run(self)
        self._process = Process(self.world.clock, self._run.work, self._on_end)
        self._process.start()

    def _on_end(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, KilledError):
            raise error

    @property
    def _is_running(self) -> bool:
        return self._process is not None and not self._process.has_ended

    def holds_still(self) -> bool:
        """Return whether the cluster leaves out its next act, so that some runs get far."""
        return self._is_running and self._is_still and self.rng.random() < _STILL

    def wait(self, ms: int) -> None:
        """Make the current run wait."""
        assert self._process is not None
        self._process.sleep(ms / 1000)

    def sleep(self, seconds: float) -> None:
        """Make the current run sleep."""
        assert self._run is not None
        self._run.sleep(seconds)

    def rest(self) -> None:
        """Start no run, and interrupt the current one."""
        self.is_quiet = True
        if self._process is not None:
            self._process.interrupt(KeyboardInterrupt())

    def go_on(self) -> None:
        """Continue after a rest."""
        self.is_quiet = False

    def end(self) -> None:
        """End the current run."""
        if self._process is not None:
            self._process.kill()


def _summed(summary: Sequence[str]) -> int:
    """Return how many partitions the lines of a summary count."""
    done, *others = summary
    counts = re.findall(r"(\d+) (?:of|did)", done)
    for line in others:
        counts += re.findall(r"(\d+) [A-Z]", line) or re.findall(r"\d+", line)[:1]
    return sum(map(int, counts))
