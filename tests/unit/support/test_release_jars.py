"""Tests of a release whose jars cannot be downloaded are skipped; an error in this repository fails them."""

from __future__ import annotations

import pytest

from kcm.servers.jars import JarSet
from pipeline.runtime import EnvironmentProblemError
from tests.support import release_jars
from tests.support.releases import ZOOKEEPER_3_9


def refuse(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    """Make the tool that provides the jars fail with a message."""

    def ensure_set(_jar_set: JarSet) -> None:
        raise EnvironmentProblemError(message)

    monkeypatch.setattr(release_jars, "ensure_set", ensure_set)


@pytest.mark.parametrize(
    "message",
    [
        "cannot download the jars: no network reaches repo (refused); run again when online",
        "cannot download zookeeper;3.9.3: the repository does not have it; run again when online",
    ],
)
def test_a_release_that_cannot_be_downloaded_is_skipped(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    """The reason names the release."""
    refuse(monkeypatch, message)
    with pytest.raises(pytest.skip.Exception, match=f"3.9.3: {message[:20]}"):
        release_jars.jars_of(ZOOKEEPER_3_9)


@pytest.mark.parametrize(
    "message",
    [
        "Ivy brought {'server': 16} jars where {'server': 17} were expected; cache is /c",
        "cannot download the jars: Ivy failed, its last words: a broken file; run again when online",
    ],
)
def test_a_wrong_table_of_jars_is_an_error(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    """Otherwise a wrong table would look like a release that cannot be downloaded."""
    refuse(monkeypatch, message)
    with pytest.raises(EnvironmentProblemError):
        release_jars.jars_of(ZOOKEEPER_3_9)
