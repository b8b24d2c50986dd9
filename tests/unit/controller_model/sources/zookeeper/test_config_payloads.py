"""Payloads of configurations: reduced to what is needed, without the names of users, clients and hosts."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.sources.zookeeper import config_payloads
from controller_model.sources.zookeeper.config_payloads import CONFIG_KEYS, reduce_config_change
from controller_model.sources.zookeeper.znode_kinds import published_data
from tests.support.payloads import encoded, refuses


@pytest.mark.parametrize(
    ("payload", "entity"),
    [
        (b'"orders"', "topics/orders"),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', "topics/t"),
        (b'{"version":1,"entity_type":"clients","entity_name":"c"}', "clients/c"),
        (b'{"version":2,"entity_path":"brokers/<default>"}', "brokers/<default>"),
        (b'{"version":2,"entity_path":"users/alice/clients/c"}', "users/alice/clients/c"),
    ],
)
def test_changes_of_configurations_in_each_layout(payload: bytes, entity: str) -> None:
    """A topic's name (0.8.1), type and name (0.9), and a path (0.10.1) name the same things."""
    assert config_payloads.decode_config_change(payload) == entity


@pytest.mark.parametrize(
    "payload",
    [
        {"version": 1, "entity_path": "topics/t"}, {"version": 1, "entity_type": "topics"},
        {"version": 1, "entity_name": "t"}, {"version": 2}, {"version": 2, "entity_path": "topics"},
        {"version": 2, "entity_path": "/topics"}, {"version": 2, "entity_path": "topics/"},
        {"version": 2, "entity_path": "topics//x"}, {"version": 3, "entity_path": "topics/t"},
        {"version": 0, "entity_path": "topics/t"}, {}, "", [], 7,
    ],
)  # fmt: skip
def test_a_change_of_no_configuration(payload: Any) -> None:
    """A path that names no entity is unreadable."""
    assert refuses(config_payloads.decode_config_change, payload)


@pytest.mark.parametrize("kind", ["users", "clients", "ips"])
def test_names_of_users_clients_and_hosts_stay_in_the_watcher(kind: str) -> None:
    """Their kind leaves the watcher, their names do not; topics and brokers leave as they are."""
    payload = encoded({"version": 2, "entity_path": f"{kind}/alice"})
    reported = published_data("/config/changes/config_change_0000000001", payload)
    assert config_payloads.decode_config_change(reported) == f"{kind}/-"
    topic = b'{"version":2,"entity_path":"topics/t"}'
    assert published_data("/config/changes/config_change_0000000001", topic) == topic


def test_a_damaged_config_notification_is_published_empty() -> None:
    """An unreadable payload may contain any name."""
    assert reduce_config_change(b'{"version":2,"entity_path":"alice') == b"{}"
    assert refuses(config_payloads.decode_config_change, b"{}")


def test_configurations_are_reduced_to_the_needed_keys() -> None:
    """A needed value must be text; all others are not examined."""
    assert sorted(CONFIG_KEYS) == ["min.insync.replicas", "unclean.leader.election.enable"]
    config = {"version": 1, "config": {**dict.fromkeys(CONFIG_KEYS, "x"), "ssl.key.password": 1}}
    assert config_payloads.decode_config(encoded(config)) == dict.fromkeys(CONFIG_KEYS, "x")
    for key in CONFIG_KEYS:
        assert refuses(config_payloads.decode_config, {"version": 1, "config": {key: True}})
    assert refuses(config_payloads.decode_config, {"version": 2, "config": {}})
    assert refuses(config_payloads.decode_config, {"version": 1})
