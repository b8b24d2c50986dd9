"""The watcher's settings: which values are refused, and what becomes of accepted ones."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from puresasl import mechanisms  # type: ignore[import-untyped]  # it has no types
from puresasl.client import SASLClient  # type: ignore[import-untyped]  # it has no types

from pipeline.runtime import UsageError
from pipeline.settings import describe, load
from zk_source.config import WatchSettings


@pytest.mark.parametrize(
    ("connect", "hosts", "chroot"),
    [
        ("zk:2181", "zk:2181", ""),
        ("zk:2181/", "zk:2181", ""),
        ("a:1,b:2/kafka/prod", "a:1,b:2", "/kafka/prod"),
        ("[::1]:2181/k/", "[::1]:2181", "/k"),
    ],
)
def test_a_connect_string_is_hosts_and_a_chroot(connect: str, hosts: str, chroot: str) -> None:
    """In Kafka's own form."""
    settings = load(WatchSettings, zookeeper=connect)
    assert (settings.hosts, settings.chroot) == (hosts, chroot)


@pytest.mark.parametrize(
    ("connect", "right"),
    [
        ("zk1:2181/kafka,zk2:2181/kafka", "zk1:2181,zk2:2181/kafka"),
        ("zk1:2181/kafka,zk2:2181", "zk1:2181,zk2:2181/kafka"),
        ("zk1:2181/a/b,zk2:2181/a/b,zk3:2181/a/b/", "zk1:2181,zk2:2181,zk3:2181/a/b"),
        ("zk1:2181/,zk2:2181/", "zk1:2181,zk2:2181"),
        ("zk1:2181/kafka, zk2:2181/kafka", "zk1:2181, zk2:2181/kafka"),
        ("[::1]:1/k,[::2]:2/k", "[::1]:1,[::2]:2/k"),
    ],
)
@pytest.mark.parametrize("setting", ["zookeeper", "election_zookeeper"])
def test_a_chroot_behind_each_server_is_refused_with_the_right_form(
    setting: str, connect: str, right: str
) -> None:
    """ZooKeeper's client would take all after the first slash for one path, and find no Kafka there."""
    options: dict[str, Any] = {"election_path": "/kcm", setting: connect}
    with pytest.raises(UsageError) as refused:
        load(WatchSettings, **options)
    assert f"behind the last server, for all of them: write {right} " in str(refused.value)
    assert "\n" not in str(refused.value)
    assert load(WatchSettings, zookeeper="zk:1/a,b").chroot == "/a,b", "a comma may be in a path"


NO_HOST, NO_PATH = "is not host:port", "must be a path such as /kcm/election"
NO_AUTH = "must be <scheme>:<user>:<password>"
NO_TLS, NO_FILE = "these settings need zk_tls as well", "there is no file /nowhere/"
KAFKAS, NO_ELECTION = "is below Kafka's own znodes", "needs election_path as well"
NO_ENSEMBLE = "these need election_zookeeper as well"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"zookeeper": "zk"}, NO_HOST),
        ({"zookeeper": "zk:2181//x"}, "is not a chroot"),
        ({"zookeeper": ""}, NO_HOST),
        ({"zk_auth": "kafka:secret"}, NO_AUTH),
        ({"zk_auth": "digest:kafka"}, NO_AUTH),
        ({"reconciliation_interval_s": -1}, "greater than 0"),
        ({"zk_tls_ca": __file__}, NO_TLS),
        ({"zk_tls_cert": __file__}, NO_TLS),
        ({"zk_tls_key": __file__}, NO_TLS),
        ({"zk_tls": True, "zk_tls_ca": "/nowhere/ca.pem"}, NO_FILE),
        ({"zk_tls": True, "zk_tls_cert": "/nowhere/cert.pem"}, NO_FILE),
        ({"zk_tls": True, "zk_tls_key": "/nowhere/key.pem"}, NO_FILE),
        ({"election_path": "kcm"}, NO_PATH),
        ({"election_path": "/"}, NO_PATH),
        ({"election_path": "/kcm/"}, NO_PATH),
        ({"election_path": "/kcm//e"}, NO_PATH),
        ({"election_path": "/kcm/../e"}, NO_PATH),
        ({"election_path": "/brokers"}, KAFKAS),
        ({"election_path": "/brokers/kcm"}, KAFKAS),
        ({"election_zookeeper": "zk:2181"}, NO_ELECTION),
        ({"election_path": "/kcm", "election_zookeeper": "zk"}, NO_HOST),
        ({"election_path": "/kcm", "election_auth": "digest:a:b"}, NO_ENSEMBLE),
        ({"election_path": "/kcm", "election_tls": True}, NO_ENSEMBLE),
    ],
)
def test_a_bad_value_is_refused_in_one_line(options: dict[str, Any], told: str) -> None:
    """Each for its own reason."""
    with pytest.raises(UsageError) as refused:
        load(WatchSettings, **options)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_credentials_are_never_shown() -> None:
    """Neither a description nor an error message contains the password."""
    settings = load(WatchSettings, zk_auth="digest:kafka:hush")
    assert settings.auth_data() == [("digest", "kafka:hush")]
    assert settings.sasl_options() is None
    assert "hush" not in str(describe(settings)) + repr(settings)
    with pytest.raises(UsageError) as refused:
        load(WatchSettings, zk_auth="basic:kafka:hush")
    assert "hush" not in str(refused.value)


def test_the_election_is_held_in_the_watched_ensemble_or_in_another() -> None:
    """Another ensemble has its own credentials: the watched one's are never sent there."""
    watched: dict[str, Any] = {
        "zookeeper": "a:1/kafka",
        "zk_auth": "digest:kafka:hush",
        "election_path": "/kcm",
    }
    here = load(WatchSettings, **watched).for_election()
    assert (here.hosts, here.chroot) == ("a:1", "/kafka")
    assert here.auth_data() == [("digest", "kafka:hush")]
    there = load(WatchSettings, **watched, election_zookeeper="b:2/ours").for_election()
    assert (there.hosts, there.chroot) == ("b:2", "/ours")
    assert there.auth_data() is None
    other: dict[str, Any] = {"election_zookeeper": "b:2", "election_auth": "digest:e:f"}
    assert load(WatchSettings, **watched, **other).for_election().auth_data() == [("digest", "e:f")]
    over_tls: dict[str, Any] = {"election_tls": True, "zk_tls_ca": __file__}
    settings = load(WatchSettings, **watched, **other, **over_tls)
    assert (settings.zk_tls, settings.for_election().zk_tls) == (False, True)


def test_kerberos_settings_reach_the_sasl_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Kerberos library is asked for a ticket for the service, server and principal of the settings.

    The library is a fake: without a KDC there are no tickets.
    """
    with pytest.raises(UsageError, match="gssapi needs the package kerberos"):
        load(WatchSettings, zk_auth="gssapi:zookeeper:")
    kerberos = ModuleType("kerberos")
    kerberos.__spec__ = ModuleSpec("kerberos", None)
    asked: list[dict[str, Any]] = []

    def begin(**wanted: Any) -> tuple[int, object]:
        asked.append(wanted)
        return 0, object()

    kerberos.authGSSClientInit = begin  # type: ignore[attr-defined]  # a module that is made here
    monkeypatch.setitem(sys.modules, "kerberos", kerberos)
    monkeypatch.setattr(mechanisms, "kerberos", kerberos, raising=False)
    monkeypatch.setattr(mechanisms, "have_kerberos", True)
    monkeypatch.setitem(mechanisms.mechanisms, "GSSAPI", mechanisms.GSSAPIMechanism)
    for auth in ("gssapi:zookeeper:kcm@EXAMPLE.COM", "gssapi:zk:"):
        settings = load(WatchSettings, zk_auth=auth)
        assert settings.auth_data() is None
        SASLClient("zk1.example.com", **(settings.sasl_options() or {}))
    assert asked == [
        {"service": "zookeeper@zk1.example.com", "principal": "kcm@EXAMPLE.COM"},
        {"service": "zk@zk1.example.com", "principal": None},
    ]
    with pytest.raises(UsageError, match="needs the service's name"):
        load(WatchSettings, zk_auth="gssapi::kcm@EXAMPLE.COM")
