"""The faults, by name: each is a function of the world.

The rule: a fault breaks one thing and plans its own end; `World.heal` ends every fault that
remains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streaming import processor as processor_module
from tests.simulation.world import World
from tests.simulation.zookeeper import Refusal
from tests.support.hostile import spoiled
from zk_source.watcher.denied_paths import MAX_NAMED
from zk_source.wire.inbox import MAX_EVENTS
from zk_source.wire.operations import Err

STEPS_MS = (-7_200_000, -3_600_000, -5_000, 5_000, 60_000, 3_600_000)
"""How far a clock that is set is ahead of the others."""

REFUSED = (
    *("/brokers/topics", "/brokers/topics/a", "/brokers/topics/b/partitions", "/brokers/ids"),
    *("/controller", "/config", "/config/brokers", "/admin"),
)
"""Subtrees that a server may refuse to show."""

EXPORTER_STARTS = 0.5
"""How often an exporter starts after the views have lost their head: a running one keeps the lost views."""

BEATS_TAKEN_MS = 20_000
"""An outage of this length is of the log only."""

CROWDED = "/brokers/topics/crowd-000"
HARM_BYTES = 100_000
"""A hostile record is not larger, so that a run does not take long."""


def disconnect(world: World) -> bool:
    """The watcher's connection breaks."""
    edge = world.some_edge()
    if edge is None or edge.connection is None:
        return False
    edge.cut()
    return True


def session_loss(world: World) -> bool:
    """No server accepts the watcher until its session has expired."""
    edge = world.some_edge()
    if edge is None or edge.connection is None:
        return False
    world.unreachable_until = world.clock.now + world.rng.randint(6_500, 20_000)
    edge.cut()
    return True


def lagging_follower(world: World) -> bool:
    """A server falls behind, and the watcher connects to it."""
    edge = world.some_edge()
    server = world.rng.choice(world.zk.servers)
    if edge is None or not server.up or server.cut_off:
        return False
    server.frozen = True
    world.preferred = server

    def come() -> None:
        if edge.alive and server.frozen:
            edge.cut()

    def end() -> None:
        server.frozen = False
        if server.up and not server.cut_off:
            server.catch_up()
        world.preferred = None

    world.clock.after(world.rng.randint(200, 4_000), come)
    world.clock.after(world.rng.randint(4_500, 12_000), end)
    return True


def minority(world: World) -> bool:
    """A server loses its peers: it answers with old data for a while, then not at all."""
    edge = world.some_edge()
    server = world.rng.choice(world.zk.servers)
    if edge is None or not server.up or server.frozen or server.cut_off:
        return False
    server.cut_off = True
    world.preferred = server
    rng = world.rng

    def come() -> None:
        if edge.alive and server.cut_off:
            edge.cut()

    def fall() -> None:
        server.up = False
        world.preferred = None
        world.drop_clients_of(server)

    def end() -> None:
        server.up = True
        server.cut_off = False
        server.catch_up()

    if rng.random() < 0.6:
        world.clock.after(rng.randint(100, 3_000), come)
    down = rng.randint(3_500, 7_000)
    world.minority_until = world.clock.now + down
    world.clock.after(down, fall)
    world.clock.after(down + rng.randint(500, 8_000), end)
    return True


def taken_over_in_a_minority(world: World) -> bool:
    """The watcher dies while the fold is behind, and its successor connects to a server that is cut off."""
    edge = world.some_edge()
    behind = [server for server in world.zk.servers if server.up and not server.cut_off]
    if edge is None or len(behind) < len(world.zk.servers):
        return False
    world.fold.stalled_until = world.clock.now + 6_000
    server = world.rng.choice(behind)
    server.cut_off = True

    def succeed() -> None:
        edge.end()
        world.preferred = server
        world.start_watcher()

    def end() -> None:
        world.preferred = None
        world.drop_clients_of(server)
        server.cut_off = False
        server.catch_up()

    world.clock.after(world.rng.randint(1_000, 3_000), succeed)
    down = world.rng.randint(4_000, 7_000)
    world.minority_until = world.clock.now + down
    world.clock.after(down, end)
    return True


def restored_from_backup(world: World) -> bool:
    """The ensemble is restored from a backup, with smaller zxids."""
    return world.restore(forward=False)


def restored_with_larger_zxids(world: World) -> bool:
    """The ensemble is restored from a backup, in an epoch above all earlier ones."""
    return world.restore(forward=True)


def rebuilt(world: World) -> bool:
    """Another cluster appears under the same name."""
    world.build_anew()
    return True


def zxid_roll_over(world: World) -> bool:
    """The ensemble elects a leader: the low half of the zxid starts again."""
    world.zk.zxid = ((world.zk.zxid >> 32) + 1) << 32
    return True


def events_overflow(world: World) -> bool:
    """Notifications are dropped because memory runs out."""
    edge = world.some_edge()
    if edge is None or edge.connection is None:
        return False
    edge.inbox._most_events = 0  # everything that arrives until the inbox is read is dropped

    def restore() -> None:
        edge.inbox._most_events = MAX_EVENTS

    world.clock.after(world.rng.randint(100, 2_000), restore)
    return True


def watcher_crash(world: World) -> bool:
    """The watcher dies with its unsent changes, and another starts."""
    edge = world.some_edge()
    if edge is None:
        return False
    edge.end()
    world.clock.after(world.rng.randint(100, 8_000), world.start_watcher)
    return True


def watcher_paused(world: World) -> bool:
    """The watcher is paused past its session, another takes over, and the first resumes and writes."""
    edge = world.some_edge()
    if edge is None:
        return False
    edge.pause()
    world.clock.after(world.rng.randint(0, 9_000), world.start_watcher)
    world.clock.after(world.rng.randint(2_000, 25_000), edge.go_on)
    return True


def main_loop_hangs(world: World) -> bool:
    """The watcher's main loop hangs in a process that lives; a standby leads soon, and later the first turns again."""
    running = [e for e in world.edges if e.alive and not e.paused and not e.hangs]
    if not running:
        return False
    rng, edge = world.hangs, world.hangs.choice(running)
    edge.hang()
    world.clock.after(rng.randint(0, 9_000), world.start_watcher)
    world.clock.after(rng.choice((2_000, 6_000, 20_000, 90_000)), edge.turn_again)
    return True


def second_watcher(world: World) -> bool:
    """A second watcher of the same cluster starts."""
    if sum(edge.alive for edge in world.edges) > 1:
        return False
    world.start_watcher()
    return True


def clock_jump(world: World) -> bool:
    """The clock of the watcher's machine is set."""
    edge = world.some_edge()
    if edge is None:
        return False
    edge.clock_ahead_ms = world.rng.choice(STEPS_MS)
    return True


def _refuse_for(world: World, refusal: Refusal, ms: int) -> None:
    world.zk.refuse(refusal)
    world.clock.after(ms, lambda: world.zk.end_refusal(refusal))


def denied(world: World) -> bool:
    """ACLs hide a subtree from the watcher for a while; it may read everything again meanwhile."""
    root = world.rng.choice(REFUSED)
    _refuse_for(world, Refusal(root, Err.NO_AUTH), world.rng.choice((2_000, 10_000, 30_000)))
    edge = world.some_edge()
    if edge is not None and world.rng.random() < 0.5:
        world.clock.after(world.rng.randint(0, 1_500), edge.cut)
    return True


def crowd_denied(world: World) -> bool:
    """ACLs hide more topics from the watcher than its list can name, and its connection breaks."""
    edge = world.some_edge()
    if edge is None or world.zk.exists(CROWDED):
        return False
    paths = world.kafka.crowd(MAX_NAMED + 20)

    def deny() -> None:
        for path in paths:
            world.zk.refuse(Refusal(path, Err.NO_AUTH))
        world.clock.after(10_000, world.zk.end_refusals)

    world.clock.after(2_000, deny)
    world.clock.after(3_000, edge.cut)
    return True


def reads_fail(world: World) -> bool:
    """For a while the servers answer reads of a subtree with an error."""
    root = world.rng.choice(REFUSED)
    _refuse_for(world, Refusal(root, Err.MARSHALLING), world.rng.choice((500, 3_000, 10_000)))
    edge = world.some_edge()
    if edge is not None:
        world.clock.after(world.rng.randint(0, 400), edge.cut)
    return True


def watches_refused(world: World) -> bool:
    """For a while the servers refuse recursive watches."""
    edge = world.some_edge()
    if edge is None or world.zk.old:
        return False
    world.zk.refuses_watches = True
    edge.cut()

    def end() -> None:
        world.zk.refuses_watches = False

    world.clock.after(world.rng.choice((1_000, 20_000)), end)
    return True


def damaged_payload(world: World) -> bool:
    """A znode gets an unreadable payload, which is repaired later."""
    if world.kafka.damage() is None:
        return False
    world.clock.after(world.rng.randint(500, 15_000), world.kafka.repair)
    return True


def hostile_record(world: World) -> bool:
    """Another program writes a harmful record into one of the topics."""
    rng = world.rng
    topic = rng.choice((world.log, world.log, world.views, world.views, world.events))
    values = [(record.key, record.value) for record in topic.records[-50:] if record.value]
    if not values:
        return False
    key, value = rng.choice(values)
    if topic is world.log:
        harm = rng.choice(
            [each for each in spoiled(value[1:-1]).values() if len(each) < HARM_BYTES]
        )
        harm = b"[" + harm + b"]"
    else:
        harm = rng.choice([each for each in spoiled(value).values() if len(each) < HARM_BYTES])
    if topic is world.views:
        world.published.note_stranger(harm)
    topic.append(world.clock.now, key, harm)
    return True


def null_record(world: World) -> bool:
    """A null follows the newest view of an existing topic, as a fold from an older checkpoint writes it."""
    views = world.views
    keys = {record.key for record in views.records if b"/topic/" in record.key and record.value}
    if not keys:
        return False
    views.compacts_below = min(views.compacts_below, views.end)
    for key in world.rng.sample(sorted(keys), min(2, len(keys))):
        views.append(world.clock.now, key, None)
    return True


def hours_pass(world: World) -> bool:
    """The log's clock advances by an hour, twice: views of what was deleted become nulls."""
    edge = world.some_edge()
    if edge is None:
        return False
    edge.clock_ahead_ms += 3_700_000

    def again() -> None:
        if edge.alive and edge.clock_ahead_ms:
            edge.clock_ahead_ms += 3_700_000

    world.clock.after(world.rng.randint(500, 4_000), again)
    return True


def log_tail_lost(world: World) -> bool:
    """An unclean election loses the newest records of the log: a fold that had read them starts again."""
    if not world.log.cut(max(world.log.low, world.log.end - world.rng.randint(1, 8))):
        return False
    if world.fold.committed.offset > world.log.end:
        world.fold.begin_lineage()
    return True


def events_head_lost(world: World) -> bool:
    """Retention deletes the oldest events."""
    events = world.events
    events.lose(0, world.rng.randint(events.low, events.end))
    return True


def events_tail_lost(world: World) -> bool:
    """An unclean election loses the newest events."""
    if not world.events.cut(max(world.events.low, world.events.end - world.rng.randint(1, 8))):
        return False
    world.oracle.on_exporter_restart()
    world.exporter.plan()
    return True


def exporter_clock_jump(world: World) -> bool:
    """The clock of the exporter's machine is set."""
    world.exporter.clock_ahead_ms = world.rng.choice(STEPS_MS)
    return True


def fold_clock_jump(world: World) -> bool:
    """The clock of the fold's machine is set."""
    world.fold.clock_ahead_ms = world.rng.choice(STEPS_MS)
    return True


def zookeeper_clock_jump(world: World) -> bool:
    """The clock of ZooKeeper's leader is set: ctimes and mtimes are wrong by an hour."""
    world.zk.clock_ahead_ms = world.rng.choice(STEPS_MS)
    return True


def silent_connection(world: World) -> bool:
    """The watcher's connection stays open, and nothing arrives on it."""
    edge = world.some_edge()
    if edge is None or edge.connection is None:
        return False
    edge.connection.silent_until = world.clock.now + world.rng.choice((2_000, 8_000, 30_000))
    return True


def exporter_cut_off(world: World) -> bool:
    """The exporter does not reach the pipeline's Kafka."""
    world.exporter.cut_off_until = world.clock.now + world.rng.choice((1_000, 5_000, 15_000))
    world.clock.at(world.exporter.cut_off_until, world.exporter.plan)
    return True


def lead_in_doubt(world: World) -> bool:
    """The leader's connection to the election breaks, perhaps for longer than its session lasts."""
    leader = world.election.leader
    if leader is None or leader.edge is None or leader.is_stopped:
        return False
    leader.cut(world.rng.choice((500, 3_000, 9_000)))
    return True


def kafka_away(world: World) -> bool:
    """The pipeline's Kafka accepts no changes for a while, and either no beats or only beats."""
    ms = world.rng.choice((500, 5_000, 20_000, 40_000))
    world.log_away_until = world.clock.now + ms
    if ms != BEATS_TAKEN_MS:
        world.kafka_away_until = world.log_away_until
    return True


def duplicates(world: World) -> bool:
    """A producer retries without idempotence: messages are in the log twice, out of order."""
    world.duplicates += world.rng.randint(1, 6)
    return True


def lost_message(world: World) -> bool:
    """The next messages are lost after Kafka acknowledged them."""
    world.to_lose += world.rng.randint(1, 3)
    return True


def holed_resync(world: World) -> bool:
    """A resync loses a record between its marks."""
    edge = world.some_edge()
    if edge is None or edge.connection is None:
        return False
    world.to_lose_inside = 1
    edge.cut()
    return True


def damaged_message(world: World) -> bool:
    """A message of the log is damaged."""
    world.to_damage += 1
    return True


def retention(world: World) -> bool:
    """Retention deletes the head of the log, perhaps past the reader."""
    log = world.log
    stalled = world.rng.random() < 0.5
    if stalled:
        world.fold.stalled_until = world.clock.now + 4_000
    wait = 3_900 if stalled else 0
    keep = world.rng.randint(0, 8)

    def eat() -> None:
        log.lose(0, max(0, log.end - keep))

    world.clock.after(wait, eat)
    return True


def lost_stretch(world: World) -> bool:
    """A range of the log that was not read yet is lost."""
    log, fold = world.log, world.fold
    fold.stalled_until = world.clock.now + 5_000
    first = fold.committed.offset

    def lose() -> None:
        begin = first + world.rng.randint(0, 5)
        log.lose(begin, begin + world.rng.randint(1, 10))

    world.clock.after(4_900, lose)
    return True


def fold_crash(world: World) -> bool:
    """The fold dies in a batch: a part of its output is written, and the batch runs again."""
    world.fold.crash_next = True
    world.fold.plan()
    return True


def late_output(world: World) -> bool:
    """A task that Spark has given up survives, and writes its output once more."""
    return world.fold.repeat_output()


def older_checkpoint(world: World) -> bool:
    """The fold restarts from an older checkpoint."""
    kept = world.fold.kept
    if len(kept) < 3:
        return False
    world.fold.go_back(world.rng.choice(kept))
    return True


def lost_checkpoint(world: World) -> bool:
    """The checkpoint is gone: a new lineage."""
    world.fold.lose_checkpoint()
    return True


def new_worker(world: World) -> bool:
    """Spark's Python worker ends, and with it the record of what was sent."""
    del world
    processor_module._remembered.clear()
    return True


def fold_stalled(world: World) -> bool:
    """The fold does nothing for a while."""
    world.fold.stalled_until = world.clock.now + world.rng.choice((1_000, 10_000, 30_000))
    return True


def compaction(world: World) -> bool:
    """The views are compacted, up to a random offset."""
    views = world.views
    views.compact(world.rng.randint(views.start, views.end))
    return True


def views_recreated(world: World) -> bool:
    """The topic of views is deleted and recreated: a new lineage."""
    world.views.make_anew()
    world.fold.begin_lineage()
    world.exporter.plan()
    return True


def views_lose_their_end(world: World) -> bool:
    """The last views are lost in a power failure of their broker, perhaps with the exporter's."""
    rng, views = world.rng, world.views
    world.cut_views(max(views.start, views.end - rng.randint(1, 60)))
    if rng.random() < 0.7:
        exporter_restart(world)
    return True


def views_lose_their_head(world: World) -> bool:
    """A changed retention policy deletes the oldest views; an exporter may start after it."""
    rng, views = world.heads, world.views
    views.lose(0, rng.randint(views.low, views.end))
    world.exporter.plan()
    if rng.random() < EXPORTER_STARTS:
        exporter_restart(world)
    return True


def events_recreated(world: World) -> bool:
    """The topic of events is deleted and recreated: a new lineage."""
    world.events.make_anew()
    world.fold.begin_lineage()
    world.exporter.plan()
    return True


def log_recreated(world: World) -> bool:
    """The log is deleted and recreated: a new lineage, and the watcher starts again."""
    world.log.make_anew()
    world.fold.begin_lineage()
    return watcher_crash(world)


def exporter_restart(world: World) -> bool:
    """The exporter restarts without state."""
    world.exporter.restart()
    world.oracle.on_exporter_restart()
    return True


FAULTS: Mapping[str, tuple[int, Callable[[World], bool]]] = {
    "connection lost": (4, disconnect),
    "session lost": (2, session_loss),
    "lagging follower": (5, lagging_follower),
    "minority": (3, minority),
    "taken over in a minority": (3, taken_over_in_a_minority),
    "restored, smaller zxids": (2, restored_from_backup),
    "restored, larger zxids": (2, restored_with_larger_zxids),
    "cluster rebuilt": (1, rebuilt),
    "zxid roll-over": (1, zxid_roll_over),
    "notifications dropped": (2, events_overflow),
    "watcher crashed": (3, watcher_crash),
    "watcher paused, deposed": (4, watcher_paused),
    "second watcher": (2, second_watcher),
    "watcher's clock set": (3, clock_jump),
    "reads denied": (3, denied),
    "many topics denied": (1, crowd_denied),
    "reads fail": (3, reads_fail),
    "recursive watches refused": (1, watches_refused),
    "payload damaged": (3, damaged_payload),
    "hostile record": (4, hostile_record),
    "null records": (5, null_record),
    "hours pass in the log": (2, hours_pass),
    "tail of the log lost": (2, log_tail_lost),
    "head of the events lost": (1, events_head_lost),
    "tail of the events lost": (1, events_tail_lost),
    "exporter's clock set": (3, exporter_clock_jump),
    "fold's clock set": (1, fold_clock_jump),
    "ZooKeeper's clock set": (1, zookeeper_clock_jump),
    "connection silent": (3, silent_connection),
    "exporter cut off": (2, exporter_cut_off),
    "lead in doubt": (4, lead_in_doubt),
    "Kafka away": (4, kafka_away),
    "duplicates in the log": (5, duplicates),
    "messages lost": (4, lost_message),
    "resync with a hole": (4, holed_resync),
    "message damaged": (2, damaged_message),
    "retention": (3, retention),
    "stretch of the log lost": (3, lost_stretch),
    "fold crashed": (5, fold_crash),
    "old output written late": (4, late_output),
    "older checkpoint": (5, older_checkpoint),
    "checkpoint lost": (2, lost_checkpoint),
    "worker replaced": (2, new_worker),
    "fold stalled": (2, fold_stalled),
    "views compacted": (3, compaction),
    "views recreated": (1, views_recreated),
    "tail of the views lost": (4, views_lose_their_end),
    "events recreated": (1, events_recreated),
    "log recreated": (1, log_recreated),
    "exporter restarted": (4, exporter_restart),
}
"""By name: how often, and the function (False: not possible now)."""
