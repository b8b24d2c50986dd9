"""Writes are fenced by the controller epoch."""

from __future__ import annotations

from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    Multi,
    SetZnode,
    fenced,
)


def test_writes_are_fenced_by_the_epochs_version() -> None:
    """The transaction consists of the check and the write."""
    write = SetZnode("/brokers/topics/t", "{}", 3)
    for version in (0, 7):
        assert fenced(write, epoch_zk_version=version) == Multi(
            (CheckZnode("/controller_epoch", version), write)
        )
