"""The OpenAPI document: every integer is small enough for every JSON reader, and what is always there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller_model.records.views import ClusterCounters
from exporter.api.openapi import document
from exporter.api.operations import CLUSTER, OPERATIONS

TIMES = ("_at", "_since", "_ms")
"""Milliseconds, since 1970 or of a duration: below 2^53 for 285,000 years."""

_SMALL = """
    at since until held_from held_until last_change_mtime counters_since
    id broker brokers brokers_back brokers_known brokers_live brokers_lost from_broker to_broker
    controller controllers generated_broker_ids leader preferred replicas isr adding
    removing who gone port
    epoch controller_epoch current_epoch leader_epoch partition_epoch
    partition number seq status features ends
    anomalies as_leader as_replica at_min_isr reconciliations before beyond_members blocked broker_ends
    broker_min_isr chunk_count conditions denied_more
    controller_changes controller_elections coordinated counts deleting_topics dropped_by_watcher electable elected_by elections
    elects elections_within errors exceeding graded holes id_changes imbalance_after imbalance_before in_isr
    isr_leave_minutes isr_leaves leader_imbalance_check_interval_seconds
    leader_imbalance_per_broker_percentage pending pending_leader_writes leaderless leaders leaders_moved
    lag_records margin margin_now standby
    log_dir_failures lost_again made matched mendable min_isr min_isr_assumed min_isr_blocks min_isr_unknown missed_elections
    missed_updates not_led_after not_led_before not_newer not_regained notifications offline
    offline_before offline_if_lost offline_last offline_peak open pair_count partition_count
    partitions preferred_electable preferred_imbalance preferred_not_led reassigning recent_elections recommendation
    recommended regained registrations replicas_on_gone_brokers replication_factor
    replication_factor_1 resyncs stale stale_writes stranded threshold_percentage topics total shrinks times unexplained
    unexplained_partition_count
    foreign_writes refused_below stranded_if_lost unclean_if_lost
    unclean under_min_isr under_min_isr_if_lost under_replicated
    under_replicated_at_min_isr
    under_replicated_reassigning under_replicated_before under_replicated_last under_replicated_peak unreadable unreadable_count watched
    without_state znodes at_earliest
    controller_before controller_candidates count from_step until_step isr_before leader_and_isr
    leader_and_isr_partitions kraft_controller leader_before metadata_epoch pending_writes replicas_before stop_replica stop_replica_partitions
    update_metadata update_metadata_after_isr_changes zookeeper_writes
    begins end high_watermark log_end_offset offset snapshot_end
    candidacies isr_empty log_dirs_offline ms node possible_elections records recovering replica_id spare_voters unknown voters with_elr zk_migration_state
    """
SMALL = frozenset(_SMALL.split()) | {*ClusterCounters.__struct_fields__}
"""Ids and epochs of Kafka that are 32-bit integers there, counts, and places in a log."""

BROKER_EPOCHS = frozenset({"Broker", "BrokerAndSafety", "BrokerStarted", "BrokerStopped"})
"""Where `epoch` is the czxid of a registration, of 64 bits."""


def integers(schema: dict[str, Any], field: str = "") -> Iterator[str]:
    """Yield the names of the fields that are integers or contain some."""
    if schema.get("type") == "integer":
        yield field
    for several in ("anyOf", "oneOf", "prefixItems"):
        for each in schema.get(several, ()):
            yield from integers(each, field)
    for one in ("items", "additionalProperties"):
        if isinstance(schema.get(one), dict):
            yield from integers(schema[one], field)
    for name, each in schema.get("properties", {}).items():
        yield from integers(each, name)


def test_every_integer_of_an_answer_is_known_to_be_small() -> None:
    """A new field of 64 bits must be text; a new small one is added to the list by hand."""
    found: dict[str, set[str]] = {}
    for name, schema in document()["components"]["schemas"].items():
        for field in integers(schema):
            found.setdefault(field, set()).add(name)
    unknown = {
        field: sorted(where)
        for field, where in found.items()
        if field not in SMALL and not field.endswith(TIMES)
    }
    assert unknown == {}
    assert found["epoch"].isdisjoint(BROKER_EPOCHS)
    assert {"generation", "zxid", "read_zxid"}.isdisjoint(found)
    assert SMALL - set(found) == set(), "no longer there: take it off the list"


def test_only_events_leave_out_fields() -> None:
    """All else is always there; an answer about a cluster begins with its name, its place in the log and its completeness."""
    described = document()
    schemas = described["components"]["schemas"]
    events = {each["$ref"].rpartition("/")[2] for each in schemas["Event"]["oneOf"]}
    for name, schema in schemas.items():
        if "properties" in schema and name not in events:
            assert schema["required"] == list(schema["properties"]), name
    of_clusters = [each for each in OPERATIONS if each.path.startswith(f"{CLUSTER}/")]
    assert of_clusters
    for operation in of_clusters:
        about = schemas[operation.answer]["required"][:3]
        assert about == ["name", "as_of", "completeness"], operation.path


def test_an_event_that_lists_partitions_has_their_number() -> None:
    """It lists only the first of them; an event that has a number of partitions only has no other."""
    schemas = document()["components"]["schemas"]
    for name in (each["$ref"].rpartition("/")[2] for each in schemas["Event"]["oneOf"]):
        fields, required = schemas[name]["properties"], schemas[name]["required"]
        is_list = fields.get("partitions", {}).get("type") == "array"
        assert ("partition_count" in fields) is is_list, name
        assert required.count("partition_count") == is_list, name
        assert "id" in required


def test_the_bounds_of_a_number_are_described() -> None:
    """As a request is checked: outside of them it is refused."""
    (path,) = (each.path for each in OPERATIONS if each.handler == "partitions")
    parameters = document()["paths"][path]["get"]["parameters"]
    (limit,) = (each["schema"] for each in parameters if each["name"] == "limit")
    assert limit == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}


def test_each_part_of_a_path_that_a_client_fills_in_is_described() -> None:
    """And nothing else is in the path: the fleet's answers name no cluster."""
    paths = document()["paths"]
    named = {
        path: [each["name"] for each in described["get"]["parameters"] if each["in"] == "path"]
        for path, described in paths.items()
    }
    assert {path.count("{") for path in paths} == {0, 1}
    assert named == {path: ["name"] * path.count("{name}") for path in paths}
