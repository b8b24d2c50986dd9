"""Which of a cluster's watchers writes the log: the elected one, while its lease is valid.

The rule: nothing leaves a watcher without a valid lease. A lease is valid while its newest proof is
younger than the lease time, which is shorter than the session, and was asked for after the lease was
last invalidated: by a lost connection, or by a record of another watcher. Without a valid lease
changes wait; when the session is gone they are thrown away, and the watcher stands by again. What
left before does no harm: it carries the old generation, and the new leader's is larger
(`generation_fencing`).
"""

from __future__ import annotations

import enum
import socket
import threading
from typing import Protocol

from pipeline.runtime import (
    EnvironmentProblemError,
    KcmError,
    UnreachableError,
    UsageError,
    get_logger,
)
from zk_source.config import WatchSettings
from zk_source.election.candidacy import Candidacy, Proof, now_s

FIRST_WARNING_S = 2.0
MOST_WARNING_PAUSE_S = 60.0
"""An election that cannot be reached is logged after the first, then ever more rarely up to the second."""

_POLL_S = 0.2
_MS = 1000


class LeaseStatus(enum.Enum):
    """Whether the log may be written."""

    VALID = "valid"
    UNPROVEN = "unproven"
    """This watcher leads, but cannot prove it now: changes wait."""
    LOST = "lost"
    """Another watcher leads, or soon will."""


def lease_status(proof: Proof | None, *, invalidated_at: float, now: float) -> LeaseStatus:
    """Return what the newest proof of a lease allows; None is a lease that has ended.

    >>> lease_status(Proof(czxid=7, asked_at=10.0, lease_s=4.0), invalidated_at=0.0, now=13.9).value
    'valid'
    """
    if proof is None:
        return LeaseStatus.LOST
    counts = invalidated_at < proof.asked_at and now - proof.asked_at < proof.lease_s
    return LeaseStatus.VALID if counts else LeaseStatus.UNPROVEN


class Lease(Protocol):
    """The right to write the log, for one term."""

    @property
    def czxid(self) -> int | None:
        """The election znode's: no generation of this term is below it. None without an election."""

    @property
    def status(self) -> LeaseStatus:
        """Whether the log may be written now."""

    def invalidate(self) -> None:
        """Hold the log until the lease is proved anew: another watcher's record was seen."""


class Elector(Protocol):
    """Where leases come from."""

    def wait(self, stop: threading.Event) -> Lease | None:
        """Wait until this watcher leads; None when `stop` was set instead."""

    def close(self) -> None:
        """Leave the lease to others, at once."""


def make_elector(settings: WatchSettings) -> Elector:
    """Return the election that the settings name; without one, the watcher runs alone."""
    log = get_logger("election").bind(cluster=settings.cluster)
    if settings.election_path:
        return LeaderElector(settings)
    log.info("no election_path is set: this watcher runs alone, without another to take over")
    return SoleWatcher()


class SoleWatcher:
    """The elector, and the lease, of a watcher that runs alone."""

    czxid: int | None = None
    status = LeaseStatus.VALID

    def wait(self, stop: threading.Event) -> Lease | None:
        """Return at once."""
        return None if stop.is_set() else self

    def invalidate(self) -> None:
        """Do nothing: there is no election to ask."""

    def close(self) -> None:
        """Do nothing: no other watcher waits."""


class ElectedLease:
    """One term: it ends with the candidacy that won it."""

    def __init__(self, candidacy: Candidacy, proof: Proof, most_silent_s: float) -> None:
        self._candidacy = candidacy
        self._most_silent_s = most_silent_s
        self.czxid: int | None = proof.czxid

    @property
    def status(self) -> LeaseStatus:
        """Whether the log may be written now."""
        candidacy = self._candidacy
        if candidacy.silent_s > self._most_silent_s:
            return LeaseStatus.LOST
        # The proof is read first: an invalidation that comes after it must count.
        proof = candidacy.proof
        return lease_status(proof, invalidated_at=candidacy.invalidated_at, now=now_s())

    def invalidate(self) -> None:
        """Hold the log until the lease is proved anew: another watcher's record was seen."""
        self._candidacy.invalidate()


class LeaderElector:
    """Stands for election, with a new candidacy after each that ended; for one thread."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._log = get_logger("election").bind(cluster=settings.cluster)
        # kazoo stays SUSPENDED for ever before an ensemble that was restored from a backup.
        self._most_silent_s = settings.most_silent_ms / _MS
        self._news = threading.Event()
        self._standby_logged = False
        self._next_warning_s = FIRST_WARNING_S
        self._unreached_since = now_s()
        self._reached = False
        self._candidacy = self._new_candidacy()

    def wait(self, stop: threading.Event) -> Lease | None:
        """Wait until this watcher leads; None when `stop` was set instead."""
        self._standby_logged = False
        self._unreached_since = now_s()
        while not stop.is_set():
            self._news.clear()
            proof = self._candidacy.proof
            if proof is not None:
                lease = ElectedLease(self._candidacy, proof, self._most_silent_s)
                if lease.status is LeaseStatus.VALID:
                    self._log.info("elected: this watcher leads", czxid=proof.czxid)
                    return lease
            self._replace_if_ended(stop)
            self._news.wait(_POLL_S)
        return None

    def close(self) -> None:
        """Leave the lease to others, at once."""
        self._candidacy.close()

    def _new_candidacy(self) -> Candidacy:
        candidacy = Candidacy(self._settings, socket.gethostname(), on_change=self._news.set)
        candidacy.start()
        return candidacy

    def _replace_if_ended(self, stop: threading.Event) -> None:
        """Warn of what stands in the candidacy's way; replace one that has ended."""
        candidacy = self._candidacy
        self._warn(candidacy)
        if candidacy.ended or candidacy.silent_s > self._most_silent_s:
            candidacy.close()
            stop.wait(_POLL_S)
            self._candidacy = self._new_candidacy()

    def _warn(self, candidacy: Candidacy) -> None:
        trouble = self._trouble(candidacy)
        if trouble is None:
            self._reached = self._reached or not candidacy.silent_s
            self._unreached_since = now_s()
            self._next_warning_s = FIRST_WARNING_S
            if not candidacy.silent_s and not self._standby_logged:
                self._standby_logged = True
                self._log.info("standing by for election", path=candidacy.path)
            return
        waited_s = now_s() - self._unreached_since
        if waited_s < self._next_warning_s:
            return
        self._next_warning_s = min(waited_s * 2, waited_s + MOST_WARNING_PAUSE_S)
        if self._settings.fail_fast and not self._reached:
            raise trouble
        self._log.warning(str(trouble))

    def _trouble(self, candidacy: Candidacy) -> KcmError | None:
        hosts = self._settings.for_election().hosts
        where = f"the election's ZooKeeper at {hosts}"
        if candidacy.auth_failed:
            raise EnvironmentProblemError(f"{where} refused the credentials: correct them")
        if candidacy.refused and candidacy.ended:
            raise EnvironmentProblemError(
                f"{where} refused {candidacy.refused}: allow CREATE, DELETE and READ there"
            )
        if candidacy.refused:
            return UsageError(f"{where} refused {candidacy.refused}; correct the chroot")
        if candidacy.silent_s:
            silent_s = now_s() - self._unreached_since
            advice = candidacy.tls_advice or "start it or correct the setting that names it"
            return UnreachableError(
                f"{where} does not answer (for {silent_s:.0f} s): "
                f"{candidacy.last_error or 'no answer yet'}; {advice}"
            )
        return None
