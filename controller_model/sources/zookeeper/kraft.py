"""A cluster that leaves ZooKeeper: how much of it ZooKeeper still shows while a KRaft controller runs it.

The rule: from the moment at which a KRaft controller holds /controller, the metadata log is the authority and ZooKeeper
a copy, up to the offset in /migration. The controller writes that offset after each batch of its log, at least every 500 ms
(KRaftMigrationDriver.MetadataChangeEvent), so an offset that stands still shows that the copy has ended: the migration was
finalized, or no controller runs. Brokers that restart in KRaft mode leave /brokers/ids for ever, while topics are still
copied: nothing tells such a broker, while it catches up, from one that is dead. States say whether leaders live.
"""

from controller_model.facts.facts import MigrationIs
from controller_model.records.events import AnyEvent
from controller_model.records.views import Capability, KraftMigration
from controller_model.sources.zookeeper.denied_paths import hidden_by
from controller_model.sources.zookeeper.payloads import decode_migration
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead
from controller_model.state.control_plane import ControlPlane

COPY_ENDS_MS = 30_000
"""How long the offset in /migration stands still before ZooKeeper is no copy: a KRaft controller that restarts is back
within that time, and one that runs writes it every 500 ms."""

_IN_THE_LOG = tuple(each for each in Capability if each is not Capability.CLUSTER)
"""What only the metadata log shows once the copy has ended: /migration itself stays as it is."""


def read_migration(read: ZnodeRead) -> list[AnyEvent]:
    """Read how far a migration has come."""
    change, znode = read.change, decode_migration(read.change.payload())
    is_found = zookeeper_of(read.control).resync is not None
    # What a resync finds may have stood still for long; ZooKeeper's clock shows since when.
    at = change.observed_at if change.mtime is None else min(change.mtime, change.observed_at)
    migration = KraftMigration(
        controller=znode.kraft_controller_id,
        controller_epoch=znode.kraft_controller_epoch,
        metadata_offset=znode.kraft_metadata_offset,
        metadata_epoch=znode.kraft_metadata_epoch,
        written_at=at if is_found else change.observed_at,
    )
    return read.handle(read.state, MigrationIs(read.stamp, migration))


def read_migration_end(read: ZnodeRead) -> list[AnyEvent]:
    """Read the deletion of /migration: a rollback, by the operators' hands."""
    return read.handle(read.state, MigrationIs(read.stamp, None))


def note_hidden(control: ControlPlane) -> None:
    """Store what cannot be seen now: what is denied, and what has left ZooKeeper, with when that was first seen."""
    log = control.log.view
    controller = control.controller.view
    if not controller.migrating_to_kraft:
        log.kraft_since = None
    elif log.kraft_since is None:
        log.kraft_since = control.now if controller.elected_at is None else controller.elected_at
    denied = hidden_by(log.denied) if log.denied else ()
    left = _left(control, denied)
    log.left_since = (log.left_since or control.now) if left else None
    hidden = {*denied, *left}
    log.hidden = tuple(each for each in Capability if each in hidden)


def _left(control: ControlPlane, denied: tuple[Capability, ...]) -> tuple[Capability, ...]:
    if not control.controller.view.migrating_to_kraft:
        return ()
    migration = control.config.migration
    if migration is None:
        is_copy = Capability.CLUSTER not in denied
    else:
        is_copy = control.now - migration.written_at <= COPY_ENDS_MS
    if not is_copy:
        return _IN_THE_LOG
    has_left = any(
        n and broker not in control.live_brokers for broker, n in control.totals.replicas.items()
    )
    return (Capability.BROKERS,) if has_left else ()
