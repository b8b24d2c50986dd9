"""Measure a KRaft cluster's monitor: the parts of its watcher, each on its own, and the whole on real controllers.

Decoding: record batches of a metadata log as a controller writes them, of partitions and of changes
of leaders and ISRs, checked and decoded on one core. Snapshot: the state of a large cluster, read in the parts in which a
controller sends it, without the network. Replay: `kcm replay` of a copied folder with the log of a large cluster.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import machine
from bench.fake_brokers import FakeCluster
from bench.figures import FIGURES, judged
from bench.kraft_shown import (
    measure_cold,
    measure_controller_kills,
    measure_delay,
    measure_fence,
    measure_isr_delay,
    measure_peers,
    measure_rest,
    measure_wide,
    watched,
)
from kcm.run.pipeline_processes import Pipeline
from kraft_source.observer.snapshot_download import SnapshotDownload
from kraft_source.wire.batches import split_batches
from kraft_source.wire.messages import SNAPSHOT_BYTES, EpochEnd, SnapshotAnswer
from kraft_source.wire.records import decode
from pipeline.runtime import KcmError
from tests.support.metadata_log import Written, control_batch, record_batch, uuid_of

SUMMARY = (
    "a KRaft cluster: decoding, a replayed folder, delays, storms, kills, cold starts (40 minutes)"
)

PARTITIONS = 20_000
CHANGES = 46_000
"""Together they are the mix of a log in which 20,000 partitions were created and lost their leaders."""
BATCH = 2_000
ROUNDS = 5
BROKERS = 6
PARTITIONS_OF_TOPIC = 50


SNAPSHOT_PARTITIONS = 1_000_000
WATCHED_PARTITIONS = 10_000
WIDE_PARTITIONS = 50_000
WARM_UP, CHANGES_SHOWN = 300, 1_000
"""Changes of ISRs, ten a second; the first ones while the JVMs compile."""
REST_S = 60.0

REPLAYED = 1_000_000
"""Records of the folder that is replayed; a fifth of them are its partitions."""


PARTS = ("decoding", "snapshot", "replay", "delay", "shown", "peers", "cold")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help="these parts of it (all)"
    )
    parser.add_argument(
        "--partitions",
        nargs="+",
        type=int,
        default=(10_000, 200_000, 1_000_000),
        metavar="N",
        help="sizes of the clusters beside which it starts (10000 200000 1000000)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="fences, kills, starts (3)")


def measure(*, only: Sequence[str], partitions: Sequence[int], rounds: int) -> dict[str, Any]:
    """Return records decoded in a second of one core's time, what is replayed, and when what is shown."""
    result: dict[str, Any] = {"scenario": "kraft"}
    if "decoding" in only:
        result["decoding"] = _decoding()
    if "snapshot" in only:
        result["snapshot"] = _snapshot(SNAPSHOT_PARTITIONS)
    if "replay" in only:
        result["replay"] = _replay()
    if {"delay", "shown", "peers"} & set(only):
        result |= _shown(only, rounds)
    if "cold" in only:
        result["sizes"] = [measure_cold(each, rounds) for each in partitions]
    return result | {"figures": _figures(result), "machine": machine.describe()}


def _shown(only: Sequence[str], rounds: int) -> dict[str, Any]:
    """Return what is measured beside one running cluster; a part that fails does not stop the others."""
    parts: dict[str, Callable[[FakeCluster, Pipeline], Any]] = {}
    if "delay" in only:
        parts |= {
            "delay": partial(measure_delay, changes=CHANGES_SHOWN, warm_up=WARM_UP),
            "isr_delay": partial(measure_isr_delay, changes=CHANGES_SHOWN, warm_up=WARM_UP),
        }
    if "shown" in only:
        parts |= {
            "rest": partial(measure_rest, seconds=REST_S),
            "fence": partial(measure_fence, rounds=rounds),
            "controller_killed": partial(measure_controller_kills, rounds=rounds),
        }
    if "peers" in only:
        parts["turns"] = measure_peers
    if "shown" in only:
        parts["wide"] = partial(measure_wide, partitions=WIDE_PARTITIONS)
    result: dict[str, Any] = {}
    failed: dict[str, str] = {}
    loads: dict[str, float] = {}
    with watched(WATCHED_PARTITIONS) as (cluster, pipeline):
        for name, part in parts.items():
            try:
                result[name] = part(cluster, pipeline)
            except KcmError as error:
                failed[name] = str(error)
            loads[name] = round(os.getloadavg()[0], 1)
            print(f"bench: kraft: {name}: {result.get(name) or failed[name]}", file=sys.stderr)
    return result | {"load_average_after": loads, "failed": failed}


def _figures(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures that were measured, with their bounds."""
    live = {each["partitions"]: each["live_s"] for each in result.get("sizes", ())}
    found = {
        "kraft_decoding": ("decoding", "records_per_s"),
        "kraft_replay": ("replay", "cpu_s"),
        "kraft_delay_p50": ("delay", "p50_ms"),
        "kraft_delay_p99": ("delay", "p99_ms"),
        "kraft_delay_isr_p50": ("isr_delay", "p50_ms"),
        "kraft_delay_isr_p99": ("isr_delay", "p99_ms"),
        "kraft_fence": ("fence", "tail_s"),
        "kraft_wide": ("wide", "tail_s"),
        "kraft_controller": ("controller_killed", "median_s"),
    }
    values = {name: result[part][key] for name, (part, key) in found.items() if part in result}
    if "rest" in result:
        rest, changing = (result["rest"][each]["watcher"] for each in ("at_rest", "changing"))
        values |= {
            "kraft_watcher_memory": rest["rss_mib"],
            "kraft_watcher_cpu": changing["cpu_percent"],
        }
    values |= {f"kraft_cold_{each}": seconds for each, seconds in live.items()}
    return judged(**{name: value for name, value in values.items() if name in FIGURES})


def _decoding() -> dict[str, float]:
    """Return the best of some rounds; processor time, because other work shares the machine."""
    written = [_partition(number) for number in range(PARTITIONS)]
    written += [_change(number) for number in range(CHANGES)]
    data = b"".join(
        record_batch(first, 1, written[first : first + BATCH])
        for first in range(0, len(written), BATCH)
    )
    best_s = float("inf")
    for _ in range(ROUNDS):
        began_s = time.process_time()
        decoded = sum(len(decode(batch).records) for batch in split_batches(data))
        best_s = min(best_s, time.process_time() - began_s)
        if decoded != len(written):
            raise ValueError(f"{decoded} of {len(written)} records were decoded")
    return {
        "records_per_s": round(len(written) / best_s),
        "mb_per_s": round(len(data) / best_s / 1e6, 1),
        "records": len(written),
        "bytes": len(data),
    }


def _snapshot(partitions: int) -> dict[str, float]:
    """Return the time and the growth of memory while a snapshot passes through, part by part."""
    end = EpochEnd(10 * partitions, 1)
    size = sum(map(len, _snapshot_batches(partitions)))
    download, position, read, most_mib = SnapshotDownload(end), 0, 0, 0.0
    before_mib, used_s = _memory_mib(), 0.0
    for part in _parts(_snapshot_batches(partitions)):
        began_s = time.process_time()
        for each in download.read(SnapshotAnswer(0, None, size, position, part)):
            read += len(getattr(each, "records", ()))
        used_s += time.process_time() - began_s
        position += len(part)
        most_mib = max(most_mib, _memory_mib() - before_mib)
    if not download.is_finished or read != partitions:
        raise ValueError(f"{read} of {partitions} partitions were read")
    return {
        "partitions": partitions,
        "mib": round(size / 2**20, 1),
        "cpu_s": round(used_s, 2),
        "memory_growth_mib": round(most_mib, 1),
    }


def _snapshot_batches(partitions: int) -> Iterator[bytes]:
    """Yield a snapshot's batches; all have the same records, because their offset is not in their checksum."""
    header = Written("SnapshotHeaderRecord", {"last_contained_log_timestamp": 1})
    yield control_batch(0, 1, header)
    offset = 1
    batch = record_batch(0, 1, [_partition(number) for number in range(BATCH)])
    for _ in range(partitions // BATCH):
        yield struct.pack(">q", offset) + batch[8:]
        offset += BATCH
    if rest := partitions % BATCH:
        yield record_batch(offset, 1, [_partition(number) for number in range(rest)])
        offset += rest
    yield control_batch(offset, 1, Written("SnapshotFooterRecord"))


def _replay() -> dict[str, float]:
    """Return what `kcm replay` takes for a folder; processor time, because other work shares the machine."""
    with tempfile.TemporaryDirectory() as name:
        segment = Path(name) / f"{0:020d}.log"
        with segment.open("wb") as file:
            file.writelines(_log_batches())
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [sys.executable, "-m", "kcm", "replay", name, "--json"]
        done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - our own command
        after, took_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began_s
        size = segment.stat().st_size
    counts = json.loads(done.stdout)["counts"]
    if counts["partitions"] != REPLAYED // 5 or not counts["under_replicated"]:
        raise ValueError(f"the folder shows {counts}")
    return {
        "records": REPLAYED,
        "mib": round(size / 2**20, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "seconds": round(took_s, 1),
    }


def _log_batches() -> Iterator[bytes]:
    """Yield a log: an election, topics, and changes by which partitions lose replicas and have them back, in turns."""
    voters = [{"voter_id": each, "voter_directory_id": uuid_of(each)} for each in (1, 2, 3)]
    change = {"leader_id": 1, "voters": voters, "granting_voters": voters}
    yield control_batch(0, 1, Written("LeaderChangeMessage", change))
    partitions, offset = REPLAYED // 5, 1
    for topic in range(partitions // PARTITIONS_OF_TOPIC):
        first = topic * PARTITIONS_OF_TOPIC
        made = Written("TopicRecord", {"name": f"topic-{topic}", "topic_id": uuid_of(topic)})
        those = (_partition(number) for number in range(first, first + PARTITIONS_OF_TOPIC))
        yield record_batch(offset, 1, [made, *those])
        offset += PARTITIONS_OF_TOPIC + 1
    lost, back = (
        [
            record_batch(0, 1, [_change(number, is_back=is_back) for number in range(at, at + 20)])
            for at in range(0, partitions, 20)
        ]
        for is_back in (False, True)
    )
    for batch in itertools.chain(lost, back, lost, back):
        if offset >= REPLAYED:
            return
        yield struct.pack(">q", offset) + batch[8:]  # the offset is not in the checksum
        offset += 20


def _parts(batches: Iterator[bytes]) -> Iterator[bytes]:
    """Yield bytes in the parts in which a controller sends them, which cut batches."""
    rest = b""
    for batch in batches:
        rest += batch
        while len(rest) >= SNAPSHOT_BYTES:
            yield rest[:SNAPSHOT_BYTES]
            rest = rest[SNAPSHOT_BYTES:]
    if rest:
        yield rest


def _replicas(number: int) -> list[int]:
    return [(number + each) % BROKERS + 1 for each in range(3)]


def _partition(number: int) -> Written:
    replicas = _replicas(number)
    values = {
        "partition_id": number % PARTITIONS_OF_TOPIC,
        "topic_id": uuid_of(number // PARTITIONS_OF_TOPIC),
        "replicas": replicas,
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [uuid_of(10**6 + broker) for broker in replicas],
    }
    return Written("PartitionRecord", values, 1)


def _change(number: int, *, is_back: bool = False) -> Written:
    """Return the record of a partition that lost a follower, or its leader (two of three), or has it back."""
    replicas = _replicas(number)
    values = {
        "partition_id": number % PARTITIONS_OF_TOPIC,
        "topic_id": uuid_of(number // PARTITIONS_OF_TOPIC),
        "isr": replicas if is_back else replicas[1:],
    }
    if number % 3:
        values["leader"] = replicas[0 if is_back else 1]
    return Written("PartitionChangeRecord", values, 1)


def _memory_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20
