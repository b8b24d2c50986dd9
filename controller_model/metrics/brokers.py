"""The figures of each broker of the watched cluster.

A known broker that is gone keeps its series, because its replicas still count; figures
that only make sense for a live broker are absent then.
"""

from collections.abc import Mapping

from controller_model.kafka.coordinators import Coordinator
from controller_model.kafka.ids import broker_address
from controller_model.metrics.metric import Sample, Samples, Table, each_of, figure, seconds
from controller_model.records.events import ENDS_IN_ZOOKEEPER, BrokerEnd
from controller_model.records.views import BrokerView


def _broker_info(view: BrokerView) -> list[Sample]:
    record = view.record
    address = broker_address(record.host, record.port)
    if record.host is None or address is None:
        return []
    port = "" if record.port is None else str(record.port)
    return [((str(view.id), address, record.host, port, record.rack or ""), 1)]


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _ends(ends: Mapping[str, int]) -> list[Sample]:
    # The record of a KRaft cluster's broker has an entry for each of its kinds from the start.
    return each_of(() if BrokerEnd.FENCED in ends else ENDS_IN_ZOOKEEPER, ends)


BROKER: Table[BrokerView] = {
    "kafka_broker_info": Samples(
        "Address and rack in the broker's last registration, also with kafka_exporter's labels "
        "(id, address); absent before its first registration.",
        ("id", "address", "host", "port", "rack"),
        _broker_info,
    ),
    "kafka_broker_live": figure(
        "Whether the broker is registered in /brokers/ids, in a KRaft cluster registered and not fenced (1), or known "
        "but gone (0).",
        lambda view: None if view.record.live is None else int(view.record.live),
    ),
    "kafka_broker_fenced": figure(
        "Whether the controller of a KRaft cluster has fenced the broker, so that it leads nothing (1), or not (0); "
        "absent if it is not registered, and outside KRaft.",
        lambda view: _flag(view.record.fenced),
    ),
    "kafka_broker_shutting_down": figure(
        "Whether the broker is in controlled shutdown, or was when it was fenced (1), or not (0); absent if it is not "
        "registered, and outside KRaft.",
        lambda view: None if view.record.fenced is None else int(view.record.shutting_down),
    ),
    "kafka_broker_offline_log_dirs": figure(
        "Number of the broker's log directories that are offline; 0 in a healthy cluster, absent where that is not "
        "known, and outside KRaft.",
        lambda view: view.record.log_dirs_offline,
    ),
    "kafka_broker_since_timestamp_seconds": figure(
        "Unix time in seconds when the broker registered (in a KRaft cluster: or was unfenced) or, if it is gone, when that "
        "was seen; absent before its first registration.",
        lambda view: seconds(view.record.since),
    ),
    "kafka_broker_registrations_total": figure(
        "Registrations of the broker seen: one for each restart and each lost ZooKeeper session; in a KRaft cluster only "
        "for each restart.",
        lambda view: None if view.record.live is None else view.record.registrations,
    ),
    "kafka_broker_ends_total": Samples(
        "Ended registrations of the broker, in KRaft also its fences, by how they ended, which is inferred in "
        "ZooKeeper; crashed and fenced stay flat in a healthy cluster.",
        ("end",),
        lambda view: () if view.record.live is None else _ends(view.record.ends),
    ),
    "kafka_broker_leaders": figure(
        "Number of partitions that the broker leads (JMX LeaderCount).", lambda view: view.leaders
    ),
    "kafka_broker_replicas": figure(
        "Number of replicas assigned to the broker (JMX PartitionCount).",
        lambda view: view.replicas,
    ),
    "kafka_broker_coordinated_partitions": Samples(
        "Number of partitions of __consumer_offsets (group) and __transaction_state "
        "(transaction) that the broker leads and therefore coordinates.",
        ("coordinator",),
        lambda view: each_of(Coordinator, view.coordinated),
    ),
    "kafka_broker_log_dir_failures_total": figure(
        "Times that the broker reported a failed log directory; flat in a healthy cluster.",
        lambda view: None if view.record.live is None else view.record.log_dir_failures,
    ),
    "kafka_broker_in_sync_replicas": figure(
        "Number of the broker's replicas that are in the ISR; all of them in a healthy cluster.",
        lambda view: view.in_isr,
    ),
    "kafka_broker_preferred_replicas": figure(
        "Number of partitions whose preferred (first) replica is on the broker.",
        lambda view: view.preferred,
    ),
    "kafka_broker_preferred_not_led": figure(
        "Number of partitions whose preferred replica is on the broker while another broker leads"
        " them, or none.",
        lambda view: view.preferred_not_led,
    ),
    "kafka_broker_preferred_electable": figure(
        "Number of partitions that a preferred election would give back to the broker now.",
        lambda view: view.preferred_electable,
    ),
    "kafka_broker_imbalance_ratio": figure(
        "Share (0 to 1) of the broker's preferred partitions that it does not lead; by default, the controller "
        "rebalances above 0.1, in a KRaft cluster above 0.",
        lambda view: view.imbalance_ratio,
    ),
    "kafka_broker_leader_skew_ratio": figure(
        "Difference of the broker's preferred replicas from an even share, as a fraction of that "
        "share (0.5: 50 % more), which only a reassignment changes; absent for a broker that is "
        "gone.",
        lambda view: view.leader_skew,
    ),
    "kafka_broker_offline_if_lost_partitions": figure(
        "Number of partitions that would go offline if the broker were lost now, as kcm what-if counts "
        "them; absent while that is not known.",
        lambda view: view.offline_if_lost,
    ),
    "kafka_broker_under_min_isr_if_lost_partitions": figure(
        "Number of partitions that would fall below min.insync.replicas if the broker were lost "
        "now, as kcm what-if counts them; absent while that is not known.",
        lambda view: view.under_min_isr_if_lost,
    ),
    "kafka_broker_safe_to_stop": figure(
        "Whether the broker can stop now and no partition breaks (1) or not (0), as kcm what-if --check "
        "says; absent if it is gone or while that is not known.",
        lambda view: None if view.safe_to_stop is None else int(view.safe_to_stop),
    ),
    "kafka_broker_isr_leaves_total": figure(
        "Times that a replica of the broker left an ISR, without removals by a reassignment; flat "
        "in a healthy cluster.",
        lambda view: None if None in {view.record.live, view.leaders} else view.record.isr_leaves,
    ),
}
