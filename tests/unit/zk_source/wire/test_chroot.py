"""A chroot is added on the way out and taken away on the way in."""

from __future__ import annotations

import pytest

from zk_source.wire.chroot import Chroot


@pytest.mark.parametrize("prefix", ["", "/kafka", "/kafka/prod"])
@pytest.mark.parametrize("path", ["/brokers/ids", "/kafka/ids"])
def test_a_path_comes_back_as_it_went_out(prefix: str, path: str) -> None:
    """Also where the path itself begins like the chroot."""
    chroot = Chroot(prefix)
    assert chroot.whole(path) == prefix + path
    assert chroot.within(chroot.whole(path)) == path


def test_the_root_of_a_cluster_is_its_chroot() -> None:
    """ZooKeeper takes no path that ends with a slash."""
    assert Chroot("/kafka").whole("/") == "/kafka"
    assert Chroot("").whole("/") == "/"
