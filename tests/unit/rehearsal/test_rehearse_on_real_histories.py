"""What rehearsals predict, compared with what real Kafka clusters then did, partition by partition."""

from __future__ import annotations

import pytest

from tests.support.recordings import RECORDED, load_recording
from tests.support.rehearsed_histories import compare

NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))
REBALANCED = "real_kafka_3_9_rebalance"
"""Its controller holds preferred elections by itself, which a rehearsal reports as not simulated."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != REBALANCED])
def test_a_real_cluster_behaved_as_rehearsed(name: str) -> None:
    """Leaders, ISRs and replicas of all partitions, the controller's epoch, and who could be controller."""
    found = compare(load_recording(name))
    assert found.differences == []
    assert found.operations
