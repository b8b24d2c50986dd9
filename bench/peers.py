"""The same kill, the same flap and the same scrape, for this monitor and for others.

There is one real cluster. Each peer runs alone with it and is queried at each interval: this
monitor, by the partitions and totals of its exporter; kafka_exporter; and a plain client that asks
a broker for the metadata. For each peer, a broker that leads a third of 10,000 partitions is
killed, /controller is deleted five times, and the controller's broker is killed a few times: with
one kill, when the next answer is due decides. The time measured is from when ZooKeeper had a change
until an answer that shows it has arrived.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine
from bench.kafka_exporter import find_kafka_exporter
from bench.real_cluster import DEADLINE_S, LEADER, PARTITIONS, RealCluster, real_cluster
from bench.watched import CLUSTER
from controller_model.kafka.ids import TopicPartition
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import UsageError

SUMMARY = "a kill, a flap and a scrape, shown by kafka_exporter, by a poller and by this (20 minutes, longer with kafka_exporter)"

LED = 3_334
INTERVALS_S = (1.0, 15.0)
QUIET_S = 60.0
"""Seconds in which the answers, their sizes and their cost are measured."""
DELETIONS = 5
DELETED_INTERVAL_S = 2.0
SHOWN_DEADLINE_S = 90.0
POLL_S = 0.1


class Peer(NamedTuple):
    """A peer: what is queried, and the processes that it needs."""

    kind: str
    """Arguments of the poller."""
    address: str
    processes: tuple[Process, ...]


class Poll(NamedTuple):
    """One answer, as the poller recorded it."""

    began: float
    ended: float
    leaders: dict[str, int]
    controller: int | None
    elections: int | None
    bytes: int | None
    series: int | None
    partitions: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--intervals",
        nargs="+",
        type=float,
        default=INTERVALS_S,
        metavar="SECONDS",
        help="how often each is asked (1 15)",
    )
    parser.add_argument(
        "--of", type=int, default=PARTITIONS, metavar="N", help="partitions of the cluster (10,000)"
    )
    parser.add_argument(
        "--led", type=int, default=LED, help="partitions that broker 1 leads (3,334)"
    )
    parser.add_argument("--kills", type=int, default=4, help="kills of the controller's broker (4)")
    parser.add_argument(
        "--peers", nargs="+", choices=PEERS, default=list(PEERS), help="which (all)"
    )


def measure(
    *, intervals: Sequence[float], of: int, led: int, kills: int, peers: Sequence[str]
) -> dict[str, Any]:
    """Run each peer at each interval; times in seconds."""
    if led > of:
        raise UsageError(f"--led: a broker of {of} partitions leads no more")
    turns = []
    with real_cluster() as cluster:
        cluster.create(of, led)
        for number, name in enumerate(peers):
            data = cluster.folder / f"turn-{number}"
            peer = PEERS[name](cluster, data)
            if peer is None:
                continue
            turns += [
                {"peer": name} | _run_peer(cluster, peer, every_s, kills, data)
                for every_s in intervals
            ]
            cluster.supervisor.stop(peer.processes)
    return {
        "scenario": "peers",
        "turns": turns,
        "skipped": sorted(set(peers) - {turn["peer"] for turn in turns}),
        "settings": {"partitions": of, "led": led, "brokers": 3, "kills": kills},
        "machine": machine.describe(),
    }


def _this(cluster: RealCluster, data: Path) -> Peer:
    pipeline = Pipeline(
        supervisor=cluster.supervisor,
        jars=cluster.jars,
        data_dir=data,
        cluster=CLUSTER,
        zookeeper=cluster.zookeeper.connect_string,
        options={"partition_metrics": "true"},
    )
    pipeline.start()
    pipeline.processes["stream"].wait_ready()
    urls = [f"{pipeline.exporter_url}/metrics", f"{pipeline.exporter_url}/metrics/partitions"]
    broker = () if pipeline.broker is None else (pipeline.broker,)
    return Peer("scrape", ",".join(urls), (*pipeline.processes.values(), *broker))


def _kafka_exporter(cluster: RealCluster, _data: Path) -> Peer | None:
    program = find_kafka_exporter()
    if program is None:
        return None
    address = f"{HOST}:{free_port()}"
    servers = [f"--kafka.server={server}" for server in cluster.bootstrap_servers.split(",")]
    process = Process(
        cluster.supervisor, "kafka_exporter", [program, *servers, f"--web.listen-address={address}"]
    )
    process.start()
    return Peer("scrape", f"http://{address}/metrics", (process,))


def _metadata(cluster: RealCluster, _data: Path) -> Peer:
    return Peer("metadata", cluster.bootstrap_servers, ())


PEERS = {"this": _this, "kafka_exporter": _kafka_exporter, "AdminClient": _metadata}


class _Poller:
    """The child process that polls, and its records."""

    def __init__(self, supervisor: Supervisor, peer: Peer, every_s: float, notes: Path) -> None:
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.unlink(missing_ok=True)
        notes.touch()
        command = [sys.executable, "-P", "-m", "bench.poller", peer.kind, peer.address]
        self.process = Process(supervisor, "poller", [*command, str(every_s), notes])
        self._notes = notes
        self._read = 0
        self.polls: list[Poll] = []
        self.leaders: dict[str, int] = {}
        """The state at the last poll."""

    def read(self) -> list[Poll]:
        """Return all its records."""
        self.process.check()
        text = self._notes.read_text()
        whole = text.rfind("\n") + 1
        for line in text[self._read : whole].splitlines():
            poll = Poll(**json.loads(line))
            self.polls.append(poll)
            self.leaders |= poll.leaders
        self._read = whole
        return self.polls


def _run_peer(
    cluster: RealCluster, peer: Peer, every_s: float, kills: int, data: Path
) -> dict[str, Any]:
    poller = _Poller(cluster.supervisor, peer, every_s, data / f"polls-{every_s:g}.json")
    poller.process.start()
    result = {
        "every_s": every_s,
        # A client that is part of the poller costs what the poller costs.
        "quiet": _quiet(poller, peer.processes or (poller.process,)),
        "flap": _flap(cluster, poller, every_s),
        "leader_killed": _kill_leader(cluster, poller),
        "controller_killed": [_kill_controller(cluster, poller) for _ in range(kills)],
    }
    poller.process.stop()
    return result


def _quiet(poller: _Poller, processes: Sequence[Process]) -> dict[str, Any]:
    """Return the cost and the size of an answer; `processes` are those of the peer."""
    before = _cpu_s(processes)
    first = len(poller.read())
    began = time.monotonic()
    time.sleep(QUIET_S)
    cpu_s = _cpu_s(processes) - before
    polls = poller.read()[first:]
    took = [poll.ended - poll.began for poll in polls]
    memory = [used.rss_mib for pid in _pids(processes) for used in machine.usage(pid).values()]
    return {
        "polls": len(polls),
        "answer_p50_s": round(machine.percentile(took, 50), 4) if took else None,
        "answer_max_s": round(max(took), 4) if took else None,
        "bytes": polls[-1].bytes if polls else None,
        "series": polls[-1].series if polls else None,
        "cpu_percent": round(cpu_s / (time.monotonic() - began) * 100, 1),
        "memory_mib": round(sum(memory), 1),
    }


def _kill_leader(cluster: RealCluster, poller: _Poller) -> dict[str, Any]:
    """Kill the broker that leads a third and is not the controller."""
    holder = cluster.controller.await_holder(lambda _: True, DEADLINE_S)
    while holder.broker == LEADER:
        holder = cluster.controller.depose(DEADLINE_S)
    led = {p: leader for p, leader in cluster.preferred.items() if leader == LEADER}
    cluster.kill(LEADER)
    states = cluster.await_led_by_others(LEADER)
    written = {partition: states[partition] for partition in led}
    deadline = time.monotonic() + SHOWN_DEADLINE_S
    wanted = {_key(partition): state.leader for partition, state in written.items()}
    while time.monotonic() < deadline:
        poller.read()
        if wanted.items() <= poller.leaders.items():
            break
        time.sleep(POLL_S)
    first = min(state.written.at for state in written.values())
    shown = shown_by(poller.polls, wanted, since=first)
    delays = [
        shown[key] - state.written.at
        for partition, state in written.items()
        if (key := _key(partition)) in shown
    ]
    cluster.bring_back(LEADER)
    return {
        "shown": len(delays),
        "of": len(written),
        "first_s": _rounded(min(shown.values()) - first) if shown else None,
        "all_s": _rounded(max(shown.values()) - first) if len(shown) == len(written) else None,
        "partition_p50_s": _rounded(machine.percentile(delays, 50)) if delays else None,
        "partition_max_s": _rounded(max(delays)) if delays else None,
    }


def _flap(cluster: RealCluster, poller: _Poller, every_s: float) -> dict[str, Any]:
    """Delete /controller a few times; return how many elections the polls show."""
    first = len(poller.read())
    for _ in range(DELETIONS):
        began = time.monotonic()
        cluster.controller.depose(DEADLINE_S)
        time.sleep(max(0.0, DELETED_INTERVAL_S - (time.monotonic() - began)))
    time.sleep(2 * every_s + DELETED_INTERVAL_S)
    polls = poller.read()[max(0, first - 1) :]
    return {"elections": DELETIONS, "shown": elections_shown(polls)}


def _kill_controller(cluster: RealCluster, poller: _Poller) -> float | None:
    """Kill the controller's broker; return after how many seconds the next controller was shown, None if it never was."""
    killed = cluster.controller.await_holder(lambda _: True, DEADLINE_S).broker
    cluster.kill(killed)
    elected = cluster.controller.await_holder(lambda now: now.broker != killed, DEADLINE_S)
    elected_at = elected.elected_ms / 1000
    deadline = time.monotonic() + SHOWN_DEADLINE_S
    shown = None
    while shown is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
        shown = next(
            (
                poll.ended
                for poll in poller.read()
                if poll.ended >= elected_at and poll.controller == elected.broker
            ),
            None,
        )
    cluster.bring_back(killed)
    return None if shown is None else _rounded(shown - elected_at)


def shown_by(polls: Sequence[Poll], wanted: Mapping[str, int], *, since: float) -> dict[str, float]:
    """Return when each partition's new leader first was in an answer; a partition in no answer is absent."""
    shown: dict[str, float] = {}
    for poll in polls:
        if poll.ended >= since:
            for key, leader in poll.leaders.items():
                if wanted.get(key) == leader:
                    shown.setdefault(key, poll.ended)
    return shown


def elections_shown(polls: Sequence[Poll]) -> int:
    """Return how many elections the polls show: by their counter, else by changes of the controller."""
    counts = [poll.elections for poll in polls if poll.elections is not None]
    if counts:
        return counts[-1] - counts[0]
    seen = [poll.controller for poll in polls if poll.controller is not None]
    return sum(one != other for one, other in itertools.pairwise(seen))


def _key(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"


def _rounded(seconds: float) -> float:
    return round(seconds, 2)


def _pids(processes: Sequence[Process]) -> list[int]:
    return [process.pid for process in processes if process.pid is not None]


def _cpu_s(processes: Sequence[Process]) -> float:
    return sum(used.cpu_s for pid in _pids(processes) for used in machine.usage(pid).values())
