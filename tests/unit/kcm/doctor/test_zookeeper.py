"""The lines of `kcm doctor` about a ZooKeeper server."""

from __future__ import annotations

import pytest

from kcm.doctor.findings import Level
from kcm.doctor.zookeeper import server_answer


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        ("Zookeeper version: 3.8.4-9316, built\nMode: follower\n", Level.OK, "3.8.4, follower"),
        ("Zookeeper version: 3.9.2-1, built\nMode: leader\n", Level.OK, "3.9.2, leader"),
        ("Zookeeper version: 3.8.3-1, built\nMode: leader\n", Level.WARN, "CVE-2024-23944"),
        ("Zookeeper version: 3.9.1-1, built\nMode: leader\n", Level.WARN, "CVE-2024-23944"),
        ("Zookeeper version: 3.4.14-4c, built\nMode: standalone\n", Level.OK, "znode by znode"),
        ("srvr is not executed because it is not in the whitelist.\n", Level.OK, "4lw"),
        ("This ZooKeeper instance is not currently serving requests\n", Level.FAIL, "no quorum"),
        ("Zookeeper version: 3.8.4-1, built\nMode: read-only\n", Level.FAIL, "no quorum"),
        ("", Level.FAIL, "closes the connection"),
        ("HTTP/1.1 400 Bad Request\r\n", Level.FAIL, "not ZooKeeper"),
    ],
)
def test_an_answer_to_srvr_decides_the_level_of_a_zookeeper_server(
    answer: str, level: Level, words: str
) -> None:
    """A version that is not reported is no problem; a missing quorum is one, as is another program."""
    finding = server_answer("zk1:2181", answer, 1.0)
    assert finding.level is level
    assert words in finding.text
