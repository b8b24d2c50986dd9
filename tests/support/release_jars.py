"""Provide the jars of a release that a test needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcm.servers.class_archive import KAFKA_CLASSES, ensure_class_archive
from kcm.servers.jars import Jars, ensure_set
from pipeline.java import find_java
from pipeline.runtime import EnvironmentProblemError
from tests.support.releases import Release

NOT_TO_BE_HAD = ("no network reaches", "the repository does not have it")
"""Parts of the tool's message where neither the tool nor kcm's tables are at fault."""


def nodes_jars(release: Release) -> Jars:
    """Return a release's jars as nodes of Kafka take them, with their class archive, or skip the test as `jars_of` does."""
    jars = Jars(connector=[], broker=jars_of(release))
    ensure_class_archive(KAFKA_CLASSES, jars.broker, find_java(os.environ))
    return jars


def jars_of(release: Release) -> list[Path]:
    """Return a release's jars; skip the test, with the reason, where they cannot be downloaded.

    Any other problem fails the test: a number of jars that differs from the table's, or a full
    disk.
    """
    try:
        return ensure_set(release.jar_set)[release.conf]
    except EnvironmentProblemError as error:
        if any(reason in str(error) for reason in NOT_TO_BE_HAD):
            pytest.skip(f"{release.version}: {error}")
        raise
