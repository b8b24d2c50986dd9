"""What `kcm up` passes to the parts, and what it requires before it starts."""

from __future__ import annotations

import importlib.util

import pytest

from kcm.cli.parts import load_all
from kcm.run.up import check_packages, options_of, own_servers
from pipeline.runtime import EnvironmentProblemError

NEEDED = {"cluster": "prod", "zookeeper": "zk1:2181"}


def test_the_parts_get_what_the_user_gave_and_the_ports() -> None:
    """Prometheus must find the ports again, so defaults are passed as well; 0 stays: any free port."""
    given = {**NEEDED, "watcher_metrics_port": "0", "partitions": "3"}
    options = options_of(load_all(None, given))
    assert options == {
        **NEEDED,
        "partitions": "3",
        "port": "9640",
        "watcher_metrics_port": "0",
        "stream_metrics_port": "9642",
        "log_format": "json",
    }


def test_a_kafka_is_the_users_only_if_it_was_named() -> None:
    """The default address is not the user's choice: with it a broker is started."""
    assert own_servers(load_all(None, NEEDED)) is None
    named = load_all(None, {**NEEDED, "bootstrap_servers": "k1:9092"})
    assert own_servers(named) == "k1:9092"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named before anything is started, in one line that says what to install."""
    check_packages()
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "kazoo" else found(name)
    )
    with pytest.raises(EnvironmentProblemError, match=r"kazoo is not installed: pip install .*all"):
        check_packages()
