"""The jars of a release that a test asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.jars.jars import ensure_set
from pipeline.runtime import EnvironmentProblemError
from tests.support.releases import Release

NOT_TO_BE_HAD = ("no network reaches", "the repository does not have it")
"""What the tool says of jars where neither it nor our tables are to blame."""


def jars_of(release: Release) -> list[Path]:
    """Return a release's jars; skip the test, with the reason, where they cannot be had.

    Anything else that goes wrong with them fails: another number of jars than the table's, no room.
    """
    try:
        return ensure_set(release.jar_set)[release.conf]
    except EnvironmentProblemError as error:
        if any(reason in str(error) for reason in NOT_TO_BE_HAD):
            pytest.skip(f"{release.version}: {error}")
        raise
