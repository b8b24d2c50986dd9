"""What a story of the demo is: a cluster, and the steps that are done to it.

A step fails, too, when the cluster did not do what the step is about: a demo in which nothing
happened proves nothing. The steps are the same with and without --fast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from kcm.demo.cluster import WatchedCluster
from kcm.demo.figures import TrueFigures
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor

ClusterT = TypeVar("ClusterT", bound=WatchedCluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[ClusterT]):
    """One step: `act` returns a description of what it did; `expected` judges the truth after it."""

    title: str
    act: Callable[[ClusterT, TrueFigures], str]
    expected: Callable[[TrueFigures, TrueFigures], bool]
    """Takes the truth before the step and the current truth."""
    status: str = "live"
    """What the monitor says of its figures after it, equal as they are."""
    stalls: bool = False
    """Whether a broker hangs after it: its clients wait, so the next step follows without a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story(Generic[ClusterT]):
    """A story: `cluster` describes the cluster that it is played on, and `steps` are done to it."""

    cluster: Callable[[Supervisor, Jars, Path], ClusterT]
    """Takes the jars of this release; its data goes to the folder."""
    steps: tuple[Step[ClusterT], ...]
    sources: str
    """Where the truth is read."""


def is_healthy(now: TrueFigures) -> bool:
    """Return whether every partition has a leader, and all of its replicas in sync."""
    return now.offline == 0 and now.under_replicated == 0
