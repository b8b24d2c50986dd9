"""Alerts about the monitor itself: it sees nothing, is late, or may be wrong.

While one of these fires, the silence of the others proves nothing.
"""

from dashboards.alerts.alert import CLUSTER, DURATION, PERCENT, VALUE, Alert
from dashboards.signals import partitions, quorum
from dashboards.signals import pipeline as signals

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KcmBlind",
        signal=signals.BLIND,
        summary=f"The monitor cannot see {CLUSTER} now.",
        meaning="The watcher has no ZooKeeper session, a KRaft cluster shows it no commits, or no exporter that "
        "serves the cluster is scraped. The other alerts of this cluster show what was true before, and cannot "
        "fire for what has happened since.",
        cause="ZooKeeper or the controllers are down or cannot be reached (KafkaControllerMissing, KafkaControllerSilent and "
        "KafkaQuorumCommitsStopped say more of a KRaft cluster, and are of now), they reject the watcher's login, the "
        "exporter is down, or its target is missing in Prometheus. After `kcm forget`, this fires "
        f"for {signals.SEEN_WINDOW}.",
        action="See whether the exporter answers /readyz. If it does, read in the watcher's log "
        "whether its session is SUSPENDED or LOST, or which controller does not answer; if not, read the exporter's log and check its target "
        "in Prometheus.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmBehind",
        signal=signals.BEHIND,
        summary=f"The figures of {CLUSTER} are late: the stage "
        f"{{{{ $labels.stage }}}} has not reported for {DURATION}.",
        meaning="The figures are served, but no longer follow the cluster. The stages are "
        "watcher, fold and exporter; the first of them that is late is the one to "
        "investigate.",
        cause="That stage is down, hangs or is overloaded, the pipeline's Kafka does not answer, "
        "or the cluster is no longer watched and `kcm forget` was not run.",
        action="Read the log of that stage; check the pipeline's Kafka if several stages are late.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmBehindForLong",
        signal=signals.BEHIND,
        summary=f"The figures of {CLUSTER} are still late: the stage "
        f"{{{{ $labels.stage }}}} has not reported for {DURATION}.",
        meaning="The figures have not been updated for longer than an upgrade or a restart takes. "
        "The other alerts of this cluster cannot fire for what has happened since.",
        cause="The same as for KcmBehind, and it does not recover by itself.",
        action="Read the log of that stage; check the pipeline's Kafka if several stages are late.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmNotServed",
        signal=signals.NOT_SERVED,
        summary="No exporter serves figures of the watched Kafka clusters: {{ $labels.cluster }}.",
        meaning="Prometheus has no figures of these clusters (all: of no cluster at all), whether "
        "it had any before or not. Their other alerts cannot fire. This alert fires until "
        "it has figures.",
        cause="The exporters are down, not scraped, or do not know the cluster; or the cluster's "
        "watchers never produced its first figures.",
        action="See whether the exporter answers /readyz, whether its target is in Prometheus and up, "
        "then the logs of exporter, fold and watcher.",
        command="curl -s EXPORTER:9640/readyz",
    ),
    Alert(
        name="KcmNoWatcherLeads",
        signal=signals.NO_WATCHER_LEADS,
        summary=f"No watcher of {CLUSTER} leads.",
        meaning="No watcher records the changes in ZooKeeper, or a KRaft cluster's metadata log, so the figures are not "
        "updated.",
        cause="The watchers are down, cannot reach the ensemble that their election uses (there is none in KRaft), or may "
        "not read or write the pipeline's topics.",
        action="Read the watchers' logs: each says why it does not lead.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmStandbyMissing",
        signal=signals.STANDBY_MISSING,
        summary=f"{CLUSTER} has fewer watchers than it should have: {VALUE}.",
        meaning="The figures follow the cluster, but if this watcher is lost, none takes over.",
        cause="The standby has ended, cannot be scheduled, or is not scraped any more; or the "
        "second watcher was removed on purpose a few days ago.",
        action="Start the standby, or see why its pod does not run.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmPathsDenied",
        signal=signals.PATHS_DENIED,
        summary=f"The watcher may not read {VALUE} paths in the ZooKeeper of {CLUSTER}.",
        meaning="Figures that need these paths are absent or may be missing changes, and alerts on "
        "them cannot fire.",
        cause="The ACLs of znodes were changed (zookeeper.set.acl, a security migration), or the "
        "watcher's credentials.",
        action="Give the watcher's user the right to read these paths, or the watcher a user that "
        "has it.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmFoldRestarts",
        signal=signals.FOLD_RESTARTS,
        summary=f"The fold has started its query again {VALUE} times within an hour "
        "(clusters: {{ $labels.cluster }}).",
        meaning="Each time, the figures of all clusters are not updated for seconds up to a minute.",
        cause="By the label reason of the counter: disk (the checkpoint cannot be written), "
        "kafka (the pipeline's Kafka does not answer), hung (Spark's JVM hangs: too little CPU or "
        "memory), worker (Spark's Python did not start within 10 s: the same), state (the checkpoint cannot be read).",
        action="Read the fold's log: it says what failed each time.",
        command="kcm doctor",
    ),
    Alert(
        name="KcmCheckpointFull",
        signal=signals.CHECKPOINT_FREE,
        summary=f"The volume of the fold's checkpoint has {PERCENT} left "
        "(clusters: {{ $labels.cluster }}).",
        meaning="When it is full, the fold stops and the figures of all clusters are not updated.",
        cause="More or larger clusters than the volume was sized for, or something else writes to "
        "it.",
        action="Enlarge the claim, where its storage class allows that. The fold itself removes "
        "what it no longer needs.",
        command="df -h",
    ),
    Alert(
        name="KcmClocksDisagree",
        signal=signals.CLOCK_SKEW,
        summary=f"The clocks of {CLUSTER}'s exporter and of the stage {{{{ $labels.stage }}}} are "
        f"{DURATION} apart.",
        meaning="The figures follow the cluster: that does not depend on clocks. Times "
        "in events, incidents and on the page are wrong by that much.",
        cause="The clock of that machine is not set by NTP, or the exporter's is not, if the "
        "alert fires for every stage.",
        action="Compare `date` on the machines of ZooKeeper's leader or the active controller, the watcher, the fold and the exporter, "
        "and set the clock of the one that differs.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmQuorumNotKnown",
        signal=quorum.QUORUM_NOT_KNOWN,
        summary=f"Who follows the active controller of {CLUSTER} is not known; the quorum has {VALUE} voters.",
        meaning="KafkaQuorumCommitsStopped, KafkaQuorumMarginLost, KafkaVoterBehind and KafkaBrokerMetadataBehind cannot "
        "fire for this cluster. All other figures are correct.",
        cause="The watcher's principal may not DESCRIBE the cluster, which DescribeQuorum needs, or the active controller "
        "does not answer the watcher while others do.",
        action="Grant DESCRIBE on the cluster to the watcher's principal; see in its log whether the active controller "
        "answers.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmMinIsrNotKnown",
        signal=partitions.MIN_ISR_UNKNOWN,
        summary=f"min.insync.replicas is not known for {CLUSTER}: {VALUE} partitions are not checked against it.",
        meaning="KafkaPartitionsUnderMinIsr cannot fire for this cluster, and the figures under "
        "min ISR, at min ISR and safe to stop are not known. All other figures are correct.",
        cause="Neither ZooKeeper nor the metadata log holds min.insync.replicas for some topics, and the fold's setting "
        "min_insync_replicas does not name this cluster: the brokers' own files are in neither. A KRaft cluster with "
        "eligible leader replicas always has the value in its log.",
        action="Let `kcm doctor --bootstrap-servers` read the value from the brokers, set "
        "min_insync_replicas for the cluster, and restart the fold.",
        command="kcm doctor --bootstrap-servers BROKER:9092",
    ),
    Alert(
        name="KcmIncompleteOrDivergent",
        signal=signals.DOUBTFUL,
        summary=f"Figures of {CLUSTER} may be wrong.",
        meaning="Changes may be missing (incomplete), or a reconciliation proved that the figures "
        "differ from ZooKeeper (divergent), and no resync or snapshot has corrected that.",
        cause="Changes were lost on the way (a hole in the log, a full buffer while Kafka was "
        "away), and the resync that followed does not end: ZooKeeper is slow or refuses "
        "reads. Or a KRaft cluster is of a newer Kafka, whose records were skipped.",
        action="Look at the board Pipeline (resyncs wanted and under way, paths that may not be "
        "read), then at the watcher's log. Restarting the watcher starts a resync.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h",
    ),
)
