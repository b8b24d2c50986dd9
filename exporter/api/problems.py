"""List the problems of a cluster, the worst first, in an operator's terms: the head of the live page and of `kcm status`.

The rule: a problem is a figure of the view as a sentence, with its start where the view knows it. Whether it is a
problem, and whether it is critical or a warning, is decided as the alert on the same figure decides it: by the one
table of thresholds (`controller_model.insight.thresholds`) with the installation's changes. A disabled alert has
no problem. What is no problem is not mentioned, so a page without problems is quiet.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from controller_model.insight.quorum import (
    LEAST_WITH_MARGIN,
    Lag,
    commits_have_stopped,
    lags,
    leader_is_silent,
    spare_voters,
)
from controller_model.insight.thresholds import Threshold
from controller_model.insight.unseen import left_text, unseen
from controller_model.insight.wording import duration
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Completeness, Stage, Status
from controller_model.records.foreign_writes import FOREIGN_WRITE_WORDS
from controller_model.records.pending_writes import ControllerHealth
from controller_model.records.recent import LEAVES_WINDOW_MINUTES
from controller_model.records.views import BrokerView, ClusterView, ControllerView, Failover
from controller_model.records.visibility import MIN_ISR
from exporter.core.records import ClusterSnapshot
from exporter.partitions.conditions import Condition

_BROKERS_NAMED = 5
"""Most brokers that one sentence names; the table below it has all of them."""
_PERCENT = 100
_SECOND_MS = 1000


class ProblemSeverity(enum.StrEnum):
    """How bad a problem is, in Prometheus's terms, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    NONE = "none"


class AlertState(enum.StrEnum):
    """The state of the alert on a problem, in Prometheus's terms."""

    PENDING = "pending"
    """The condition has not held for the alert's `for` yet."""
    FIRING = "firing"


class ClusterProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    severity: ProblemSeverity
    text: str
    since: int | None = None
    """Milliseconds since 1970; None where it is not known."""
    filter: Condition | None = None
    """The condition by which its partitions are listed; None where it is not about partitions."""
    alert: str | None = None
    """The alert on it, whose runbook says what to do; None: there is no such alert."""
    state: AlertState | None = None
    """The alert's state; None: it may be pending or firing, because the start of the problem is not known."""


_CRITICAL, _WARNING = ProblemSeverity.CRITICAL, ProblemSeverity.WARNING


class _Case(NamedTuple):
    """A cluster at one moment, and the thresholds of its alerts."""

    snapshot: ClusterSnapshot
    moment: Moment
    now: int
    thresholds: Mapping[str, Threshold]

    @property
    def view(self) -> ClusterView:
        return self.snapshot.view

    def judged(  # the parts of a problem, each by its name
        self,
        alert: str,
        value: float | None,
        text: str,
        *,
        since: int | None = None,
        met_since: int | None = None,
        filter_: Condition | None = None,
    ) -> Iterator[ClusterProblem]:
        """Yield the problem if the value meets the alert's threshold.

        `met_since`: since when it does, where that is later than `since`.
        """
        threshold = self.thresholds.get(alert)
        if threshold is not None and threshold.is_met(value):
            state = self._state(threshold, since if met_since is None else met_since)
            severity = ProblemSeverity(threshold.severity)
            yield ClusterProblem(severity, text, since, filter_, alert, state)

    def judged_by_age(
        self, alert: str, since: int, text: str, *, filter_: Condition | None = None
    ) -> Iterator[ClusterProblem]:
        """Yield the problem if it is older than the alert's threshold, which is an age in seconds."""
        threshold = self.thresholds.get(alert)
        if threshold is None:
            return
        met_since = since + int(threshold.limit * _SECOND_MS)
        age_s = (self.now - since) / _SECOND_MS
        yield from self.judged(
            alert, age_s, text, since=since, met_since=met_since, filter_=filter_
        )

    def _state(self, threshold: Threshold, since: int | None) -> AlertState | None:
        if threshold.for_s == 0:
            return AlertState.FIRING
        if since is None:
            return None
        is_held = self.now - since >= threshold.for_s * _SECOND_MS
        return AlertState.FIRING if is_held else AlertState.PENDING


def problems_of(
    snapshot: ClusterSnapshot,
    moment: Moment,
    now: int,
    thresholds: Mapping[str, Threshold],
) -> list[ClusterProblem]:
    """Return the problems of a cluster at `now` (ms since 1970), critical ones first."""
    case = _Case(snapshot, moment, now, thresholds)
    found = [
        problem
        for part in (
            _kraft,
            _controller,
            _quorum,
            _foreign_writes,
            _flapping,
            _partitions,
            _brokers,
            _balance,
        )
        for problem in part(case)
    ]
    # Of the monitor's own problems only those that fire: before that, the page's line on trust is enough.
    found += [
        problem
        for part in (_blind, _late, _doubtful, _setting, _quorum_not_known)
        for problem in part(case)
        if problem.state is not AlertState.PENDING
    ]
    return sorted(found, key=lambda problem: problem.severity is not _CRITICAL)


def severity_of(problems: list[ClusterProblem], completeness: Completeness) -> ProblemSeverity:
    """Return the worst severity of a cluster's problems; at least a warning where the figures are in doubt."""
    found = {problem.severity for problem in problems}
    if _CRITICAL in found:
        return _CRITICAL
    is_well = not found and completeness.status is Status.LIVE
    return ProblemSeverity.NONE if is_well else _WARNING


def _controller(case: _Case) -> Iterator[ClusterProblem]:
    controller, pending = case.view.controller, case.view.pending_writes
    if controller is None:
        return  # there are no figures, and so no alerts
    who = controller.id
    is_zombie = pending.health is ControllerHealth.ZOMBIE
    if who < 0:
        since = controller.vacant_since
        yield from case.judged("KafkaControllerMissing", who, "There is no controller", since=since)
    elif is_zombie:
        text = f"Broker {who} is the controller and does not do its work"
        yield from case.judged(
            "KafkaControllerZombie",
            int(is_zombie),
            text,
            since=pending.zombie_since or pending.pending_since,
        )
    elif pending.health is ControllerHealth.SLOW:
        text = f"The controller, broker {who}, is slow with its work"
        yield ClusterProblem(_WARNING, text, pending.pending_since)
    if controller.failover is Failover.UNDER_WAY and not is_zombie:
        yield from _failover(case, controller)


def _quorum(case: _Case) -> Iterator[ClusterProblem]:
    """Yield what is wrong with a KRaft quorum; a cluster in ZooKeeper has none."""
    view, quorum, moment = case.view, case.view.quorum, case.moment
    if quorum is None:
        return
    silent = leader_is_silent(quorum)
    text = f"Controller {quorum.leader} does not answer, which others name as active: there may be no controller"
    yield from case.judged(
        "KafkaControllerSilent",
        None if silent is None else int(silent),
        text,
        since=quorum.leader_silent_since,
    )
    stopped = commits_have_stopped(quorum)
    text = "A leader answers, and nothing is committed to the metadata log"
    since = quorum.high_watermark_since
    yield from case.judged(
        "KafkaQuorumCommitsStopped", None if stopped is None else int(stopped), text, since=since
    )
    replicas = lags(view)
    behind = _over(case, "KafkaVoterBehind", replicas.voters)
    if behind:
        whose = f"Controller{'' if len(behind) == 1 else 's'} {_ids([lag.node for lag in behind])}"
        text = f"{whose} {_has_been(behind)} behind the active controller"
        yield from case.judged("KafkaVoterBehind", _longest_s(behind), text)
    if len(quorum.voters) >= LEAST_WITH_MARGIN:
        text = "No further controller may be lost: only just a majority follows, or less"
        yield from case.judged("KafkaQuorumMarginLost", spare_voters(view), text)
    fenced = moment.recent_fences
    text = f"The controller fenced {fenced} brokers within 10 minutes; none was restarted since"
    yield from case.judged("KafkaFenceStorm", fenced, text)
    live = {id_ for id_, each in case.snapshot.brokers.items() if each.record.live}
    brokers = tuple(each for each in replicas.brokers if each.node in live)
    behind = _over(case, "KafkaBrokerMetadataBehind", brokers)
    if behind:
        whose = f"Broker{'' if len(behind) == 1 else 's'} {_ids([lag.node for lag in behind])}"
        text = f"{whose} {_has_been(behind)} behind on the metadata log"
        yield from case.judged("KafkaBrokerMetadataBehind", _longest_s(behind), text)
    for kind, nodes in (moment.gone_registrations or {}).items():
        text = f"{_number(len(nodes), kind)} registered and gone, which can block an upgrade: {_ids(list(nodes))}"
        yield from case.judged("KafkaGoneNodeRegistered", len(nodes), text)
    if quorum.snapshot_at is not None:
        text = "No snapshot of the metadata log has been taken for long"
        yield from case.judged_by_age("KafkaSnapshotOld", quorum.snapshot_at, text)


def _over(case: _Case, alert: str, replicas: tuple[Lag, ...]) -> list[Lag]:
    """Return the replicas that are behind by more than an alert's threshold."""
    threshold = case.thresholds.get(alert)
    return [
        each
        for each in replicas
        if threshold is not None and each.ms is not None and threshold.is_met(each.ms / _SECOND_MS)
    ]


def _longest_s(behind: list[Lag]) -> float:
    return max(each.ms or 0 for each in behind) / _SECOND_MS


def _has_been(behind: list[Lag]) -> str:
    """Return for how long replicas have been behind, of several the longest time."""
    longest = duration(max(each.ms or 0 for each in behind))
    return f"has been {longest}" if len(behind) == 1 else f"have been up to {longest}"


def _foreign_writes(case: _Case) -> Iterator[ClusterProblem]:
    for kind, count in (case.view.foreign_writes or {}).items():
        # Of another fold, a kind may be unknown here.
        words = FOREIGN_WRITE_WORDS.get(kind, kind)
        text = f"{words[:1].upper()}{words[1:]} ({count})"
        yield from case.judged("KafkaForeignWrites", count, text)


def _failover(case: _Case, controller: ControllerView) -> Iterator[ClusterProblem]:
    who, since = controller.id, controller.failover_since
    alert = "KafkaControllerFailoverSlow"
    text = f"The failover work of controller {who} is under way"
    took_s = None if since is None else (case.now - since) / _SECOND_MS
    found = list(case.judged(alert, took_s, text, since=since))
    if not found and alert in case.thresholds:
        # It will be a problem if it lasts.
        found = [ClusterProblem(_WARNING, text, since, alert=alert, state=AlertState.PENDING)]
    yield from found


def _flapping(case: _Case) -> Iterator[ClusterProblem]:
    within = case.moment.recent_elections
    for alert, window, words in (
        ("KafkaControllerFlapping", "10m", "10 minutes"),
        ("KafkaControllerFlappingSlowly", "6h", "6 hours"),
    ):
        times = within.get(window)
        text = f"The controller flaps: elected {times} times within {words}"
        yield from case.judged(alert, times, text)
    minutes, alert = case.moment.isr_leave_minutes, "KafkaIsrFlapping"
    threshold = case.thresholds.get(alert)
    flapping = [id_ for id_, count in minutes.items() if threshold and threshold.is_met(count)]
    if flapping:
        most = max(minutes[id_] for id_ in flapping)
        whose = f"{'broker' if len(flapping) == 1 else 'brokers'} {_ids(flapping)}"
        text = f"Replicas of {whose} leave ISRs again and again: in {most} of {LEAVES_WINDOW_MINUTES} minutes"
        yield from case.judged(alert, most, text)


def _partitions(case: _Case) -> Iterator[ClusterProblem]:
    counts = case.view.counts
    text = _are(counts.offline or 0, "offline: no writes, no reads")
    yield from case.judged(
        "KafkaPartitionsOffline", counts.offline, text, filter_=Condition.OFFLINE
    )
    under = counts.under_min_isr
    text = _are(under or 0, "under min ISR: writes with acks=all are refused")
    yield from case.judged(
        "KafkaPartitionsUnderMinIsr", under, text, filter_=Condition.UNDER_MIN_ISR
    )
    at_min_isr = counts.under_replicated_at_min_isr
    text = _are(at_min_isr or 0, "at min ISR: no further replica may be lost")
    yield from case.judged("KafkaPartitionsAtMinIsr", at_min_isr, text)
    text = _are(counts.under_replicated or 0, "under-replicated")
    yield from case.judged(
        "KafkaPartitionsUnderReplicated",
        None
        if counts.under_replicated is None or counts.under_replicated_reassigning is None
        else counts.under_replicated - counts.under_replicated_reassigning,
        text,
        filter_=Condition.UNDER_REPLICATED,
    )
    text = f"{_are(counts.isr_empty or 0, 'without anybody in sync')}: start an eligible leader replica"
    yield from case.judged("KafkaIsrEmpty", counts.isr_empty, text, filter_=Condition.OFFLINE)
    text = f"{_number(counts.recovering or 0, 'partition')} recovering from an unclean election"
    yield from case.judged("KafkaPartitionsRecovering", counts.recovering, text)
    has = "has" if counts.without_state == 1 else "have"
    text = f"{_number(counts.without_state or 0, 'partition')} {has} no state: no leader"
    yield from case.judged(
        "KafkaPartitionsWithoutState",
        counts.without_state,
        text,
        filter_=Condition.WITHOUT_STATE,
    )
    since = case.view.pending.oldest_request_at
    if since is not None:
        text = "A request in /admin waits for the controller"
        yield from case.judged_by_age("KafkaRequestStuck", since, text)
    since = case.view.pending.oldest_deletion_at
    if since is not None:
        text = "A topic waits for its deletion"
        yield from case.judged_by_age(
            "KafkaTopicDeletionStuck", since, text, filter_=Condition.DELETING
        )


def _brokers(case: _Case) -> Iterator[ClusterProblem]:
    for broker in case.snapshot.brokers.values():
        offline = broker.record.log_dirs_offline
        text = f"Broker {broker.id} has {_number(offline or 0, 'log directory', 'log directories')} offline"
        yield from case.judged("KafkaLogDirFailed", offline, text)
    gone = [b for b in case.snapshot.brokers.values() if b.record.live is False and b.replicas]
    fenced = [broker for broker in gone if broker.record.fenced]
    unregistered = [broker for broker in gone if not broker.record.fenced]
    for alert, which, what in (
        ("KafkaBrokerGone", unregistered, "not registered"),
        ("KafkaBrokerFenced", fenced, "fenced"),
    ):
        if which:
            replicas = _replicas(which)
            text = f"{_named(which)} {what}; {_number(replicas, 'replica')} there"
            yield from case.judged(alert, replicas, text, since=_first(which))
    if gone and case.view.counts.under_replicated_at_min_isr:
        text = f"{_named(gone)} gone, while partitions can lose no further replica"
        since = _first(gone)
        for problem in case.judged("KafkaBrokerGoneAtMinIsr", _replicas(gone), text, since=since):
            # Since when partitions are at min ISR is not known, only that it cannot be longer than the broker is gone.
            if problem.state is not AlertState.PENDING:
                yield msgspec.structs.replace(problem, state=None)


def _replicas(brokers: list[BrokerView]) -> int:
    return sum(broker.replicas or 0 for broker in brokers)


def _first(brokers: list[BrokerView]) -> int | None:
    """Return when an outage began: with the first of its brokers, if that is known for all."""
    times = [broker.record.since for broker in brokers if broker.record.since is not None]
    return min(times) if len(times) == len(brokers) else None


def _balance(case: _Case) -> Iterator[ClusterProblem]:
    rebalance = case.view.rebalance
    if rebalance is None or rebalance.recommendation is None:
        return  # an imbalance that may balance itself within moments is no problem
    limit = (rebalance.threshold_percentage or 0) / _PERCENT
    above = [
        broker
        for broker in case.snapshot.brokers.values()
        if (broker.imbalance_ratio or 0) > limit and broker.preferred_electable
    ]
    if above:
        elects = sum(broker.preferred_electable or 0 for broker in above)
        electable = _number(elects, "leader")
        # A KRaft controller has no limit: it balances each partition (ReplicationControlManager).
        more = "" if rebalance.threshold_percentage is None else f"more than {limit:.0%} "
        text = f"{_named(above)} {more}imbalanced; an election gives {electable} back"
        yield from case.judged("KafkaLeadersImbalanced", elects, text, filter_=Condition.ELECTABLE)


def _kraft(case: _Case) -> Iterator[ClusterProblem]:
    log = case.view.log
    if log.kraft_since is not None:
        text = "A KRaft controller runs the cluster, which migrates: ZooKeeper is a copy"
        text = text if log.left_since is None else left_text(case.view)
        yield from case.judged("KafkaMigratingToKraft", 1, text)


def _blind(case: _Case) -> Iterator[ClusterProblem]:
    completeness = case.moment.completeness
    if completeness.status is Status.BLIND:
        text = "The monitor is blind: it does not see what happens in ZooKeeper"
        if (quorum := case.view.quorum) is not None:
            why = "the quorum shows it no commits"
            if quorum.unreachable_since is not None:
                why = "no controller answers it"
            elif leader_is_silent(quorum):
                why = "the active controller does not answer it"
            text = f"The monitor is blind: {why}, so changes are not seen"
        yield from case.judged("KcmBlind", 1, text, since=completeness.since)


def _late(case: _Case) -> Iterator[ClusterProblem]:
    ages = case.moment.behind_ms
    if not ages:
        return
    stage = max(ages, key=lambda each: ages[each])
    text = f"The figures are late: no sign of life of the {_STAGES[stage]}"
    for alert in ("KcmBehindForLong", "KcmBehind"):
        found = list(case.judged_by_age(alert, case.now - ages[stage], text))
        if any(problem.state is AlertState.FIRING for problem in found):
            yield from found
            return  # the worse of the two is enough


_STAGES = {Stage.WATCHER: "watcher", Stage.FOLD: "fold", Stage.EXPORTER: "exporter's own reading"}


def _doubtful(case: _Case) -> Iterator[ClusterProblem]:
    log = case.view.log
    is_divergent = log.divergent_since is not None
    since = log.divergent_since if is_divergent else log.incomplete_since
    if since is None and log.verified_at is None:
        since = case.view.counters_since
    why = "a reconciliation proved it" if is_divergent else "changes may be missing"
    yield from case.judged(
        "KcmIncompleteOrDivergent",
        log.incomplete + is_divergent,
        f"Figures may be wrong: {why}",
        since=since,
    )
    denied = len(log.denied) + log.denied_more
    text = f"The watcher may not read {_number(denied, 'path')} in ZooKeeper"
    yield from case.judged("KcmPathsDenied", denied if log.incomplete else None, text)
    skews = [abs(skew) / _SECOND_MS for skew in case.moment.clock_skew_ms.values()]
    text = "Clocks disagree: times in events and incidents may be wrong"
    yield from case.judged("KcmClocksDisagree", max(skews, default=None), text)


def _setting(case: _Case) -> Iterator[ClusterProblem]:
    counts = case.view.counts
    if counts.under_min_isr is None and counts.partitions and not unseen(case.view, MIN_ISR):
        text = f"min.insync.replicas is not known: {_number(counts.partitions, 'partition')} not checked against it"
        yield from case.judged("KcmMinIsrNotKnown", counts.partitions, text)


def _quorum_not_known(case: _Case) -> Iterator[ClusterProblem]:
    quorum, controller = case.view.quorum, case.view.controller
    if quorum is None or controller is None or controller.id < 0:
        return
    if quorum.voters and spare_voters(case.view) is None and not leader_is_silent(quorum):
        text = f"Who of {_number(len(quorum.voters), 'voter')} follows the active controller is not known"
        # At the earliest: an answer of the leader before is none of this one.
        sampled_at = None if quorum.sample is None else quorum.sample.at
        since = max(sampled_at or 0, controller.elected_at or 0, case.view.counters_since)
        yield from case.judged("KcmQuorumNotKnown", len(quorum.voters), text, since=since)


def _are(count: int, condition_text: str) -> str:
    return f"{_number(count, 'partition')} {'is' if count == 1 else 'are'} {condition_text}"


def _named(brokers: list[BrokerView]) -> str:
    ids = _ids([broker.id for broker in brokers])
    return f"Broker {ids} is" if len(brokers) == 1 else f"Brokers {ids} are"


def _ids(brokers: list[int]) -> str:
    ids = ", ".join(map(str, brokers[:_BROKERS_NAMED]))
    more = len(brokers) - _BROKERS_NAMED
    return f"{ids} and {more} more" if more > 0 else ids


def _number(count: int, thing: str, things: str | None = None) -> str:
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"
