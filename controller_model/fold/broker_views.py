"""Make the views of brokers from the fold's state: in each batch, those that may have changed.

The rule: a view depends on figures of its own broker, which a change marks as touched, and on a basis
that all brokers share. While the basis stays the same, only touched brokers are examined; else all are.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from controller_model.insight.quorum_loss import safe_alone
from controller_model.kafka.coordinators import COORDINATOR_OF
from controller_model.kafka.ids import AsOf
from controller_model.records.views import (
    VERSION,
    BrokerView,
    Capability,
    Deleted,
    broker_key,
    encode_view,
    view_digest,
    view_key,
)
from controller_model.records.visibility import visible_broker
from controller_model.state import figures
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.held_broker import HeldBroker
from controller_model.state.source import Source

_NEVER_REGISTERED = HeldBroker()


class _Basis(NamedTuple):
    """What the views of all brokers depend on in addition to their own figures."""

    verified_at: int | None
    """The time of the last proof: after each proof all views are sent again. A fold that resumed from an
    older checkpoint may have sent them under an as_of below the one that readers have, and its later
    batches may end at other positions."""
    live: frozenset[int]
    preferred: int
    """The number of preferred replicas, from which an even share is computed."""
    assumed: Assumed
    broker_min_isr: frozenset[tuple[str, int]]
    judged: tuple[Any, ...]
    """Of what would break (`LossJudge.basis`)."""
    hidden: frozenset[Capability]
    coordinators: frozenset[str]
    controllers: tuple[tuple[int, bool | None], ...]
    """Whether each controller alone may be lost (`insight.quorum_loss.safe_alone`)."""


class BrokerViews:
    """The views of a cluster's brokers as last sent.

    Without it all views are sent again, which changes nothing.
    """

    def __init__(self) -> None:
        self._control: ControlPlane | None = None
        self._basis: _Basis | None = None
        self._digests: dict[int, int] = {}
        self._digest = 0
        """The XOR of the digests (`view_digest`) of all views."""
        self._safe_to_stop: dict[int, bool | None] = {}
        """Of each registered broker that is not fenced, whether it can stop."""

    def controllers_safe_to_stop(self) -> dict[int, bool]:
        """Return for each controller whether it can stop, as the broker that it may be as well; call it after `changed`."""
        alone = () if self._basis is None else self._basis.controllers
        judged = ((each, self._safe_to_stop.get(each, safe)) for each, safe in alone)
        return {each: safe for each, safe in judged if safe is not None}

    def changed(
        self, control: ControlPlane, as_of: AsOf, source: Source
    ) -> Iterator[tuple[str, BrokerView | Deleted, bytes]]:
        """Yield the views that differ from those last sent: the key, the view, and its JSON.

        Once all of them are consumed, all count as sent. `control.touched` is cleared elsewhere.
        """
        judge, totals = figures.LossJudge(control), control.totals
        preferred = sum(totals.preferred.values())
        basis = _Basis(
            verified_at=control.log.view.verified_at,
            live=frozenset(control.live_brokers),
            preferred=preferred,
            assumed=control.assumed,
            broker_min_isr=frozenset(control.config.broker_min_isr.items()),
            judged=judge.basis,
            hidden=control.log.view.unseen,
            coordinators=frozenset(control.coordinators),
            controllers=tuple(safe_alone(control.quorum).items()),
        )
        controllers = dict(basis.controllers)
        touched: AbstractSet[int] = control.touched
        if basis != self._basis or control is not self._control:
            # For another value of the same cluster it is not known what was touched.
            touched = figures.known_brokers(control) | self._digests.keys()
        is_newly_proved = self._basis is None or basis.verified_at != self._basis.verified_at
        share = preferred / max(1, len(control.live_brokers))
        for broker in sorted(touched):
            before = self._digests.pop(broker, None)
            self._digest ^= before or 0
            self._safe_to_stop.pop(broker, None)
            if broker not in control.brokers and broker not in totals.replicas:
                if before is not None:
                    # It was assigned but never registered, and is no longer assigned.
                    gone = Deleted(v=VERSION, cluster=control.cluster, as_of=as_of)
                    yield broker_key(control.cluster, broker), gone, encode_view(gone)
                continue
            state = source.broker_state(control, broker)
            view = visible_broker(
                _view(
                    control,
                    broker,
                    as_of,
                    judge,
                    share=share,
                    controllers=controllers,
                    state=state,
                ),
                basis.hidden,
            )
            if view.record.live:
                self._safe_to_stop[broker] = view.safe_to_stop
            value = encode_view(view)
            digest = view_digest(value, as_of)
            self._digests[broker] = digest
            self._digest ^= digest
            if is_newly_proved or digest != before:
                yield view_key(view), view, value
        self._control, self._basis = control, basis
        control.published.brokers = self._digest


def _view(
    control: ControlPlane,
    broker: int,
    as_of: AsOf,
    judge: figures.LossJudge,
    *,
    share: float,
    controllers: Mapping[int, bool | None],
    state: str | None,
) -> BrokerView:
    totals = control.totals
    record = control.brokers.get(broker, _NEVER_REGISTERED).record
    lost = judge.of(broker)
    electable = totals.preferred_not_led_in_isr.get(broker, 0)
    return BrokerView(
        v=VERSION,
        cluster=control.cluster,
        as_of=as_of,
        id=broker,
        record=record,
        leaders=totals.leaders.get(broker, 0),
        replicas=totals.replicas.get(broker, 0),
        preferred=totals.preferred.get(broker, 0),
        preferred_not_led=totals.preferred_not_led.get(broker, 0),
        preferred_electable=electable if record.live else 0,
        imbalance_ratio=figures.imbalance_ratio(control, broker),
        leader_skew=figures.leader_skew(control, broker, share),
        in_isr=lost.in_isr,
        offline_if_lost=lost.offline,
        under_min_isr_if_lost=lost.under_min_isr,
        stranded_if_lost=lost.stranded,
        unclean_if_lost=lost.unclean,
        breaks_if_lost=lost.breaks,
        min_isr_unknown_if_lost=lost.min_isr_unknown,
        more_if_lost=None in lost,
        quorum_keeps_majority=controllers.get(broker, True),
        inferred_state=state,
        coordinated={
            COORDINATOR_OF[topic].value: leaders.get(broker, 0)
            for topic, leaders in sorted(control.coordinators.items())
        },
    )
