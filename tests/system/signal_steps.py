"""Which step of the demo, or of the drill on real servers, moves each signal of the dashboards.

Each signal is in one of the two tables. What no step moves has the reason beside it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class DemoStep(enum.StrEnum):
    """The steps of `kcm demo` by their titles."""

    CREATE = "topics are created under load"
    KILL_FOLLOWER = "a broker is killed that is not the controller"
    KILL_CONTROLLER = "the controller's broker is killed"
    DEPOSE = "/controller is deleted three times in a row"
    BRING_BACK = "the brokers come back, imbalance stays"
    STALL = "a live broker stalls and leaves the ISRs"
    WAKE = "it goes on and rejoins them"
    ELECT = "the preferred election restores the balance"


class DrillStep(enum.StrEnum):
    """The steps of the drill on real servers, for what is too rare, too long or too harsh for the demo."""

    CREATE = (
        "topics with single replicas, strict min.insync.replicas and skewed leaders are created"
    )
    VACATE = "all brokers hang and /controller is gone"
    FLAP = "/controller is deleted six times in a row"
    BOUNCE = "a broker loses its session three times"
    ISR_FLAP = "a follower falls behind twice"
    STALL = "a broker hangs while its replicas are moved and deleted"
    UNCLEAN = "the last in-sync replica dies and an older one takes over"
    ZOMBIE = "the controller hangs while a broker dies"
    IDLE = "a controller is elected that does not begin its work"
    DISK = "a log directory is lost"
    BLIND = "ZooKeeper is killed"
    UNWATCHED = "the watcher is killed while elections pass"
    MEDDLE = "somebody writes into ZooKeeper by hand"
    DENY = "the right to read a path is taken"
    FLOOD = "the pipeline's Kafka hangs under a burst"
    HOLE = "the fold hangs and is killed, and the log loses records"
    UNSERVED = "the exporter is killed"


_NAMES: Mapping[DemoStep | DrillStep, str] = {
    DemoStep.CREATE: "partitions broker_replicas behind last_change_age znodes",
    DemoStep.KILL_FOLLOWER: """
        under_replicated at_min_isr under_replicated_unexplained under_replicated_at_min_isr
        brokers_down isr_shrinks_hour on_gone_brokers broker_leaders broker_imbalance
        broker_imbalance_of_threshold broker_live broker_gone broker_not_registered broker_gone_at_min_isr
        broker_in_sync broker_not_electable broker_unmendable broker_skew
        broker_isr_leaves_hour broker_absent broker_ends_hour broker_offline_if_lost
        broker_safe_to_stop broker_since incident_open incident incident_abnormal
        incidents_day incident_age imbalanced_brokers next_blocked trouble
        clusters_in_trouble brokers_gone_now
    """,
    DemoStep.KILL_CONTROLLER: """
        controller_id id_changes_hour last_vacancy last_vacancy_at_most failover
        last_failover controller_elected_at offline leaderless leader_elections_hour
        time_since_election
    """,
    DemoStep.DEPOSE: """
        controller_epoch elections_recent elections_hour vacancy_hour vacancy_at_most_hour
        elections_long next_rebalance
    """,
    DemoStep.BRING_BACK: """
        isr_expands_hour broker_electable broker_registrations_hour broker_bounces_hour mendable_brokers
        next_elected
    """,
    DemoStep.STALL: "",
    DemoStep.WAKE: "",
    DemoStep.ELECT: "imbalance",
    DrillStep.CREATE: """
        replication_factor_1 min_isr_blocking one_rack broker_skew_large broker_coordinates
        broker_under_min_if_lost verified_age reconciliations_hour watcher_delay fold_delay
        exporter_delay whole_delay
    """,
    DrillStep.VACATE: "vacant_now clusters_without_controller",
    DrillStep.FLAP: "",
    DrillStep.BOUNCE: "broker_mendable recommended",
    DrillStep.ISR_FLAP: "under_min_isr broker_isr_flapping",
    DrillStep.STALL: "reassigning reassignment_stalled deleting deletion_age",
    DrillStep.UNCLEAN: "unclean_hour unclean_minute",
    DrillStep.ZOMBIE: """
        pending_leader_writes controller_health zombie pending_writes oldest_pending_write
        answer latency sessions connections without_state request_age topic_offline topic_under_min_isr
        topic_under_replicated worst_topics_age broker_led_short
    """,
    DrillStep.IDLE: "failover_age",
    DrillStep.DISK: "broker_log_dirs",
    DrillStep.BLIND: """
        server session_age role latency_most status followed followed_not blind
        watcher_connected resyncs_hour clusters_not_followed figures_stale firing
    """,
    DrillStep.UNWATCHED: "missed_elections_hour no_watcher_leads",
    DrillStep.MEDDLE: """
        stale_writes_hour unreadable_hour anomalies_hour missed_updates_hour foreign_writes
    """,
    DrillStep.DENY: "denied_paths",
    DrillStep.FLOOD: "resync_under_way dropped_hour buffered",
    DrillStep.HOLE: "doubtful resync_wanted log_holes_hour fold_lag",
    DrillStep.UNSERVED: "exporter_lag clusters",
}
MOVED = {step: tuple(names.split()) for step, names in _NAMES.items()}
"""The signals that change within each step."""

UNMOVED: Mapping[str, str] = {
    "migrating": "no step begins a migration",
    "outstanding": "the one ZooKeeper keeps up",
    "min_isr_unknown": "the clusters have that setting",
    "incident_last": "an incident ends after a minute without problems, for which no step waits",
    "imbalance_threshold": "it is a setting",
    "graded_day": "an outcome is known minutes after an election",
    "clock_skew": "no step sets a machine's clock",
    "not_served": "it exists only while nothing is scraped; the drill waits for its alert instead",
    "standby_missing": "the clusters have one watcher each",
    "paths_denied": "the drill denies only what Kafka's own ACLs deny, too",
    "fold_restarts": "the drill kills the fold's process, whose counter starts again with it",
    "checkpoint_free": "there is no kubelet",
    "errors_hour": "only an error in the monitor's own code moves it",
    **dict.fromkeys(
        [
            "commits_stopped",
            "leader_silent",
            "spare_voters",
            "quorum_margin_lost",
            "voters",
            "voter_lag",
            "controller_lag",
            "controller_lag_records",
            "quorum_not_known",
            "candidacies_hour",
            "committed_minute",
            "snapshot_age",
            "since_snapshot",
            "feature_level",
            "unknown_records",
            "fences_recent",
            "gone_registrations",
            "isr_empty",
            "with_elr",
            "broker_fenced",
            "broker_is_fenced",
            "broker_shutting_down",
            "broker_metadata_lag",
            "broker_metadata_lag_records",
            "broker_metadata_behind",
            "broker_offline_dirs",
        ],
        "only a KRaft cluster has it",
    ),
    "recovering": "no step elects an unclean leader",
}
"""The signals that no step moves, and why."""

STEP_OF: Mapping[str, DemoStep | DrillStep] = {
    signal: step for step, signals in MOVED.items() for signal in signals
}
