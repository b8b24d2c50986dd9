"""The jars of ZooKeeper 3.4, an old ensemble to try the watcher on; nothing that kcm runs needs it."""

from __future__ import annotations

from pathlib import Path

from kcm.jars.jars import JarSet

CONF = "zookeeper34"
OLD_ZOOKEEPER = JarSet(
    Path(__file__).with_name("ivy-zookeeper-3.4.xml"),
    {CONF: 3},
    "the jars of ZooKeeper 3.4 (1 MB, once)",
)
