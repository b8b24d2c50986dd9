"""The checks once all is quiet: the state equals the truth, at the fold and at the exporter.

The rule: the truth is the ensemble's tree. What should be shown is computed from it alone, by a
fold that has seen a single resync. Counters are compared with a fold of the same log without its
repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch, replay
from controller_model.kafka.ids import AsOf, Position
from controller_model.records.changes import ChangeKind, ZnodeChange, data_fields, digest_text
from controller_model.records.completeness import Stage, Status
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.views import AnyView, BrokerView, ClusterView, TopicView
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.znode_kinds import published_data
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from exporter.core.records import ClusterSnapshot
from tests.simulation.fold import Path
from tests.simulation.neighbour import Neighbour
from tests.simulation.oracle import (
    PROOFS,
    BrokenError,
    Note,
    decoded,
    digest_of,
    is_logged,
    marks_of,
    read_batch,
)
from tests.simulation.stage import CLUSTER
from tests.support.ensemble_in_memory import requests_in_flight
from tests.support.histories import Held
from zk_source.wire.operations import ZnodeData

if TYPE_CHECKING:
    from tests.simulation.world import World

_NO_AS_OF = AsOf("", 0, 0)
_HISTORY_OF_A_BROKER = (
    "since",
    "registrations",
    "ends",
    "isr_leaves",
    "isr_leave_minutes",
    "inferred_state",
    "log_dir_failures",
)


def last_reported(world: World) -> Position:
    """Return the newest position in the log."""
    return max((change.position for change in _reported(world, 0)), default=Position(0, 0))


def unrest(world: World, since_ms: int, reported: Position) -> str | None:
    """Return why the pipeline is not quiet yet; None when it is, and the state was proved since then.

    `reported` is the log's position at that time: an older proof may have a later time, by a
    watcher's clock that was ahead, and an older message may be repeated.
    """
    live = [edge for edge in world.edges if edge.alive]
    if len(live) != 1:
        return f"{len(live)} watchers live"
    edge = live[0]
    reading = edge.watcher.reader
    pending = (
        reading.walk,
        requests_in_flight(edge.watcher),
        len(edge.inbox),
        not edge.publisher.idle,
    )
    if any(pending) or len(reading.dirty):
        return "the watcher is busy"
    if not world.fold.idle or not world.exporter.idle:
        return "the fold or the exporter has something to read"
    news = (change for change in _reported(world, since_ms) if change.position > reported)
    # A proof that was held back for a while may be of earlier reads, which were denied then.
    since_there = since_ms + edge.clock_ahead_ms
    if not any(change.kind in PROOFS and change.observed_at >= since_there for change in news):
        return "no proof was reported since, of what was read since"
    control = world.fold.committed.control()
    if (
        control is None
        or control.log.view.watcher != edge.name
        or control.source.resync is not None
    ):
        return "what is held is not proved by this watcher, whose clock may be another"
    clock = control.log.clock
    ahead = 0 if clock is None else clock.correction
    why = _not_shown_as_live(world, since_ms - edge.clock_ahead_ms, world.clock.now + ahead)
    return why or next(filter(None, (_unrest_of(world, each) for each in world.neighbours)), None)


def _reported(world: World, since_ms: int) -> Iterable[ZnodeChange]:
    """Return the readable changes of the cluster's messages that were appended to the log since then."""
    own = CLUSTER.encode()
    return decoded(r for r in world.log.records if r.timestamp >= since_ms and r.key == own)


def _not_shown_as_live(world: World, since_ms: int, log_now: int) -> str | None:
    snapshot = world.exporter.snapshot
    if snapshot is None:
        return "the exporter shows nothing"
    verdict = world.exporter.completeness(snapshot)
    wanted = snapshot.view.resync_wanted
    # Its clock is correct again, but only the next change of a znode shows that.
    was_zookeepers = list(verdict.clock_skew_ms) == [Stage.ZOOKEEPER]
    right = {Status.LIVE, Status.CLOCKS_DISAGREE} if was_zookeepers else {Status.LIVE}
    if verdict.status not in right or wanted is not None:
        return f"{verdict.status}: {snapshot.view.log.incomplete_reason}, wanted {wanted}"
    if not since_ms < (verdict.verified_at or 0) <= log_now:
        return "nothing has been verified since, by a clock that is right"
    return None


def check(world: World) -> None:
    """Raise BrokenError unless what is held and shown equals the truth."""
    truth = {path: z.mzxid for path, z in world.zk.tree.nodes.items() if is_logged(path)}
    held = marks_of(world.fold.committed)
    if held != truth:
        wrong = {p: (held.get(p), truth.get(p)) for p in held.keys() | truth.keys()}
        wrong = {p: pair for p, pair in wrong.items() if pair[0] != pair[1]}
        raise BrokenError("the state equals the truth", f"held and true: {wrong}")
    snapshot = world.exporter.snapshot
    if snapshot is None:
        raise BrokenError("the exporter shows the truth", "it shows nothing")
    if snapshot.view.log.digest != digest_text(digest_of(truth)):
        raise BrokenError("the exporter shows the truth", "its digest is another")
    nodes = {path: znode for path, znode in world.zk.tree.nodes.items() if is_logged(path)}
    _compare_views(snapshot, fresh_views(world, CLUSTER, nodes, world.zk.zxid, snapshot))
    check_counters(world)
    world.viewers.check()
    world.fold.check()
    for neighbour in world.neighbours:
        _check_neighbour(world, neighbour)


def _unrest_of(world: World, neighbour: Neighbour) -> str | None:
    """Return why a neighbour's figures are not complete yet; None when they are, or it is not shown."""
    shown = world.exporter.collector.clusters.get(neighbour.cluster)
    if shown is None:
        return None
    log, as_of = shown.view.log, shown.view.as_of
    if (as_of.generation, as_of.seq) < neighbour.position:
        return f"{neighbour.cluster}: {neighbour.position} is not shown yet"
    is_whole = (log.incomplete_since, log.divergent_since) == (None, None)
    return (
        None
        if is_whole and log.verified_at is not None
        else f"{neighbour.cluster}: {log.incomplete_reason}"
    )


def _check_neighbour(world: World, neighbour: Neighbour) -> None:
    """Check that a neighbour's figures are correct and are shown as complete."""
    name = neighbour.cluster
    shown = world.exporter.collector.clusters.get(name)
    if shown is None:
        raise BrokenError("the exporter shows the truth", f"nothing of {name}")
    if (why := _unrest_of(world, neighbour)) is not None:
        raise BrokenError("a whole resync counts as a proof", why)
    if shown.view.counters_since < neighbour.forgotten_at:
        raise BrokenError("a forgotten cluster begins again", f"{name}: it counts from before")
    _compare_views(shown, fresh_views(world, name, neighbour.nodes, neighbour.zxid))


def _compare_views(snapshot: ClusterSnapshot, fresh: Mapping[str, AnyView]) -> None:
    """Raise BrokenError unless an exporter shows the same as a fold that has seen one resync."""
    name = snapshot.name
    topics = {key: entry.decode() for key, entry in snapshot.topics.items()}
    shown: dict[str, AnyView] = {f"{name}/cluster": snapshot.view, **topics}
    shown |= {f"{name}/broker/{id_}": view for id_, view in snapshot.brokers.items()}
    for key in sorted(shown.keys() | fresh.keys()):
        is_, should = facts(shown.get(key)), facts(fresh.get(key))
        if is_ != should:
            raise BrokenError("the exporter shows the truth", f"{key}: {is_}, should be {should}")


def facts(view: AnyView | None) -> Any:
    """Return a view's current facts: no counters, clocks or positions in the log."""
    match view:
        case ClusterView():
            pending = msgspec.structs.replace(
                view.pending,
                oldest_reassignment_at=None,
                oldest_deletion_at=None,
                oldest_request_at=None,
                preferred_election_at=None,
                reassign_partitions_at=None,
            )
            assert view.controller is not None
            holder = (view.controller.id, view.controller.epoch, view.controller.elected_at)
            held = (view.log.znodes, view.log.digest, view.brokers_live, view.config.cluster_id)
            return (*holder, *held, view.counts, pending)
        case TopicView():
            return msgspec.structs.replace(view, as_of=_NO_AS_OF)
        case BrokerView():
            plain = msgspec.structs.replace(view, as_of=_NO_AS_OF)
            known = msgspec.to_builtins(plain)
            known |= known.pop("record")
            if not view.record.live:
                # Of a dead broker a fresh fold knows only its assignments.
                known = {k: v for k, v in known.items() if isinstance(v, int | float) and v}
                known.pop("epoch", None)
                known.pop("port", None)
                known.pop("quorum_keeps_majority", None)
            for name in _HISTORY_OF_A_BROKER:
                known.pop(name, None)
            return known if view.record.live or set(known) - {"v", "id"} else None
        case _:
            return None


def fresh_views(
    world: World,
    cluster: str,
    nodes: Mapping[str, ZnodeData | Held],
    zxid: int,
    shown: ClusterSnapshot | None = None,
) -> dict[str, AnyView]:
    """Return the views of a fold that has seen one resync of these znodes, up to a zxid.

    Which controllers brokers refuse is known from the past alone, so it is taken from what is shown.
    """
    state = ClusterState(
        ControlPlane(cluster, assumed=Assumed(), counters_since=0), MemoryTopicStore(), ZOOKEEPER
    )
    digest = digest_text(digest_of({path: znode.mzxid for path, znode in nodes.items()}))
    seq = 0

    def feed(kind: ChangeKind, **fields: Any) -> None:
        nonlocal seq
        seq += 1
        change = ZnodeChange(
            v=1,
            cluster=cluster,
            generation=1,
            watcher="w",
            seq=seq,
            kind=kind,
            observed_at=world.clock.now,
            **fields,
        )
        replay(state, change)

    feed(ChangeKind.RESYNC_STARTED, resync=1)
    for path, znode in nodes.items():
        data = published_data(path, znode.data) if path.startswith("/config/") else znode.data
        stat = {
            name: getattr(znode, name)
            for name in ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeral_owner")
        }
        feed(ChangeKind.SET, path=path, read_zxid=zxid, **stat, **data_fields(data))
    feed(ChangeKind.RESYNC_FINISHED, resync=1, znodes=len(nodes), digest=digest)
    if shown is not None and shown.view.controller is not None:
        state.control.controller.view.refused_below = shown.view.controller.refused_below
    views = project(state, as_of=AsOf("l", 1, seq), folded_at=0, sent=SentViews())
    return {key: view for key, view, _ in views if view is not None}


def check_counters(world: World) -> None:
    """Raise BrokenError unless the counters are those of the log without its repetitions."""
    path = world.fold.committed.path
    held = world.fold.committed.control()
    if path is None or held is None:
        return
    again = fold_again(path)
    if again is None:
        return
    control, base = again
    _compare("counters", held.counters, control.counters)
    for name in ("elections", "missed_elections", "id_changes", "stale_writes"):
        ours, fresh = held.controller.view, control.controller.view
        _compare(name, getattr(ours, name), getattr(fresh, name))
    _compare("seen", held.source.elections.seen, control.source.elections.seen)
    for name in ("resyncs", "reconciliations", "holes", "stale", "missed_updates"):
        _compare(name, getattr(held.log.view, name), getattr(control.log.view, name))
    _compare("rebases", held.source.rebases, control.source.rebases)
    _compare("brokers", _lives(held), _lives(control))
    _compare("incidents", held.incidents, control.incidents)
    _compare("recommendations", held.recommendations, control.recommendations)
    known = not world.zk.era and not world.kafka.was_controller_damaged
    if base is not None and known and world.kafka.controller() is not None:
        elections = base[0] + world.kafka.epoch() - base[1]
        _compare("elections by the epoch", held.controller.view.elections, elections)


def fold_again(path: Path) -> tuple[ControlPlane, tuple[int, int] | None] | None:
    """Return the result of folding the log without repetitions, and elections and epoch at its baseline."""
    note = Note()
    state: ClusterState | None = None
    base: tuple[int, int] | None = None
    awaited: int | None = None
    read: set[int | None] = set()
    for rows in path.batches():
        batch = read_batch(note, rows)
        note = batch.note
        for change in batch.records():
            if isinstance(change, ElectionRequest):
                if state is not None:
                    EventBatch(state).store_request(change)
                continue
            if state is None:
                since = change.observed_at
                control = ControlPlane(CLUSTER, assumed=Assumed(), counters_since=since)
                state = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
                events = EventBatch(state)
            events.apply(change)
            if change.path == "/controller":
                read.add(change.czxid)
            if base is None and state.control.log.baseline:
                controller = state.control.source.controller
                view = state.control.controller.view
                # /controller was read, but its epoch not yet: one more election is in flight.
                behind = (controller.czxid or 0) > controller.epoch_zxid
                base = (view.elections, (view.epoch or 0) + behind)
                # A server that lags may show a controller again which was read before, and has gone since.
                awaited = None if controller.epoch_zxid in read else controller.epoch_zxid
            elif base and awaited and (change.path, change.czxid) == ("/controller", awaited):
                # Its epoch was read before the baseline, and /controller itself comes after: it
                # counts.
                base, awaited = (base[0], base[1] - 1), None
        if state is not None:
            events.finish()
    return None if state is None else (state.control, base)


def _lives(control: ControlPlane) -> dict[int, tuple[int, Mapping[str, int], int]]:
    return {
        id_: (b.record.registrations, b.record.ends, b.record.isr_leaves)
        for id_, b in control.brokers.items()
    }


def _compare(name: str, held: object, expected: object) -> None:
    if held != expected:
        raise BrokenError("counters are exact", f"{name} is {held}, should be {expected}")
