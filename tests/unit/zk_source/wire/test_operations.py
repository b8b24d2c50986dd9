"""Codes of reads, events and errors are ZooKeeper's, and one read has the form of many."""

from __future__ import annotations

import pytest
from kazoo import exceptions
from kazoo.protocol import serialization
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType

from zk_source.wire import operations
from zk_source.wire.operations import Err, MultiRead, Op, SingleRead

KAZOO_EVENTS = {
    operations.EventType.CREATED: EventType.CREATED,
    operations.EventType.DELETED: EventType.DELETED,
    operations.EventType.DATA_CHANGED: EventType.CHANGED,
    operations.EventType.CHILDREN_CHANGED: EventType.CHILD,
}
KAZOO_ERRORS = {
    Err.CONNECTION_LOSS: exceptions.ConnectionLoss,
    Err.MARSHALLING: exceptions.MarshallingError,
    Err.UNIMPLEMENTED: exceptions.UnimplementedError,
    Err.NO_NODE: exceptions.NoNodeError,
    Err.NO_AUTH: exceptions.NoAuthError,
}


def test_reads_have_the_codes_that_the_client_library_sends() -> None:
    """EXISTS, getData and getChildren: a multiRead's headers and a request's type alike."""
    assert {op.name: op.value for op in Op} == {
        "EXISTS": serialization.Exists.type,
        "GET_DATA": serialization.GetData.type,
        "GET_CHILDREN": serialization.GetChildren.type,
    }


@pytest.mark.parametrize("event", list(operations.EventType))
def test_events_have_the_codes_that_the_client_library_reads(event: operations.EventType) -> None:
    """Under whatever names the library has for them."""
    assert EVENT_TYPE_MAP[event.value] == KAZOO_EVENTS[event]


@pytest.mark.parametrize("code", [each for each in Err if each is not Err.OK])
def test_errors_have_the_codes_that_the_client_library_reads(code: Err) -> None:
    """A mistaken code would make a denied znode a deleted one."""
    assert exceptions.EXCEPTIONS[code.value] is KAZOO_ERRORS[code]


@pytest.mark.parametrize("op", list(Op))
def test_a_single_read_names_its_read_like_a_multi_read(op: Op) -> None:
    """So the same code handles results, whichever way they were asked for."""
    assert SingleRead(op, "/a").reads == ((op, "/a"),)
    assert list(MultiRead([(op, "/a")]).reads) == list(SingleRead(op, "/a").reads)
