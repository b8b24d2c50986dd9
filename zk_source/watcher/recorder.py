"""Turns what was read from ZooKeeper into changes of the log.

The rule: every change gets its seq here, and is noted in `published` in the same step, so that
count and digest are always those of the log up to its last change. A value that was published
already (same path, mzxid and generation) is not published again. A resync begins by forgetting what
was published. No clock: the caller passes times.
"""

from typing import Any

import msgspec

from controller_model.records.changes import (
    MAX_CHANGE_BYTES,
    ChangeKind,
    SessionState,
    ZnodeChange,
    data_fields,
    digest_text,
    encode_change,
    moved_digest,
    znode_digest,
)
from controller_model.sources.zookeeper.znode_kinds import published_data
from source_log.generation_fencing import Generations
from source_log.recorder import LogRecorder
from zk_source.watcher.denied_paths import MAX_NAMED, DeniedPaths
from zk_source.wire.operations import ZnodeData

_REDUCED = "/config/"
"""Payloads of these paths are reduced to what the model needs; the others are published as they are."""


class Published:
    """The znodes that exist according to the log, each with the mzxid that it was last published with.

    Bounded by the number of znodes published: about 200 bytes each.
    """

    def __init__(self) -> None:
        self.mzxids: dict[str, int] = {}
        """By path; `add` and `remove` change it."""
        self._digest = 0

    @property
    def digest(self) -> str:
        """The digest over all znodes, as the log carries it."""
        return digest_text(self._digest)

    def add(self, path: str, mzxid: int) -> None:
        """Note a `set`."""
        old = self.mzxids.get(path)
        self.mzxids[path] = mzxid
        if old is None:
            self._digest ^= znode_digest(path, mzxid)
        else:
            self._digest ^= moved_digest(path, old, mzxid)

    def remove(self, path: str) -> None:
        """Note a `deleted`; an unknown path changes nothing."""
        mzxid = self.mzxids.pop(path, None)
        if mzxid is not None:
            self._digest ^= znode_digest(path, mzxid)


class Recorder(LogRecorder):
    """Makes the changes of one cluster's watcher, in order."""

    def __init__(self, cluster: str, generations: Generations) -> None:
        super().__init__(cluster, generations)
        self._resync = 0
        self.published = Published()
        self.denied = DeniedPaths()
        self.omitted = 0
        """Changes that were too large for the log and were encoded without their data."""

    def value(self, path: str, znode: ZnodeData, zxid: int, now_ms: int) -> ZnodeChange | None:
        """Return a `set`; None when readers know the value already."""
        self.denied.discard(path)
        if self.published.mzxids.get(path) == znode.mzxid:
            return None
        self.published.add(path, znode.mzxid)
        data = published_data(path, znode.data) if path.startswith(_REDUCED) else znode.data
        return self._change(
            ChangeKind.SET,
            now_ms,
            path=path,
            czxid=znode.czxid,
            mzxid=znode.mzxid,
            version=znode.version,
            ephemeral_owner=znode.ephemeral_owner,
            ctime=znode.ctime,
            mtime=znode.mtime,
            read_zxid=zxid,
            **data_fields(data),
        )

    def absence(
        self, path: str, zxid: int, now_ms: int, *, even_unknown: bool
    ) -> ZnodeChange | None:
        """Return a `deleted`; None when readers do not know the path.

        `even_unknown`: publish it anyway, since during a resync readers may know the path from
        before.
        """
        self.denied.discard_all(path)
        if path not in self.published.mzxids and not even_unknown:
            return None
        self.published.remove(path)
        return self._change(ChangeKind.DELETED, now_ms, path=path, read_zxid=zxid)

    def deny(self, path: str) -> bool:
        """Note a denied path; return whether to log it: a denied subtree may have thousands."""
        return self.denied.add(path) and len(self.denied) <= MAX_NAMED

    def allow(self, path: str) -> None:
        """Note that a path without a published value could be read, or does not exist."""
        self.denied.discard(path)

    def resync_started(
        self, now_ms: int, *, reason: str, answers: int | None, rebase: bool
    ) -> ZnodeChange:
        """Return the start of a resync. From here on, readers count nothing as proved."""
        self._resync += 1
        self.published = Published()
        self.denied.clear()
        return self._change(
            ChangeKind.RESYNC_STARTED,
            now_ms,
            resync=self._resync,
            reason=reason,
            answers=answers,
            rebase=rebase,
        )

    def resync_finished(self, now_ms: int) -> ZnodeChange:
        """Return the end of a resync, with the number and digest of the znodes published since its start."""
        return self._change(
            ChangeKind.RESYNC_FINISHED, now_ms, resync=self._resync, **self._totals()
        )

    def reconciled(self, now_ms: int) -> ZnodeChange:
        """Return the end of a reconciliation, with the number and digest of the znodes that the log holds here."""
        return self._change(ChangeKind.RECONCILED, now_ms, **self._totals())

    def heartbeat(
        self, now_ms: int, *, session: SessionState, since_ms: int, server: str
    ) -> ZnodeChange:
        """Return a heartbeat."""
        return self._change(
            ChangeKind.HEARTBEAT,
            now_ms,
            session=session,
            session_since=since_ms + self.clock_ahead_ms,
            zookeeper=server or None,
            dropped=self.dropped,
            **self._denied(),
        )

    def _totals(self) -> dict[str, Any]:
        return {
            "znodes": len(self.published.mzxids),
            "digest": self.published.digest,
            **self._denied(),
        }

    def _denied(self) -> dict[str, Any]:
        named = self.denied.named
        return {"denied": named, "denied_more": len(self.denied) - len(named)}

    def encode(self, change: ZnodeChange) -> bytes:
        """Return a change as the log carries it: without its data if that is too large."""
        data = encode_change(change)
        if len(data) <= MAX_CHANGE_BYTES:
            return data
        self.omitted += 1
        return encode_change(
            msgspec.structs.replace(change, data=None, data_base64=None, data_omitted=True)
        )

    def _change(self, kind: ChangeKind, now_ms: int, **fields: Any) -> ZnodeChange:
        return ZnodeChange(**self.next_header(now_ms), kind=kind, **fields)
