"""A scene of the demo in which nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.demo.scene import Scene
from kcm.demo.story_state import StoryState
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Supervisor]:
    """The owner of the small programs that a test starts; no server is among them."""
    with Supervisor(tmp_path, kill_on_exit=True) as made:
        yield made


@pytest.fixture
def described(owner: Supervisor, tmp_path: Path) -> Iterator[Scene]:
    """A scene of which nothing is started."""
    jars = Jars(connector=[Path("/a.jar")], broker=[Path("/b.jar")])
    with Scene(owner, jars, tmp_path, StoryState()) as made:
        yield made
