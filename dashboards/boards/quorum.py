"""The dashboard *Quorum*: whether a KRaft cluster commits, which controllers and brokers follow, and what it may lose."""

from controller_model.insight.thresholds import (
    FENCED_BROKERS,
    FLAPPING_ELECTIONS,
    METADATA_BEHIND_SECONDS,
    SNAPSHOT_SECONDS,
    VOTER_BEHIND_SECONDS,
)
from dashboards.boards.panels import (
    NOBODY,
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    Column,
    counts,
    figure,
    limit,
    lines,
    table_of,
)
from dashboards.boards.rows import TRUST, Row
from dashboards.signals import brokers, controller
from dashboards.signals import quorum as signals
from dashboards.signals.partitions import UNCLEAN_HOUR

NO_QUORUM = "no quorum"
"""For a cluster in ZooKeeper, which has none."""

ROWS: tuple[Row, ...] = (
    Row(
        "Does the quorum commit?",
        figure(
            "Active controller",
            controller.CONTROLLER_ID,
            span=4,
            steps=((None, "green"),),
            texts=NOBODY,
            no_value="not known",
        ),
        figure(
            "Answers",
            signals.LEADER_SILENT,
            span=2,
            steps=((None, "green"),),
            texts={"0": ("yes", "green"), "1": ("no", "red")},
            no_value="not known",
        ),
        figure(
            "Commits",
            signals.COMMITS_STOPPED,
            span=4,
            steps=((None, "green"),),
            texts={"0": ("go on", "green"), "1": ("stopped", "red")},
            no_value=NO_QUORUM,
        ),
        figure(
            "Controllers that may be lost",
            signals.SPARE_VOTERS,
            span=4,
            steps=((None, "green"),),
            texts={"0": ("none", "red")},
            no_value=NO_QUORUM,
        ),
        figure("Voters", signals.VOTERS, span=2, no_value=NO_QUORUM),
        figure(
            "Fenced together", signals.FENCES_RECENT, span=4, steps=ZERO_IS_BEST, no_value=NO_QUORUM
        ),
        figure(
            "Registered and gone",
            signals.GONE_REGISTRATIONS,
            span=4,
            steps=ZERO_IS_BEST,
            no_value=NO_QUORUM,
        ),
        lines("Records committed within a minute", signals.COMMITTED_MINUTE, span=8),
        counts(
            f"Elections within {controller.FLAPPING_WINDOW}",
            controller.ELECTIONS_RECENT,
            span=8,
            steps=limit(FLAPPING_ELECTIONS),
        ),
        counts("Candidates not elected, within an hour", signals.CANDIDACIES_HOUR, span=8),
    ),
    Row(
        "Which controllers follow?",
        table_of(
            "Controllers",
            Column("Lag", signals.CONTROLLER_LAG),
            Column("Lag in records", signals.CONTROLLER_LAG_RECORDS),
            key="node",
            span=12,
            worst_by="Lag",
        ),
        lines("Lag of voters", signals.VOTER_LAG, steps=limit(VOTER_BEHIND_SECONDS)),
    ),
    Row(
        "Which brokers follow?",
        table_of(
            "Brokers",
            Column("Fenced", brokers.BROKER_IS_FENCED, steps=ZERO_IS_GOOD),
            Column("Shutting down", brokers.BROKER_SHUTTING_DOWN),
            Column("Lag", brokers.BROKER_METADATA_LAG),
            Column("Lag in records", brokers.BROKER_METADATA_LAG_RECORDS),
            Column("Log directories offline", brokers.BROKER_OFFLINE_DIRS, steps=ZERO_IS_GOOD),
            key="broker",
            span=12,
            worst_by="Lag",
        ),
        lines(
            "Metadata lag of live brokers",
            brokers.BROKER_METADATA_BEHIND,
            steps=limit(METADATA_BEHIND_SECONDS),
        ),
        counts(
            "Brokers fenced within 10 minutes", signals.FENCES_RECENT, steps=limit(FENCED_BROKERS)
        ),
        counts("Registrations or fences within an hour", brokers.BROKER_BOUNCES_HOUR),
    ),
    Row(
        "Which partitions lack safe replicas?",
        figure("With an empty ISR", signals.ISR_EMPTY, steps=ZERO_IS_GOOD, no_value="no ELR"),
        figure(
            "With eligible leader replicas",
            signals.WITH_ELR,
            steps=ZERO_IS_BEST,
            no_value=NO_QUORUM,
        ),
        figure("Recovering", signals.RECOVERING, steps=ZERO_IS_BEST),
        figure("Unclean elections, last hour", UNCLEAN_HOUR, steps=ZERO_IS_GOOD),
    ),
    Row(
        "What holds the log?",
        figure(
            "Newest snapshot, ago",
            signals.SNAPSHOT_AGE,
            steps=((None, "text"), (SNAPSHOT_SECONDS, "red")),
            no_value="none known",
        ),
        figure("Records since then", signals.SINCE_SNAPSHOT, no_value="-"),
        figure("Records that cannot be read", signals.UNKNOWN_RECORDS, no_value="none"),
        figure("Features", signals.FEATURE_LEVEL, no_value=NO_QUORUM),
    ),
    TRUST,
)
"""The rows, from whether anything is committed to whether that can be trusted."""
