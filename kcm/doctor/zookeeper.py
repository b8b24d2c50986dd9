"""Check the watched ZooKeeper: each server, what may be read, and the Kafka cluster in it.

It only reads; the ensemble sees no more than one session. It reads what the watcher
reads, so a missing permission is found with its path.
"""

import json
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from controller_model.insight.wording import counted
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES
from kcm.cli.text import printable
from kcm.doctor.findings import ClusterFindings, Finding, fail, ok, unknown, warn
from zk_source.config import WatchSettings
from zk_source.ensemble.four_letter_words import four_letter_word, host_and_port
from zk_source.wire.kazoo_client import STOP_TIMEOUT_S, Authenticating, make_client, stop_client
from zk_source.wire.tls_advice import tls_advice

ANSWER_S = 3.0
"""A server that takes longer to answer cannot be watched live."""
CONNECT_S = 8.0
SAMPLES = 3
"""How many children of a node are tried for their own permissions: Kafka sets the same on all."""
_VERSION = re.compile(r"[Vv]ersion: (\d+\.\d+\.\d+)")
_MODE = re.compile(r"Mode: ([\w-]+)")
_RECURSIVE_SINCE = (3, 6, 0)
_UNSAFE_WATCHES = (((3, 6, 0), (3, 8, 4)), ((3, 9, 0), (3, 9, 2)))
"""Releases in which CVE-2024-23944 lets a persistent watch see names that its session may not read."""
_TREES = ("/brokers/ids", "/brokers/topics", *WATCHED_SUBTREES)


def check_server(settings: WatchSettings, address: str) -> Finding:
    """Ask one server for its version and role; its commands may be switched off, which is no problem."""
    about = f"zookeeper {address}"
    host, port = host_and_port(address)
    began = time.monotonic()
    try:
        answer = four_letter_word(host, port, "srvr", deadline_s=ANSWER_S, tls=_tls(settings))
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "the handshake failed"
        shown = None not in {settings.zk_tls_cert, settings.zk_tls_key}
        todo = tls_advice(error, has_certificate=shown)
        return fail(about, f"no TLS: {why}", todo)
    except OSError as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or error
        return fail(about, f"unreachable: {why}", "start it, or correct the setting zookeeper")
    took_ms = (time.monotonic() - began) * 1000
    return server_answer(about, answer, took_ms)


def _tls(settings: WatchSettings) -> ssl.SSLContext | None:
    """Return the TLS context for a server; None where the settings use no TLS."""
    if not settings.zk_tls:
        return None
    context = ssl.create_default_context()
    if settings.zk_tls_ca is not None:
        context.load_verify_locations(settings.zk_tls_ca)
    if settings.zk_tls_cert is not None and settings.zk_tls_key is not None:
        password = settings.tls_key_password()
        context.load_cert_chain(settings.zk_tls_cert, settings.zk_tls_key, password)
    return context


def server_answer(about: str, answer: str, took_ms: float) -> Finding:
    """Return the finding of a server's answer to srvr.

    >>> server_answer("zk1", "srvr is not executed because it is not in the whitelist.", 1).level
    <Level.OK: 'ok'>
    """
    if "not currently serving" in answer:
        return fail(about, "is up, but serves no client: no quorum", "check the ensemble")
    version = _VERSION.search(answer)
    if "srvr is not executed" in answer:
        hidden = "it does not report its version (4lw.commands.whitelist lacks srvr)"
        return ok(about, f"answers in {took_ms:.0f} ms; {hidden}")
    if not answer:
        todo = "is this ZooKeeper's port? a TLS port needs zk_tls; else see the server's log"
        return fail(about, "closes the connection when asked with srvr", todo)
    if version is None:
        return fail(about, "what answers is not ZooKeeper", "correct the setting zookeeper")
    return _of_version(about, answer, version[1], took_ms)


def _of_version(about: str, answer: str, version: str, took_ms: float) -> Finding:
    """Return the finding about a server's version and role."""
    mode = _MODE.search(answer)
    numbers = tuple(map(int, version.split(".")))
    summary = f"{version}, {mode[1] if mode else 'mode unknown'}, answers in {took_ms:.0f} ms"
    if mode is not None and mode[1] == "read-only":
        return fail(about, f"{summary}: no quorum, so it learns of no change", "check the ensemble")
    if any(first <= numbers < fixed for first, fixed in _UNSAFE_WATCHES):
        return warn(about, f"{summary}; has CVE-2024-23944", "upgrade to 3.8.4, 3.9.2 or later")
    if numbers < _RECURSIVE_SINCE:
        return ok(about, f"{summary}; watched znode by znode (recursive watches came with 3.6)")
    return ok(about, summary)


def check_cluster(settings: WatchSettings, within_s: float) -> ClusterFindings:
    """Connect as the watcher does, in time; report what can be read and which Kafka cluster is there."""
    client, connection = make_client(settings, Authenticating, most_reconnect_s=1.0)
    try:
        # client.start() would stop the client itself, and wait for a silent server.
        client.start_async().wait(min(CONNECT_S, within_s))
        why, refused = connection.last_error or "no answer in time", connection.auth_failed
        try:
            if client.connected:
                return _Reader(client, settings).read()
        except (KazooTimeoutError, KazooException) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            refused = connection.auth_failed or isinstance(error, AuthFailedError)
        todo = "see the servers' lines; check zookeeper, zk_auth and zk_tls"
        if refused:
            why, _, todo = connection.refusal.format(setting="zk_auth").partition(": ")
            why = f"ZooKeeper {why}"
        return ClusterFindings([fail("session", f"none: {why}", todo)], None)
    finally:
        stop_client(client, min(STOP_TIMEOUT_S, within_s / 2))


class _Reader:
    """Reads below the chroot, and records what it may not read."""

    def __init__(self, client: KazooClient, settings: WatchSettings) -> None:
        self._client = client
        self._chroot = settings.chroot
        self._where = settings.zookeeper
        self._denied: list[str] = []
        self._read = 0

    def read(self) -> ClusterFindings:
        """Read all that is checked."""
        top = self._children("/brokers")
        if top is None and "/brokers" not in self._denied:
            todo = "correct the chroot in the setting zookeeper"
            missing = fail("cluster", f"no Kafka at {self._where}: no /brokers", todo)
            return ClusterFindings([missing], None)
        for path in _TREES:
            self._data(path)
            for child in (self._children(path) or ())[:SAMPLES]:
                self._data(f"{path}/{child}")
        self._read_a_state()
        findings = [*self._permissions(), *self._cluster()]
        cluster_id = _body(self._data("/cluster/id")).get("id")
        return ClusterFindings(findings, cluster_id if isinstance(cluster_id, str) else None)

    def _read_a_state(self) -> None:
        for topic in (self._children("/brokers/topics") or ())[:1]:
            path = f"/brokers/topics/{topic}/partitions"
            for partition in (self._children(path) or ())[:1]:
                self._data(f"{path}/{partition}/state")

    def _permissions(self) -> Iterator[Finding]:
        if not self._denied:
            yield ok("permissions", f"{self._read} znodes of every watched kind are readable")
            return
        denied = sorted(set(self._denied))
        listed = printable(", ".join(denied[:5]) + (", ..." if len(denied) > 5 else ""))  # noqa: PLR2004  # those just listed
        todo = "give the watcher's credentials (zk_auth) READ on them"
        if all(path.startswith("/config") for path in denied):
            yield warn("permissions", f"not readable: {listed}; its figures are unknown", todo)
        else:
            yield fail("permissions", f"not readable: {listed}", todo)

    def _cluster(self) -> Iterator[Finding]:
        ids = self._children("/brokers/ids")
        if ids is None:
            yield unknown("cluster", "/brokers/ids is not readable, or not there")
            return
        registrations = [_body(self._data(f"/brokers/ids/{each}")) for each in ids]
        yield _registered(ids, registrations)
        yield from self._migration()

    def _migration(self) -> Iterator[Finding]:
        """Yield how far a migration to KRaft is; nothing without one."""
        epoch = _body(self._data("/controller")).get("kraftControllerEpoch")
        data = self._data("/migration")
        migration = _body(data)
        controller, offset = (
            migration.get("kraft_controller_id"),
            migration.get("kraft_metadata_offset"),
        )
        # Kafka 3.4 and later write both with -1 before KRaft has taken over.
        if any(isinstance(number, int) and number >= 0 for number in (epoch, controller)):
            copy = f": ZooKeeper is a copy up to offset {offset}" if isinstance(offset, int) else ""
            yield warn(
                "migration",
                f"the cluster is being migrated to KRaft, or was{copy}",
                "vacancy, liveness and zombie are unknown until it has ended or was rolled back; watch its controllers "
                "under another name (kcm watch --controllers)",
            )
        elif data is not None:
            yield warn(
                "migration",
                "a KRaft quorum has started to migrate the cluster, and has not taken over (/migration)",
                "watch its controllers under another name (kcm watch --controllers) before the last broker is restarted",
            )

    def _data(self, path: str) -> bytes | None:
        """Return the data of a znode; None when it does not exist or may not be read."""
        found = self._ask(self._client.get, path)
        if found is None:
            return None
        self._read += 1
        data: bytes = found[0]
        return data

    def _children(self, path: str) -> list[str] | None:
        """Return the children of a znode; None when it does not exist or may not be read."""
        found = self._ask(self._client.get_children, path)
        return None if found is None else sorted(found)

    def _ask(self, ask: Callable[[str], Any], path: str) -> Any:
        try:
            return ask(self._chroot + path)
        except NoNodeError:
            return None
        except NoAuthError:
            self._denied.append(path)
            return None


def _registered(ids: Sequence[str], registrations: Iterable[dict[str, Any]]) -> Finding:
    """Return the finding about which brokers are registered, and whether their registrations agree."""
    if not ids:
        return warn("cluster", "no broker is registered", "is the cluster down?")
    kinds = {
        (each.get("version"), json.dumps(each.get("features", {}), sort_keys=True))
        for each in registrations
    }
    listed = ", ".join(sorted(ids, key=lambda each: (len(each), each))[:20])
    versions = ", ".join(sorted({str(version) for version, _ in kinds}))
    count = counted(len(ids), "broker")
    summary = printable(f"{count} ({listed}), registration version {versions}")
    if len(kinds) > 1:
        todo = "brokers of several releases? an upgrade?"
        return warn("cluster", f"{summary}: they differ", todo)
    ((_, features),) = kinds
    shown = "" if features == "{}" else printable(f", features {features}")
    return ok("cluster", f"{summary}{shown}")


def _body(data: bytes | None) -> dict[str, Any]:
    try:
        body = json.loads(data or b"{}")
    except DECODING_ERRORS:
        return {}
    return body if isinstance(body, dict) else {}
