"""Writes are fenced by the controller epoch, and commits are the requests that led to them."""

from __future__ import annotations

from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    CreateZnode,
    DeleteZnode,
    Multi,
    SetZnode,
    fenced,
    unfenced,
)


def test_writes_are_fenced_by_the_epochs_version() -> None:
    """A transaction of the check and the write; without a version to check, the write alone."""
    write = SetZnode("/brokers/topics/t", "{}", 3)
    for version in (0, 7):
        transaction = fenced(write, epoch_zk_version=version)
        assert transaction == Multi((CheckZnode("/controller_epoch", version), write))
        assert unfenced(transaction) == (write,)
    for version_or_none in (None, -1):
        assert fenced(write, epoch_zk_version=version_or_none) is write
    assert unfenced(write) == (write,)
    both = Multi((CreateZnode("/a"), CheckZnode("/b"), DeleteZnode("/c")))
    assert unfenced(both) == (CreateZnode("/a"), DeleteZnode("/c"))
