"""The messages, control records and metadata records of Kafka that the observer uses.

Made by `python -m tools.kraft` from the JSON inside the jars that kcm/servers/kafka-4.xml pins: a change is made
there.
"""

# fmt: off

from kraft_source.wire.schema import Field, Message

MESSAGES: dict[str, Message] = {
    "RequestHeader": Message(None, (1, 2), 2, (
        Field("request_api_key", "int16"),
        Field("request_api_version", "int16"),
        Field("correlation_id", "int32"),
        Field("client_id", "string", is_nullable=True, is_compact=False),
    )),
    "ResponseHeader": Message(None, (0, 1), 1, (
        Field("correlation_id", "int32"),
    )),
    "ApiVersionsRequest": Message(18, (3, 3), 3, (
        Field("client_software_name", "string"),
        Field("client_software_version", "string"),
    )),
    "ApiVersionsResponse": Message(18, (3, 3), 3, (
        Field("error_code", "int16"),
        Field("api_keys", "[]ApiVersion", fields=(
            Field("api_key", "int16"),
            Field("min_version", "int16"),
            Field("max_version", "int16"),
        )),
        Field("throttle_time_ms", "int32"),
        Field("supported_features", "[]SupportedFeatureKey", tag=0, fields=(
            Field("name", "string"),
            Field("min_version", "int16"),
            Field("max_version", "int16"),
        )),
        Field("finalized_features_epoch", "int64", tag=1, default=-1),
        Field("finalized_features", "[]FinalizedFeatureKey", tag=2, fields=(
            Field("name", "string"),
            Field("max_version_level", "int16"),
            Field("min_version_level", "int16"),
        )),
        Field("zk_migration_ready", "bool", tag=3, default=False),
    )),
    "SaslHandshakeRequest": Message(17, (1, 1), 32767, (
        Field("mechanism", "string"),
    )),
    "SaslHandshakeResponse": Message(17, (1, 1), 32767, (
        Field("error_code", "int16"),
        Field("mechanisms", "[]string"),
    )),
    "SaslAuthenticateRequest": Message(36, (2, 2), 2, (
        Field("auth_bytes", "bytes"),
    )),
    "SaslAuthenticateResponse": Message(36, (2, 2), 2, (
        Field("error_code", "int16"),
        Field("error_message", "string", is_nullable=True),
        Field("auth_bytes", "bytes"),
        Field("session_lifetime_ms", "int64", default=0),
    )),
    "FetchRequest": Message(1, (16, 18), 16, (
        Field("cluster_id", "string", tag=0, is_nullable=True),
        Field("replica_state", "ReplicaState", tag=1, fields=(
            Field("replica_id", "int32", default=-1),
            Field("replica_epoch", "int64", default=-1),
        )),
        Field("max_wait_ms", "int32"),
        Field("min_bytes", "int32"),
        Field("max_bytes", "int32", default=2147483647),
        Field("isolation_level", "int8", default=0),
        Field("session_id", "int32", default=0),
        Field("session_epoch", "int32", default=-1),
        Field("topics", "[]FetchTopic", fields=(
            Field("topic_id", "uuid"),
            Field("partitions", "[]FetchPartition", fields=(
                Field("partition", "int32"),
                Field("current_leader_epoch", "int32", default=-1),
                Field("fetch_offset", "int64"),
                Field("last_fetched_epoch", "int32", default=-1),
                Field("log_start_offset", "int64", default=-1),
                Field("partition_max_bytes", "int32"),
                Field("replica_directory_id", "uuid", since=17, tag=0),
                Field("high_watermark", "int64", since=18, tag=1, default=9223372036854775807),
            )),
        )),
        Field("forgotten_topics_data", "[]ForgottenTopic", fields=(
            Field("topic_id", "uuid"),
            Field("partitions", "[]int32"),
        )),
        Field("rack_id", "string", default=""),
    )),
    "FetchResponse": Message(1, (16, 18), 16, (
        Field("throttle_time_ms", "int32"),
        Field("error_code", "int16"),
        Field("session_id", "int32", default=0),
        Field("responses", "[]FetchableTopicResponse", fields=(
            Field("topic_id", "uuid"),
            Field("partitions", "[]PartitionData", fields=(
                Field("partition_index", "int32"),
                Field("error_code", "int16"),
                Field("high_watermark", "int64"),
                Field("last_stable_offset", "int64", default=-1),
                Field("log_start_offset", "int64", default=-1),
                Field("diverging_epoch", "EpochEndOffset", tag=0, fields=(
                    Field("epoch", "int32", default=-1),
                    Field("end_offset", "int64", default=-1),
                )),
                Field("current_leader", "LeaderIdAndEpoch", tag=1, fields=(
                    Field("leader_id", "int32", default=-1),
                    Field("leader_epoch", "int32", default=-1),
                )),
                Field("snapshot_id", "SnapshotId", tag=2, fields=(
                    Field("end_offset", "int64", default=-1),
                    Field("epoch", "int32", default=-1),
                )),
                Field("aborted_transactions", "[]AbortedTransaction", is_nullable=True, fields=(
                    Field("producer_id", "int64"),
                    Field("first_offset", "int64"),
                )),
                Field("preferred_read_replica", "int32", default=-1),
                Field("records", "records", is_nullable=True),
            )),
        )),
        Field("node_endpoints", "[]NodeEndpoint", tag=0, fields=(
            Field("node_id", "int32"),
            Field("host", "string"),
            Field("port", "int32"),
            Field("rack", "string", is_nullable=True),
        )),
    )),
    "FetchSnapshotRequest": Message(59, (0, 0), 0, (
        Field("cluster_id", "string", tag=0, is_nullable=True),
        Field("replica_id", "int32", default=-1),
        Field("max_bytes", "int32", default=2147483647),
        Field("topics", "[]TopicSnapshot", fields=(
            Field("name", "string"),
            Field("partitions", "[]PartitionSnapshot", fields=(
                Field("partition", "int32"),
                Field("current_leader_epoch", "int32"),
                Field("snapshot_id", "SnapshotId", fields=(
                    Field("end_offset", "int64"),
                    Field("epoch", "int32"),
                )),
                Field("position", "int64"),
            )),
        )),
    )),
    "FetchSnapshotResponse": Message(59, (0, 0), 0, (
        Field("throttle_time_ms", "int32"),
        Field("error_code", "int16"),
        Field("topics", "[]TopicSnapshot", fields=(
            Field("name", "string"),
            Field("partitions", "[]PartitionSnapshot", fields=(
                Field("index", "int32"),
                Field("error_code", "int16"),
                Field("snapshot_id", "SnapshotId", fields=(
                    Field("end_offset", "int64"),
                    Field("epoch", "int32"),
                )),
                Field("current_leader", "LeaderIdAndEpoch", tag=0, fields=(
                    Field("leader_id", "int32"),
                    Field("leader_epoch", "int32"),
                )),
                Field("size", "int64"),
                Field("position", "int64"),
                Field("unaligned_records", "records"),
            )),
        )),
    )),
    "DescribeQuorumRequest": Message(55, (1, 2), 1, (
        Field("topics", "[]TopicData", fields=(
            Field("topic_name", "string"),
            Field("partitions", "[]PartitionData", fields=(
                Field("partition_index", "int32"),
            )),
        )),
    )),
    "DescribeQuorumResponse": Message(55, (1, 2), 1, (
        Field("error_code", "int16"),
        Field("error_message", "string", since=2, is_nullable=True),
        Field("topics", "[]TopicData", fields=(
            Field("topic_name", "string"),
            Field("partitions", "[]PartitionData", fields=(
                Field("partition_index", "int32"),
                Field("error_code", "int16"),
                Field("error_message", "string", since=2, is_nullable=True),
                Field("leader_id", "int32"),
                Field("leader_epoch", "int32"),
                Field("high_watermark", "int64"),
                Field("current_voters", "[]ReplicaState", fields=(
                    Field("replica_id", "int32"),
                    Field("replica_directory_id", "uuid", since=2),
                    Field("log_end_offset", "int64"),
                    Field("last_fetch_timestamp", "int64", default=-1),
                    Field("last_caught_up_timestamp", "int64", default=-1),
                )),
                Field("observers", "[]ReplicaState", fields=(
                    Field("replica_id", "int32"),
                    Field("replica_directory_id", "uuid", since=2),
                    Field("log_end_offset", "int64"),
                    Field("last_fetch_timestamp", "int64", default=-1),
                    Field("last_caught_up_timestamp", "int64", default=-1),
                )),
            )),
        )),
        Field("nodes", "[]Node", since=2, fields=(
            Field("node_id", "int32", since=2),
            Field("listeners", "[]Listener", since=2, fields=(
                Field("name", "string", since=2),
                Field("host", "string", since=2),
                Field("port", "uint16", since=2),
            )),
        )),
    )),
    "DescribeClusterRequest": Message(60, (1, 1), 1, (
        Field("include_cluster_authorized_operations", "bool"),
        Field("endpoint_type", "int8", default=1),
    )),
    "DescribeClusterResponse": Message(60, (1, 1), 1, (
        Field("throttle_time_ms", "int32"),
        Field("error_code", "int16"),
        Field("error_message", "string", is_nullable=True),
        Field("endpoint_type", "int8", default=1),
        Field("cluster_id", "string"),
        Field("controller_id", "int32", default=-1),
        Field("brokers", "[]DescribeClusterBroker", fields=(
            Field("broker_id", "int32"),
            Field("host", "string"),
            Field("port", "int32"),
            Field("rack", "string", is_nullable=True),
        )),
        Field("cluster_authorized_operations", "int32", default=-2147483648),
    )),
}
"""Requests, responses and their headers."""

RECORDS: dict[str, Message] = {
    "LeaderChangeMessage": Message(None, (0, 1), 0, (
        Field("version", "int16"),
        Field("leader_id", "int32"),
        Field("voters", "[]Voter", fields=(
            Field("voter_id", "int32"),
            Field("voter_directory_id", "uuid", since=1),
        )),
        Field("granting_voters", "[]Voter", fields=(
            Field("voter_id", "int32"),
            Field("voter_directory_id", "uuid", since=1),
        )),
    )),
    "SnapshotHeaderRecord": Message(None, (0, 0), 0, (
        Field("version", "int16"),
        Field("last_contained_log_timestamp", "int64"),
    )),
    "SnapshotFooterRecord": Message(None, (0, 0), 0, (
        Field("version", "int16"),
    )),
    "KRaftVersionRecord": Message(None, (0, 0), 0, (
        Field("version", "int16"),
        Field("kraft_version", "int16"),
    )),
    "VotersRecord": Message(None, (0, 0), 0, (
        Field("version", "int16"),
        Field("voters", "[]Voter", fields=(
            Field("voter_id", "int32"),
            Field("voter_directory_id", "uuid"),
            Field("endpoints", "[]Endpoint", fields=(
                Field("name", "string"),
                Field("host", "string"),
                Field("port", "uint16"),
            )),
            Field("kraft_version_feature", "KRaftVersionFeature", fields=(
                Field("min_supported_version", "int16"),
                Field("max_supported_version", "int16"),
            )),
        )),
    )),
    "RegisterBrokerRecord": Message(0, (0, 4), 0, (
        Field("broker_id", "int32"),
        Field("is_migrating_zk_broker", "bool", since=2, default=False),
        Field("incarnation_id", "uuid"),
        Field("broker_epoch", "int64"),
        Field("end_points", "[]BrokerEndpoint", fields=(
            Field("name", "string"),
            Field("host", "string"),
            Field("port", "uint16"),
            Field("security_protocol", "int16"),
        )),
        Field("features", "[]BrokerFeature", fields=(
            Field("name", "string"),
            Field("min_supported_version", "int16"),
            Field("max_supported_version", "int16"),
        )),
        Field("rack", "string", is_nullable=True),
        Field("fenced", "bool", default=True),
        Field("in_controlled_shutdown", "bool", since=1, default=False),
        Field("log_dirs", "[]uuid", since=3, tag=0),
        Field("cordoned_log_dirs", "[]uuid", since=4, tag=1, is_nullable=True),
    )),
    "UnregisterBrokerRecord": Message(1, (0, 0), 0, (
        Field("broker_id", "int32"),
        Field("broker_epoch", "int64"),
    )),
    "TopicRecord": Message(2, (0, 0), 0, (
        Field("name", "string"),
        Field("topic_id", "uuid"),
    )),
    "PartitionRecord": Message(3, (0, 2), 0, (
        Field("partition_id", "int32", default=-1),
        Field("topic_id", "uuid"),
        Field("replicas", "[]int32"),
        Field("isr", "[]int32"),
        Field("removing_replicas", "[]int32"),
        Field("adding_replicas", "[]int32"),
        Field("leader", "int32", default=-1),
        Field("leader_recovery_state", "int8", tag=0, default=0),
        Field("leader_epoch", "int32", default=-1),
        Field("partition_epoch", "int32", default=-1),
        Field("directories", "[]uuid", since=1),
        Field("eligible_leader_replicas", "[]int32", since=2, tag=1, is_nullable=True),
        Field("last_known_elr", "[]int32", since=2, tag=2, is_nullable=True),
    )),
    "ConfigRecord": Message(4, (0, 0), 0, (
        Field("resource_type", "int8"),
        Field("resource_name", "string"),
        Field("name", "string"),
        Field("value", "string", is_nullable=True),
    )),
    "PartitionChangeRecord": Message(5, (0, 2), 0, (
        Field("partition_id", "int32", default=-1),
        Field("topic_id", "uuid"),
        Field("isr", "[]int32", tag=0, is_nullable=True),
        Field("leader", "int32", tag=1, default=-2),
        Field("replicas", "[]int32", tag=2, is_nullable=True),
        Field("removing_replicas", "[]int32", tag=3, is_nullable=True),
        Field("adding_replicas", "[]int32", tag=4, is_nullable=True),
        Field("leader_recovery_state", "int8", tag=5, default=-1),
        Field("directories", "[]uuid", since=1, tag=8, is_nullable=True),
        Field("eligible_leader_replicas", "[]int32", since=2, tag=6, is_nullable=True),
        Field("last_known_elr", "[]int32", since=2, tag=7, is_nullable=True),
    )),
    "FenceBrokerRecord": Message(7, (0, 0), 0, (
        Field("id", "int32"),
        Field("epoch", "int64"),
    )),
    "UnfenceBrokerRecord": Message(8, (0, 0), 0, (
        Field("id", "int32"),
        Field("epoch", "int64"),
    )),
    "RemoveTopicRecord": Message(9, (0, 0), 0, (
        Field("topic_id", "uuid"),
    )),
    "FeatureLevelRecord": Message(12, (0, 0), 0, (
        Field("name", "string"),
        Field("feature_level", "int16"),
    )),
    "BrokerRegistrationChangeRecord": Message(17, (0, 3), 0, (
        Field("broker_id", "int32"),
        Field("broker_epoch", "int64"),
        Field("fenced", "int8", tag=0),
        Field("in_controlled_shutdown", "int8", since=1, tag=1),
        Field("log_dirs", "[]uuid", since=2, tag=2),
        Field("cordoned_log_dirs", "[]uuid", since=3, tag=3, is_nullable=True),
    )),
    "NoOpRecord": Message(20, (0, 0), 0, ()),
    "ZkMigrationStateRecord": Message(21, (0, 0), 0, (
        Field("zk_migration_state", "int8"),
    )),
    "BeginTransactionRecord": Message(23, (0, 0), 0, (
        Field("name", "string", tag=0, is_nullable=True),
    )),
    "EndTransactionRecord": Message(24, (0, 0), 0, ()),
    "AbortTransactionRecord": Message(25, (0, 0), 0, (
        Field("reason", "string", tag=0, is_nullable=True),
    )),
    "RegisterControllerRecord": Message(27, (0, 0), 0, (
        Field("controller_id", "int32"),
        Field("incarnation_id", "uuid"),
        Field("zk_migration_ready", "bool"),
        Field("end_points", "[]ControllerEndpoint", fields=(
            Field("name", "string"),
            Field("host", "string"),
            Field("port", "uint16"),
            Field("security_protocol", "int16"),
        )),
        Field("features", "[]ControllerFeature", fields=(
            Field("name", "string"),
            Field("min_supported_version", "int16"),
            Field("max_supported_version", "int16"),
        )),
    )),
    "ClearElrRecord": Message(28, (0, 0), 0, (
        Field("topic_name", "string"),
    )),
    "UnregisterControllerRecord": Message(29, (0, 0), 0, (
        Field("controller_id", "int32"),
    )),
}
"""Control records and metadata records."""

CONTROL_RECORDS = {2: "LeaderChangeMessage", 3: "SnapshotHeaderRecord", 4: "SnapshotFooterRecord", 5: "KRaftVersionRecord", 6: "VotersRecord"}
"""The names of control records by their number in `ControlRecordType`."""
