"""Check the controllers of the watched KRaft cluster: each one, our rights, the quorum, the addresses that it names.

It connects and asks as the watcher does, and changes nothing: a Fetch under an epoch that is past (0) is answered with
who leads, and with no record.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from controller_model.insight.wording import counted
from controller_model.kafka.metadata_records import KRAFT_VERSION, METADATA_VERSION
from controller_model.records.metadata_log import QuorumSample
from kcm.cli.text import printable
from kcm.doctor.findings import ClusterFindings, Finding, fail, ok, unknown, warn
from kraft_source.config import KraftSettings
from kraft_source.service.quorum_sampler import ask_cluster_id, describe_quorum, sample_of
from kraft_source.wire.codec import Values
from kraft_source.wire.connection import ControllerConnection
from kraft_source.wire.errors import (
    GIVEN_AWAY,
    ErrorCode,
    acl_command,
    error_name,
    refusal,
)
from kraft_source.wire.messages import ControllerEndpoint, Fetch, FetchAnswer
from pipeline.runtime import KcmError

ANSWER_S = 3.0
"""A controller that takes longer cannot be watched live."""
_WHO_LEADS = Fetch(0, 0, 0, 0, -1)
_ZK_TODO = "watch each under a name of its own until the migration has ended: kcm knows them as two clusters"


def check_controller(settings: KraftSettings, endpoint: ControllerEndpoint) -> Finding:
    """Connect to one controller, log in, and learn its versions."""
    about = f"controller {endpoint}"
    try:
        with closing(_connect(settings, endpoint)) as connection:
            return ok(about, _versions(connection))
    except KcmError as error:
        return fail(about, *_in_two(error, endpoint))


def _connect(settings: KraftSettings, endpoint: ControllerEndpoint) -> ControllerConnection:
    return ControllerConnection(endpoint, settings.access(), timeout_s=ANSWER_S)


def _versions(connection: ControllerConnection) -> str:
    """Return the finalized features that matter, and the versions of requests that both sides know."""
    features = connection.features
    levels = [f"{METADATA_VERSION} {features.get(METADATA_VERSION, 'not known')}"]
    levels.append(f"{KRAFT_VERSION} {features.get(KRAFT_VERSION, 0)}")
    offered = [
        f"{name} {connection.versions[name]}" if name in connection.versions else f"no {name}"
        for name in ("Fetch", "DescribeQuorum")
    ]
    return printable(f"answers: {', '.join((*levels, *offered))}")


def _in_two(error: Exception, endpoint: ControllerEndpoint) -> tuple[str, str]:
    """Return an error as a finding's text, and what to do; the finding names the controller itself.

    >>> _in_two(Exception("the controller at c:1: its certificate is not accepted: name the CA"), ControllerEndpoint("c", 1))
    ('its certificate is not accepted', 'name the CA')
    """
    text = (
        printable(str(error))
        .removeprefix(f"the controller at {endpoint}")
        .removeprefix(":")
        .strip()
    )
    what, _, todo = text.rpartition(": ")
    return (what, todo) if what else (text, "start it, or correct the setting controllers")


def check_quorum(settings: KraftSettings) -> ClusterFindings:
    """Ask one controller after the other who leads, and the leader what the watcher asks it."""
    asked = None
    for endpoint in settings.endpoints:
        try:
            asked = _connect(settings, endpoint)
            break
        except KcmError:
            continue  # its own line says why
    if asked is None:
        todo = "see the controllers' lines"
        return ClusterFindings([fail("quorum", "no controller can be asked", todo)], None)
    reader = _Reader(settings)
    with closing(asked):
        findings = list(reader.read(asked))
    return ClusterFindings(findings, reader.cluster_id)


class _Leader(NamedTuple):
    id: int
    epoch: int
    endpoint: ControllerEndpoint


class _Reader:
    """Asks what the watcher asks, and reports what is missing."""

    def __init__(self, settings: KraftSettings) -> None:
        self.cluster_id = settings.controller_cluster_id or None
        self._settings = settings

    def read(self, asked: ControllerConnection) -> Iterator[Finding]:
        """Yield the findings; `asked` is any controller."""
        if asked.zk_migration_ready:
            yield warn("migration", "the quorum takes a cluster over from ZooKeeper", _ZK_TODO)
        try:
            answer = asked.ask(_WHO_LEADS, timeout_s=ANSWER_S)
        except KcmError as error:
            yield fail("permissions, log", *_in_two(error, asked.endpoint))
            return
        assert isinstance(answer, FetchAnswer)  # noqa: S101  # the answer to a Fetch
        yield self._right_to_read(answer)
        if refusal(answer.error) is not None:
            return
        yield self._id(asked)
        leader = answer.leader
        if leader is None or leader.id < 0 or leader.id not in answer.endpoints:
            epoch = "" if leader is None else f" in epoch {leader.epoch}"
            text = f"the controller at {asked.endpoint} knows no leader{epoch} ({error_name(answer.error)})"
            yield fail(
                "quorum",
                text,
                "read the controllers' logs: a majority must run and reach each other",
            )
            return
        yield from self._of_leader(_Leader(*leader, answer.endpoints[leader.id]))

    def _right_to_read(self, answer: FetchAnswer) -> Finding:
        about = "permissions, log"
        if answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            text = f"the metadata log may not be read. The right for it also lets its owner {GIVEN_AWAY}"
            return fail(about, text, acl_command("ClusterAction"))
        if answer.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            text = f"they belong to another cluster than {self._settings.controller_cluster_id}"
            return fail("cluster id", text, "correct controllers or controller_cluster_id")
        if (why := refusal(answer.error)) is not None:
            return fail(about, *_in_two(KcmError(why), ControllerEndpoint("", 0)))
        access = self._settings.access()
        if access.credentials is None and (access.tls is None or access.tls.certificate is None):
            text = f"the metadata log may be read by whoever reaches the port, who may also {GIVEN_AWAY}"
            todo = "let only controllers, brokers and kcm reach it, or use SASL or mutual TLS with an authorizer"
            return warn(about, text, todo)
        text = (
            f"the metadata log may be read (CLUSTER_ACTION, which also lets its owner {GIVEN_AWAY}: for a principal "
            "of kcm's own, bound to its host)"
        )
        return ok(about, text)

    def _id(self, asked: ControllerConnection) -> Finding:
        """Return the finding about the cluster's id, which the answer to Fetch has confirmed if it is set."""
        about = "cluster id"
        if self.cluster_id is not None:
            return ok(about, f"{self.cluster_id}, as controller_cluster_id says")
        try:
            self.cluster_id = ask_cluster_id(asked)
        except KcmError as error:
            return unknown(about, _in_two(error, asked.endpoint)[0])
        if self.cluster_id is None:
            return unknown(
                about,
                "controllers tell it only to who may ALTER the cluster; set controller_cluster_id",
            )
        text = f"{printable(self.cluster_id)}; with it as controller_cluster_id no other cluster is watched by mistake"
        return ok(about, text)

    def _of_leader(self, leader: _Leader) -> Iterator[Finding]:
        try:
            with closing(_connect(self._settings, leader.endpoint)) as connection:
                if "DescribeQuorum" not in connection.versions:
                    yield unknown(
                        "quorum", "the leader offers no version of DescribeQuorum that we know"
                    )
                    return
                answer = describe_quorum(connection)
        except KcmError as error:
            yield self._unreachable(leader.id, leader.endpoint, error)
            return
        code = answer["error_code"]
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            text = "DescribeQuorum is refused: how far controllers are, and which may be stopped, is not known"
            yield warn("permissions, quorum", text, acl_command("Describe"))
            return
        sample = sample_of(answer)
        if sample is None:
            yield unknown(
                "quorum", f"controller {leader.id} does not lead any more ({error_name(code)})"
            )
            return
        yield _quorum(leader, sample)
        yield from self._addresses(leader, sample, answer)

    def _addresses(
        self, leader: _Leader, sample: QuorumSample, answer: Values
    ) -> Iterator[Finding]:
        """Check the addresses that voters advertise: the watcher follows the leader there."""
        about = "advertised addresses"
        nodes = {each["node_id"]: each["listeners"] for each in answer.get("nodes", ())}
        others = {each.replica_id for each in sample.voters} - {leader.id}
        if others and not others.intersection(nodes):
            yield unknown(
                about,
                "before Kafka 3.9 a leader tells no other voter's; each leader's is checked when it leads",
            )
            return
        reached = [f"{leader.id} at {leader.endpoint}"]
        for voter in sorted(others.intersection(nodes)):
            endpoints = [ControllerEndpoint(each["host"], each["port"]) for each in nodes[voter]]
            failures = []
            for endpoint in endpoints:
                try:
                    _connect(self._settings, endpoint).close()
                except KcmError as error:
                    failures.append(self._unreachable(voter, endpoint, error))
                else:
                    reached.append(f"{voter} at {endpoint}")
                    break
            else:
                yield from failures[-1:]
        yield ok(about, printable(f"these can be reached from here: {', '.join(reached)}"))

    def _unreachable(self, voter: int, endpoint: ControllerEndpoint, error: Exception) -> Finding:
        text = f"controller {voter} at {endpoint}: {_in_two(error, endpoint)[0]}"
        todo = "the watcher asks the leader at the address that it advertises: open the way, or correct advertised.listeners"
        return fail("advertised addresses", printable(text), todo)


def _quorum(leader: _Leader, sample: QuorumSample) -> Finding:
    """Return the finding about who votes, and who is caught up."""
    late = [each for each in sample.voters if each.replica_id not in sample.caught_up]
    listed = ", ".join(str(each.replica_id) for each in sample.voters)
    text = (
        f"controller {leader.id} leads epoch {leader.epoch}; {counted(len(sample.voters), 'voter')} ({listed}), "
        f"{counted(len(sample.observers), 'observer')}, committed up to {sample.high_watermark}"
    )
    if not late:
        return ok("quorum", f"{text}; all voters are caught up")
    names = ", ".join(f"{each.replica_id}" for each in late)
    return warn(
        "quorum",
        f"{text}; not caught up: {names}",
        "start them, or read their logs; stop no other voter",
    )
