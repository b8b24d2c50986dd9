"""The stat that is held of a znode."""

from __future__ import annotations

from controller_model.state.znode_stat import ZnodeStat


def test_the_version_of_a_value_is_that_of_the_last_good_one() -> None:
    """A newer version that cannot be read is stored in addition, 0 included."""
    stat = ZnodeStat(mzxid=9, czxid=3, version=4, resync=0)
    assert stat.value_version == 4
    stat.held_version = 0
    assert (stat.version, stat.value_version) == (4, 0)
