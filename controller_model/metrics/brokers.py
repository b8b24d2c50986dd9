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
        help="Host, port and rack of a broker, as it registered last; absent before its first "
        "registration.",
        labels=("cluster", "broker", "host", "port", "rack"),
        unit="",
        read=_broker_info,
    ),
    _broker(
        "kafka_broker_live",
        "Whether the broker is registered in /brokers/ids (1) or known but gone (0).",
        lambda view: int(view.live),
    ),
    _broker(
        "kafka_broker_since_timestamp_seconds",
        "Unix time in seconds when the broker registered, or when its end was seen if it is gone;"
        " absent before its first registration.",
        lambda view: seconds(view.since),
    ),
    _broker(
        "kafka_broker_registrations_total",
        "Registrations of the broker seen: one for each restart and each lost ZooKeeper session.",
        lambda view: view.registrations,
    ),
    Metric(
        name="kafka_broker_ends_total",
        type=MetricType.COUNTER,
        help="Ended registrations of the broker, by how they ended, which is inferred; crashed "
        "stays flat in a healthy cluster.",
        labels=("cluster", "broker", "end"),
        unit="",
        read=lambda view: each_of(BrokerEnd, view.ends),
    ),
    _broker(
        "kafka_broker_leaders",
        "Number of partitions that the broker leads (JMX LeaderCount).",
        lambda view: view.leaders,
    ),
    _broker(
        "kafka_broker_replicas",
        "Number of replicas assigned to the broker (JMX PartitionCount).",
        lambda view: view.replicas,
    ),
    Metric(
        name="kafka_broker_coordinated_partitions",
        type=MetricType.GAUGE,
        help="Number of partitions of __consumer_offsets (group) and __transaction_state "
        "(transaction) that the broker leads and therefore coordinates.",
        labels=("cluster", "broker", "coordinator"),
        unit="",
        read=lambda view: each_of(Coordinator, view.coordinated),
    ),
    _broker(
        "kafka_broker_log_dir_failures_total",
        "Failed log directories that the broker reported; flat in a healthy cluster.",
        lambda view: view.log_dir_failures,
    ),
    _broker(
        "kafka_broker_in_sync_replicas",
        "Number of the broker's replicas that are in the ISR; all of them in a healthy cluster.",
        lambda view: view.in_isr,
    ),
    _broker(
        "kafka_broker_preferred_replicas",
        "Number of partitions whose preferred (first) replica is on the broker.",
        lambda view: view.preferred,
    ),
    _broker(
        "kafka_broker_preferred_not_led",
        "Number of partitions whose preferred replica is on the broker while another broker leads"
        " them, or none.",
        lambda view: view.preferred_not_led,
    ),
    _broker(
        "kafka_broker_preferred_electable",
        "Number of partitions that a preferred election would give back to the broker now.",
        lambda view: view.preferred_electable,
    ),
    _broker(
        "kafka_broker_imbalance_ratio",
        "Share (0 to 1) of the broker's preferred partitions that it does not lead; by default, "
        "the controller rebalances above 0.1.",
        lambda view: view.imbalance_ratio,
    ),
    _broker(
        "kafka_broker_leader_skew_ratio",
        "How far the broker is from an even share of preferred replicas, as a part of that share "
        "(0.5: half as many again), which only a reassignment changes; absent for a broker that "
        "is gone.",
        lambda view: view.leader_skew,
    ),
    _broker(
        "kafka_broker_offline_if_lost_partitions",
        "Number of partitions that would go offline if the broker were lost now, because it alone"
        " is in their ISR.",
        lambda view: view.offline_if_lost,
    ),
    _broker(
        "kafka_broker_under_min_isr_if_lost_partitions",
        "Number of partitions that would fall below min.insync.replicas if the broker were lost "
        "now.",
        lambda view: view.under_min_isr_if_lost,
    ),
    _broker(
        "kafka_broker_safe_to_stop",
        "Whether the broker can stop now without a partition going offline or below "
        "min.insync.replicas (1) or not (0); absent if it is gone, and while that cannot be "
        "known.",
        lambda view: None if view.safe_to_stop is None else int(view.safe_to_stop),
    ),
    _broker(
        "kafka_broker_isr_leaves_total",
        "How often a replica of the broker left an ISR, removals by a reassignment excepted; flat"
        " in a healthy cluster.",
        lambda view: view.isr_leaves,
    ),
)
