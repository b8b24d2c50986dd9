"""Selects which of a cluster's watchers writes the log: the elected one, while its lease is valid.

A watcher publishes nothing without a valid lease. A lease is valid while its newest proof
is younger than the lease time, which is shorter than the session, and was requested after the lease
was last invalidated. A lost connection invalidates the lease, and so does a record of another
watcher. Without a valid lease, changes wait. When the session is gone, the waiting changes are
dropped and the watcher is a standby again. What it published before does no harm: it carries the
old generation, and the new leader's generation is larger (`generation_fencing`).
"""

import socket
import threading
from collections.abc import Callable

from pipeline.runtime import EnvironmentProblemError, KcmError, UsageError, get_logger
from pipeline.topic_probe import TopicProbe
from source_log.lease import Elector, LeaseStatus, SoleWatcher
from zk_source.config import WatchSettings
from zk_source.election.candidacy import Candidacy, now_s
from zk_source.wire.kazoo_client import Outage

_POLL_S = 0.2


def make_elector(settings: WatchSettings) -> Elector:
    """Return the elector that the settings name; without an election, the watcher runs alone."""
    log = get_logger("election").bind(cluster=settings.cluster)
    if settings.election_path:
        return LeaderElector(settings)
    log.info("no election_path is set: this watcher runs alone, without another to take over")
    return SoleWatcher()


class LeaderElector:
    """Stands for election, with a new candidacy after each that ended. Used by one thread."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._log = get_logger("election").bind(cluster=settings.cluster)
        self._news = threading.Event()
        self._standby_logged = False
        self._where = f"the election's ZooKeeper at {settings.for_election().hosts}"
        self._outage = Outage(self._where, "that names it", now_s)
        self._reached = False
        self._candidacy = self._new_candidacy()
        self._stands = False

    def wait(self, stop: threading.Event, make_probe: Callable[[], TopicProbe]) -> Candidacy | None:
        """Wait until this watcher leads; return None if `stop` is set first.

        It stands for election only while the probe says that the log can be reached.
        """
        self._standby_logged = False
        self._outage.end()
        probe = make_probe()
        probe.thread.start()
        try:
            while not stop.is_set():
                self._news.clear()
                if self._candidacy.status is LeaseStatus.VALID:
                    self._log.info("elected: this watcher leads", czxid=self._candidacy.term)
                    return self._candidacy
                probe.thread.check()
                if probe.failure is None:
                    self._stand()
                    self._replace_if_ended(stop)
                else:
                    self._outage.end()  # nobody asks the election's ZooKeeper in the meantime
                    if self._stands:
                        why = probe.failure
                        self._log.warning("the log is out of reach: no candidate", reason=why)
                        self.resign()
                self._news.wait(_POLL_S)
        finally:
            probe.thread.close(0)
        return None

    def resign(self) -> None:
        """Leave the lease to another watcher, which may do better. The next `wait` stands for election again."""
        self._candidacy.close()
        self._candidacy = self._new_candidacy()
        self._stands = self._standby_logged = False

    def _stand(self) -> None:
        if not self._stands:
            self._candidacy.start()
            self._stands = True

    def close(self) -> None:
        """Give up the lease at once, for another watcher."""
        self._candidacy.close()

    def _new_candidacy(self) -> Candidacy:
        return Candidacy(self._settings, socket.gethostname(), on_change=self._news.set)

    def _replace_if_ended(self, stop: threading.Event) -> None:
        """Warn of what prevents the candidacy from winning; replace a candidacy that has ended."""
        candidacy = self._candidacy
        self._warn(candidacy)
        if candidacy.ended or candidacy.is_silent_for_too_long:
            candidacy.close()
            stop.wait(_POLL_S)
            self._candidacy, self._stands = self._new_candidacy(), False
            self._stand()

    def _warn(self, candidacy: Candidacy) -> None:
        trouble = self._trouble(candidacy)
        if trouble is None:
            # A connection alone says nothing yet: the chroot may be missing.
            self._reached = self._reached or candidacy.may_stand
            self._outage.end()
            if candidacy.may_stand and not self._standby_logged:
                self._standby_logged = True
                self._log.info("standing by for election", path=candidacy.path)
        elif self._outage.warning_is_due():
            if self._settings.fail_fast and not self._reached:
                raise trouble
            self._log.warning(str(trouble))

    def _trouble(self, candidacy: Candidacy) -> KcmError | None:
        if candidacy.connection.auth_failed:
            setting = "election_auth" if self._settings.election_zookeeper else "zk_auth"
            refusal = candidacy.connection.refusal.format(setting=setting)
            raise EnvironmentProblemError(f"{self._where} {refusal}")
        if candidacy.refused and candidacy.ended:
            raise EnvironmentProblemError(
                f"{self._where} refused {candidacy.refused}: allow CREATE, DELETE and READ there"
            )
        if candidacy.refused:
            return UsageError(f"{self._where} refused {candidacy.refused}; correct the chroot")
        if candidacy.silent_s:
            return self._outage.error(candidacy.connection)
        return None
