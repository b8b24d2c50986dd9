"""Whether a KRaft quorum commits, who follows its leader, and who is registered and gone.

The rule: how far replicas are is compared by the leader's clock alone, in one answer to DescribeQuorum, and only while
the leader that gave it leads. A replica that the answer does not show as caught up under this leader has been behind
since the election, or for as long as the leader remembers observers. What nobody has answered is not known.
"""

from collections.abc import Iterable, Mapping

import msgspec

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.quorum import QuorumView
from controller_model.records.views import BrokerView, ClusterView

STANDSTILL_MS = 10_000
"""The active controller appends a no-op every 500 ms (metadata.max.idle.interval.ms), and a leader whose voters do not
follow resigns after 1.5 times controller.quorum.fetch.timeout.ms (LeaderState.timeUntilCheckQuorumExpires): 3 s."""

LEAST_WITH_MARGIN = 3
"""Voters of the smallest quorum that goes on without one of them."""

OBSERVER_SESSION_MS = 300_000
"""For so long the leader remembers an observer that does not fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""

_NOT_ASKED = (
    "no answer to DescribeQuorum has come: the watcher needs DESCRIBE on Cluster (kcm doctor "
    "--controllers says what is missing)"
)

GONE_MS = 86_400_000
"""A broker that has been fenced for a day is not being restarted."""


class Lag(msgspec.Struct, frozen=True, gc=False):
    """How far a replica of the metadata log is behind its leader."""

    node: int
    records: int | None
    """None: the leader does not know it."""
    ms: int | None
    """How long ago it held all of the leader's log, at least; None: not known."""


class Lags(msgspec.Struct, frozen=True):
    """The replicas of the metadata log, as of one answer of the leader that leads."""

    voters: tuple[Lag, ...] = ()
    observers: tuple[Lag, ...] = ()
    """Controllers that do not vote."""
    brokers: tuple[Lag, ...] = ()
    """Those that fetch, voters of a combined node included, and live ones that the leader has not heard of."""


def current_sample(quorum: QuorumView) -> QuorumSample | None:
    """Return the last answer to DescribeQuorum while it is of now; None: none came, or it is of the past."""
    return None if why_past(quorum) else quorum.sample


def why_past(quorum: QuorumView) -> str | None:
    """Return why there is no answer to DescribeQuorum that is of now, in words; None: there is one."""
    sample = quorum.sample
    if quorum.unreachable_since is not None or quorum.leader_silent_since is not None:
        who = f"controller {quorum.leader}, which others name as active, does not answer"
        who = who if quorum.unreachable_since is None else "no controller answers"
        return f"{who} the watcher"
    if sample is None:
        return _NOT_ASKED
    if not quorum.is_sampled:
        return "the last answer to DescribeQuorum is too old"
    if (sample.leader, sample.epoch) != (quorum.leader, quorum.leader_epoch):
        return f"the last answer to DescribeQuorum is of the leader of epoch {sample.epoch}, which is past"
    if quorum.epoch not in {None, sample.epoch}:
        return f"the last answer to DescribeQuorum is of epoch {sample.epoch}, and the log holds epoch {quorum.epoch}"
    return None


def lags(view: ClusterView) -> Lags:
    """Return how far each replica is behind; nobody while the leader does not answer."""
    quorum = view.quorum
    sample = None if quorum is None else current_sample(quorum)
    if quorum is None or sample is None:
        return Lags()
    led_ms = _led_ms(view, sample)
    end = next((v.log_end_offset for v in sample.voters if v.replica_id == sample.leader), -1)

    def lag(replica: QuorumReplica) -> Lag:
        # -1 is how Kafka says that it does not know an offset.
        records = None if min(replica.log_end_offset, end) < 0 else end - replica.log_end_offset
        caught_up = replica.last_caught_up_at
        ms = led_ms if caught_up is None else max(0, sample.at - caught_up)
        return Lag(replica.replica_id, None if records is None else max(0, records), ms)

    voters = tuple(map(lag, sample.voters))
    observers = tuple(map(lag, sample.observers))
    known = set(view.brokers_known)
    brokers = [each for each in (*voters, *observers) if each.node in known]
    heard = {each.node for each in (*voters, *observers)}
    silent_ms = None if led_ms is None else min(OBSERVER_SESSION_MS, led_ms)
    silent = [Lag(each, None, silent_ms) for each in view.brokers_live or () if each not in heard]
    standby = tuple(each for each in observers if each.node not in known)
    return Lags(voters, standby, tuple(sorted((*brokers, *silent), key=lambda each: each.node)))


def _led_ms(view: ClusterView, sample: QuorumSample) -> int | None:
    """Return for how long the leader of an answer had led; None: its election is not known."""
    controller = view.controller
    if controller is None or controller.elected_at is None or controller.id != sample.leader:
        return None
    return max(0, sample.at - controller.elected_at)


def leader_is_silent(quorum: QuorumView) -> bool | None:
    """Return whether the active controller does not answer the watcher, although others name it; None: they name none."""
    if quorum.unreachable_since is not None or quorum.leader is None or quorum.leader < 0:
        return None
    return quorum.leader_silent_since is not None


def spare_voters(view: ClusterView) -> int | None:
    """Return how many of the voters that follow may be lost while the others are a majority; None: not known.

    It is 1 of 3 and 2 of 5 in a healthy quorum, and 0 also where they are no majority any more.
    """
    quorum = view.quorum
    sample = None if quorum is None else current_sample(quorum)
    if sample is None:
        return None
    return max(0, len(sample.caught_up) - (len(sample.voters) // 2 + 1))


def commits_have_stopped(quorum: QuorumView) -> bool | None:
    """Return whether nothing is committed although a leader answers; None: none that leads is known to answer.

    The leader itself must say, that long after the high watermark was last seen to grow, that it has not grown. A quorum
    without no-ops (metadata.max.idle.interval.ms=0) commits nothing either while nothing changes.
    """
    sample, since = current_sample(quorum), quorum.high_watermark_since
    if sample is None or since is None:
        return None
    is_still = sample.high_watermark <= (quorum.high_watermark or 0)
    return is_still and sample.at - since >= STANDSTILL_MS


def gone_registrations(
    view: ClusterView, brokers: Iterable[BrokerView], now: int
) -> Mapping[str, tuple[int, ...]] | None:
    """Return the nodes that are registered and gone, by kind, at `now` (ms since 1970); None: it is not known.

    Brokers count once they have been fenced for a day. A controller counts if the leader does not know it, or has not
    heard of it for a day. None of them answers which features it supports, so they can block an upgrade
    (ClusterControlManager, FeatureControlManager.updateFeature).
    """
    quorum = view.quorum
    if quorum is None or view.brokers_live is None:
        return None
    fenced = tuple(
        sorted(
            each.id
            for each in brokers
            if each.record.fenced and now - (each.record.since or view.counters_since) > GONE_MS
        )
    )
    found = {"broker": fenced}
    sample = current_sample(quorum)
    if sample is not None:
        heard = {
            each.replica_id
            for each in (*sample.voters, *sample.observers)
            if each.replica_id == sample.leader
            or (each.last_fetch_at is not None and sample.at - each.last_fetch_at <= GONE_MS)
        }
        unknown = () if _is_young(view, sample) else set(quorum.controllers) - heard
        found["controller"] = tuple(sorted(unknown))
    return found


def _is_young(view: ClusterView, sample: QuorumSample) -> bool:
    """Return whether a leader has led for too short a time to have heard of everybody."""
    led_ms = _led_ms(view, sample)
    return led_ms is not None and led_ms < OBSERVER_SESSION_MS
