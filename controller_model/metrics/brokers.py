"""The figures of each broker of the watched cluster.

The rule: a broker that is known but gone keeps its series, because its replicas still count; what
only makes sense for a live one is absent then.
"""

from __future__ import annotations

from collections.abc import Callable

from controller_model.kafka.coordinators import Coordinator
from controller_model.metrics.metric import (
    Metric,
    MetricType,
    Sample,
    each_of,
    one,
    seconds,
    type_of,
    unit_of,
)
from controller_model.records.events import BrokerEnd
from controller_model.records.views import BrokerView


def _broker(
    name: str, text: str, figure: Callable[[BrokerView], float | None]
) -> Metric[BrokerView]:
    return Metric(
        name=name,
        type=type_of(name),
        help=text,
        labels=("cluster", "broker"),
        unit=unit_of(name),
        read=one(figure),
    )


def _broker_info(view: BrokerView) -> list[Sample]:
    if view.host is None:
        return []
    port = "" if view.port is None else str(view.port)
    return [((view.host, port, view.rack or ""), 1)]


BROKER: tuple[Metric[BrokerView], ...] = (
    Metric(
        name="kafka_broker_info",
        type=MetricType.INFO,
        help="Where the broker listens and its rack, as registered last.",
        labels=("cluster", "broker", "host", "port", "rack"),
        unit="",
        read=_broker_info,
    ),
    _broker(
        "kafka_broker_live",
        "1 while the broker is registered in /brokers/ids; 0 for one that is known but gone.",
        lambda view: int(view.live),
    ),
    _broker(
        "kafka_broker_since_timestamp_seconds",
        "When the broker registered (ZooKeeper's clock) or, if it is gone, when its end was seen.",
        lambda view: seconds(view.since),
    ),
    _broker(
        "kafka_broker_registrations_total",
        "Registrations of the broker seen; one more per restart or lost ZooKeeper session.",
        lambda view: view.registrations,
    ),
    Metric(
        name="kafka_broker_ends_total",
        type=MetricType.COUNTER,
        help="Ended registrations of the broker, by how they ended (inferred); crashed is flat in "
        "a healthy cluster.",
        labels=("cluster", "broker", "end"),
        unit="",
        read=lambda view: each_of(BrokerEnd, view.ends),
    ),
    _broker(
        "kafka_broker_leaders",
        "Partitions that the broker leads (JMX LeaderCount); about equal over brokers.",
        lambda view: view.leaders,
    ),
    _broker(
        "kafka_broker_replicas",
        "Replicas assigned to the broker (JMX PartitionCount); about equal over brokers.",
        lambda view: view.replicas,
    ),
    Metric(
        name="kafka_broker_coordinated_partitions",
        type=MetricType.GAUGE,
        help="Partitions of __consumer_offsets (group) and __transaction_state (transaction) that "
        "the broker leads: it coordinates what is kept in them.",
        labels=("cluster", "broker", "coordinator"),
        unit="",
        read=lambda view: each_of(Coordinator, view.coordinated),
    ),
    _broker(
        "kafka_broker_log_dir_failures_total",
        "Failed log directories that the broker told of; flat in a healthy cluster.",
        lambda view: view.log_dir_failures,
    ),
    _broker(
        "kafka_broker_in_sync_replicas",
        "Replicas of the broker that are in the ISR; equals its replicas when all is well.",
        lambda view: view.in_isr,
    ),
    _broker(
        "kafka_broker_preferred_replicas",
        "Partitions whose preferred (first) replica is on the broker.",
        lambda view: view.preferred,
    ),
    _broker(
        "kafka_broker_preferred_not_led",
        "Partitions whose preferred replica is on the broker but whose leader is not.",
        lambda view: view.preferred_not_led,
    ),
    _broker(
        "kafka_broker_preferred_electable",
        "The part of them that a preferred election run now would give back to the broker.",
        lambda view: view.preferred_electable,
    ),
    _broker(
        "kafka_broker_imbalance_ratio",
        "Share of the broker's preferred partitions that others lead; above 0.1 (Kafka's default) "
        "the controller rebalances within 5 minutes, if it may.",
        lambda view: view.imbalance_ratio,
    ),
    _broker(
        "kafka_broker_leader_skew_ratio",
        "How far the broker is from an even share of leaders when every preferred replica leads: 0 "
        "= even, 0.5 = half as much again; no election mends it, only a reassignment; absent for a "
        "broker that is gone.",
        lambda view: view.leader_skew,
    ),
    _broker(
        "kafka_broker_offline_if_lost_partitions",
        "Partitions that the broker alone keeps in sync, as ISRs are written: offline if it dies "
        "now; 0 in a healthy cluster without partitions of replication factor 1.",
        lambda view: view.offline_if_lost,
    ),
    _broker(
        "kafka_broker_under_min_isr_if_lost_partitions",
        "Partitions that fall below min.insync.replicas if the broker dies now.",
        lambda view: view.under_min_isr_if_lost,
    ),
    _broker(
        "kafka_broker_safe_to_stop",
        "1 if stopping the broker now takes no partition offline or below min.insync.replicas, 0 if "
        "it does; absent for a broker that is gone, and while nothing is known to break but the "
        "controller still owes leaders or ISRs.",
        lambda view: None if view.safe_to_stop is None else int(view.safe_to_stop),
    ),
    _broker(
        "kafka_broker_isr_leaves_total",
        "How often a replica of the broker left an ISR: who is to blame for shrinking ISRs; flat "
        "in a healthy cluster. Replicas that a reassignment takes away do not count.",
        lambda view: view.isr_leaves,
    ),
)
