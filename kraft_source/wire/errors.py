"""Says in one line what a controller refuses, why, and what to do.

A refusal is not the cluster's health: the controller answers, and goes on refusing until somebody
changes a setting or a right.
"""

from enum import IntEnum

from pipeline.runtime import UnreachableError

GIVEN_AWAY = "register brokers, vote and change partitions"
"""What CLUSTER_ACTION on Cluster, without which nobody reads the metadata log, lets its owner do besides."""


def acl_command(operation: str) -> str:
    """Return the command that gives kcm's principal a right on the cluster, by Kafka's name of the operation.

    >>> acl_command("Describe")
    "kafka-acls.sh --add --allow-principal User:<kcm's> --operation Describe --cluster"
    """
    return f"kafka-acls.sh --add --allow-principal User:<kcm's> --operation {operation} --cluster"


class RefusedError(UnreachableError):
    """A controller answers and does not serve us: a setting or a right has to change first."""


class LateAnswerError(UnreachableError):
    """The whole answer was not there in time."""


class ErrorCode(IntEnum):
    """The error codes that the observer distinguishes (org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    SASL_AUTHENTICATION_FAILED = 58
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_CLUSTER_ID = 104


LEADERSHIP_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
    }
)
"""Errors that say: the one that was asked does not lead our epoch. INVALID_REQUEST answers an epoch below 0."""

NOT_A_CONTROLLER = (
    "is a broker's listener, which does not serve the metadata log: name the controllers' listener "
    "(controller.listener.names)"
)
_REFUSALS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "does not let us read the metadata log: our principal needs "
    f"CLUSTER_ACTION on Cluster ({acl_command('ClusterAction')}). Whoever has it may also {GIVEN_AWAY}: "
    "give kcm a principal of its own, bound to its host",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "belongs to another cluster than cluster_id names: correct the address or the id",
    ErrorCode.UNKNOWN_TOPIC_ID: NOT_A_CONTROLLER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NOT_A_CONTROLLER,
    ErrorCode.UNSUPPORTED_VERSION: "does not know our version of the request: kcm watches Kafka 3.7 and newer in KRaft mode",
}


def refusal(error: int) -> str | None:
    """Return what a controller refuses by an error code, without its address; None if the code is no refusal.

    >>> refusal(6) is None, refusal(104).partition(":")[0]
    (True, 'belongs to another cluster than cluster_id names')
    """
    return _REFUSALS.get(ErrorCode(error)) if error in ErrorCode.__members__.values() else None


def error_name(error: int) -> str:
    """Return an error code as text.

    >>> error_name(74), error_name(1234)
    ('74 FENCED_LEADER_EPOCH', '1234')
    """
    known = error in ErrorCode.__members__.values()
    return f"{error} {ErrorCode(error).name}" if known else str(error)
