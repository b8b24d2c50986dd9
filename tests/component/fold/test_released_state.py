"""A checkpoint of the first release, read by this code: every value is in the field that it was written to.

The release's own code folds the recording of a real cluster and packs its state at many places. This code unpacks each
state, makes its views, folds what the log has next, and makes them again: the release made the same ones. A layout that
changed under the same STATE_VERSION shows other values, at once or after the next changes.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import ZnodeChange, encode_change, join_changes
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.packing import (
    STATE_VERSION,
    is_topic_key,
    unpack_control,
    unpack_topic,
)
from tests.support.recordings import load_recording
from tests.support.released import Release, release_or_skip
from tests.support.znode_log import ZnodeLog

pytestmark = pytest.mark.timeout(300)

# The release's own names: what was released is not renamed.
OF_THE_RELEASE = """
import base64, json, sys
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import decode_message
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import pack_control, pack_members, pack_topic

control = ControlPlane("prod", Assumed(min_insync_replicas=2), 1)
state = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
for line in sys.stdin.buffer:
    batch = EventBatch(state)
    for change in decode_message(line).changes:
        batch.apply(change)
    batch.finish()
    names = list(state.topics.names())
    for name in names:
        state.mark_changed(name)
    as_of = AsOf("l", *control.log.position)
    views = project(state, as_of=as_of, folded_at=0, sent=SentViews())
    shown = {key: json.loads(value) for key, _, value in views if value}
    shown = {key: view for key, view in shown.items() if view["view"] != "deleted"}
    topics = {}
    for name in names:
        topics |= pack_topic(state.topic(name), 2)
    every = [*control.totals.members, *control.brokers]
    members = [packed for _, packed in pack_members(control, every) if packed]
    text = lambda packed: base64.b64encode(packed).decode()
    print(json.dumps({
        "control": text(pack_control(control)),
        "members": [text(each) for each in members],
        "topics": {key: text(packed) for key, packed in topics.items()},
        "views": shown,
    }))
"""

RECORDINGS = ("real_kafka_2_8", "real_kafka_3_9_random", "real_kafka_3_9_log_dirs")
BATCH = 4
"""Changes between two states that are read."""
OTHER_BY_RIGHT = {"views_digest", "views_from"}
"""Digests over the views' bytes: a field that is added to a view changes them."""


@pytest.fixture(scope="module")
def release() -> Release:
    """The first release."""
    return release_or_skip()


def log_of(recording: str) -> Iterator[list[ZnodeChange]]:
    """Yield the log of a recorded cluster in batches: a resync, and then its changes with heartbeats between them."""
    log = ZnodeLog("prod")
    commits = load_recording(recording).commits
    half = len(commits) // 2
    log.follow(commits[:half])
    log.changes.clear()
    yield log.resync()
    done = len(log.changes)
    for commit in commits[half:]:
        log.follow((commit,))
        if len(log.changes) - done >= BATCH:
            log.heartbeat(commit.time_ms)
            yield log.changes[done:]
            done = len(log.changes)
    yield [*log.changes[done:], log.heartbeat(commits[-1].time_ms)]


def states_of(release: Release, batches: Iterable[list[ZnodeChange]]) -> list[dict[str, Any]]:
    """Return the packed state and all views after each batch, as the release's code makes them."""
    messages = b"".join(join_changes(map(encode_change, batch)) + b"\n" for batch in batches)
    done = subprocess.run(
        [sys.executable, "-c", OF_THE_RELEASE],
        input=messages,
        env={**os.environ, **release.environment},
        cwd=Path("/"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def unpacked(packed: dict[str, Any]) -> ClusterState:
    """Return a packed state as this code reads it."""
    data = base64.b64decode
    control = unpack_control(data(packed["control"]), map(data, packed["members"]))
    topics = {key: data(value) for key, value in packed["topics"].items()}
    store = MemoryTopicStore()
    for name in filter(is_topic_key, topics):
        topic, _ = unpack_topic(name, topics.get)
        assert topic is not None
        store.put(topic)
    return ClusterState(control, store, ZOOKEEPER)


def views_of(state: ClusterState) -> dict[str, Any]:
    """Return all views of a state, by key."""
    for name in state.topics.names():
        state.mark_changed(name)
    as_of = AsOf("l", *state.control.log.position)
    views = project(state, as_of=as_of, folded_at=0, sent=SentViews())
    shown = {key: json.loads(value) for key, _, value in views if value}
    return {key: view for key, view in shown.items() if view["view"] != "deleted"}


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield what was shown and is shown otherwise now; fields that are new, or gone from the views, are not compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        if not place and old.keys() != new.keys():
            yield f"not the same views: {sorted(old.keys() ^ new.keys())}"
        for name in (old.keys() & new.keys()) - OTHER_BY_RIGHT:
            yield from differences(old[name], new[name], f"{place}/{name}")
    elif old != new:
        yield f"{place}: {old!r} became {new!r}"


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_released_state_shows_the_same_and_goes_on(release: Release, recording: str) -> None:
    """Every view of every state is the same, or the layout has another version and the log is folded anew."""
    batches = list(log_of(recording))
    states = states_of(release, batches)
    assert len(states) == len(batches) > 8
    for before, batch, after in zip(states, batches[1:], states[1:], strict=False):
        if base64.b64decode(before["control"])[0] != STATE_VERSION:
            pytest.skip(f"its layout is not STATE_VERSION {STATE_VERSION}: the fold rebuilds it")
        state = unpacked(before)
        assert list(differences(before["views"], views_of(state))) == []
        following = EventBatch(state)
        for change in batch:
            following.apply(change)
        following.finish()
        assert following.errors == 0
        assert list(differences(after["views"], views_of(state))) == []
