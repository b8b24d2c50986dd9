"""Which of a cluster's watchers writes the log: the one that leads, as long as it can prove it.

The rule: nothing leaves a watcher unless the newest proof of its lead counts: it is younger than its
lease, which is shorter than the session, and it was asked for after the last doubt. A lost
connection is a doubt, and so is a record of a rival. While no proof counts, changes wait; when
the session is gone they are thrown away, and the watcher stands by again. What had left before
does no harm: it carries the old generation, and the new leader's is larger (`rivals`).
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

FIRST_WORD_S = 2.0
MOST_SILENCE_S = 60.0
"""An election that cannot be reached is told after the first, then ever more rarely up to the second."""

_LOOK_S = 0.2
_MS = 1000


class Standing(enum.Enum):
    """Whether the log may be written."""

    LEADING = "leading"
    HELD = "held"
    """We lead, but cannot prove it now: changes wait."""
    LOST = "lost"
    """Somebody else leads, or soon will."""


def judge(proof: Proof | None, *, doubted_at: float, now: float) -> Standing:
    """Say what the newest proof of a lead allows; None is a lead that is gone.

    >>> judge(Proof(czxid=7, asked_at=10.0, lease_s=4.0), doubted_at=0.0, now=13.9).value
    'leading'
    """
    if proof is None:
        return Standing.LOST
    counts = doubted_at < proof.asked_at and now - proof.asked_at < proof.lease_s
    return Standing.LEADING if counts else Standing.HELD


class Lead(Protocol):
    """One term in the lead."""

    @property
    def czxid(self) -> int | None:
        """The election znode's: no generation of this term is below it. None without an election."""

    @property
    def standing(self) -> Standing:
        """Whether the log may be written now."""

    def doubt(self) -> None:
        """Hold the log until the lead is proved anew: a rival was seen."""


class Office(Protocol):
    """Where the lead comes from."""

    def wait(self, stop: threading.Event) -> Lead | None:
        """Wait until this watcher leads; None when `stop` was set instead."""

    def close(self) -> None:
        """Leave the lead to others, at once."""


def find_office(settings: WatchSettings) -> Office:
    """Return the election that the settings name, or the office of a watcher that runs alone."""
    log = get_logger("election").bind(cluster=settings.cluster)
    if settings.election_path:
        return Election(settings)
    log.info("no election_path is set: this watcher runs alone, nobody takes over from it")
    return Alone()


class Alone:
    """The lead of a watcher that has no others beside it."""

    czxid: int | None = None
    standing = Standing.LEADING

    def wait(self, stop: threading.Event) -> Lead | None:
        """Return at once."""
        return None if stop.is_set() else self

    def doubt(self) -> None:
        """Do nothing: there is nobody to ask."""

    def close(self) -> None:
        """Do nothing: nobody waits."""


class ElectedLead:
    """One term: it ends with the candidacy that won it."""

    def __init__(self, candidacy: Candidacy, proof: Proof, most_silent_s: float) -> None:
        self._candidacy = candidacy
        self._most_silent_s = most_silent_s
        self.czxid: int | None = proof.czxid

    @property
    def standing(self) -> Standing:
        """Whether the log may be written now."""
        candidacy = self._candidacy
        if candidacy.silent_s > self._most_silent_s:
            return Standing.LOST
        # The proof first: one that a doubt overtakes must not count.
        proof = candidacy.proof
        return judge(proof, doubted_at=candidacy.doubted_at, now=now_s())

    def doubt(self) -> None:
        """Hold the log until the lead is proved anew: a rival was seen."""
        self._candidacy.doubt()


class Election:
    """Stands for election, with a new candidacy after each that ended; for one thread."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._log = get_logger("election").bind(cluster=settings.cluster)
        # kazoo stays SUSPENDED for ever before an ensemble that was restored from a backup.
        self._most_silent_s = settings.most_silent_ms / _MS
        self._news = threading.Event()
        self._told_standby = False
        self._next_word_s = FIRST_WORD_S
        self._unheard_since = now_s()
        self._heard = False
        self._candidacy = self._new_candidacy()

    def wait(self, stop: threading.Event) -> Lead | None:
        """Wait until this watcher leads; None when `stop` was set instead."""
        self._told_standby = False
        self._unheard_since = now_s()
        while not stop.is_set():
            self._news.clear()
            proof = self._candidacy.proof
            if proof is not None:
                lead = ElectedLead(self._candidacy, proof, self._most_silent_s)
                if lead.standing is Standing.LEADING:
                    self._log.info("elected: this watcher leads", czxid=proof.czxid)
                    return lead
            self._look_after(stop)
            self._news.wait(_LOOK_S)
        return None

    def close(self) -> None:
        """Leave the lead to others, at once."""
        self._candidacy.close()

    def _new_candidacy(self) -> Candidacy:
        candidacy = Candidacy(self._settings, socket.gethostname(), on_change=self._news.set)
        candidacy.start()
        return candidacy

    def _look_after(self, stop: threading.Event) -> None:
        """Replace a candidacy that came to nothing, and say what stands in its way."""
        candidacy = self._candidacy
        self._say(candidacy)
        if candidacy.ended or candidacy.silent_s > self._most_silent_s:
            candidacy.close()
            stop.wait(_LOOK_S)
            self._candidacy = self._new_candidacy()

    def _say(self, candidacy: Candidacy) -> None:
        trouble = self._trouble(candidacy)
        if trouble is None:
            self._heard = self._heard or not candidacy.silent_s
            self._unheard_since = now_s()
            self._next_word_s = FIRST_WORD_S
            if not candidacy.silent_s and not self._told_standby:
                self._told_standby = True
                self._log.info("standing by for election", path=candidacy.path)
            return
        waited_s = now_s() - self._unheard_since
        if waited_s < self._next_word_s:
            return
        self._next_word_s = min(waited_s * 2, waited_s + MOST_SILENCE_S)
        if self._settings.fail_fast and not self._heard:
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
            silent_s = now_s() - self._unheard_since
            return UnreachableError(
                f"{where} does not answer (for {silent_s:.0f} s): "
                f"{candidacy.last_error or 'no answer yet'}; start it "
                "or correct the setting that names it"
            )
        return None
