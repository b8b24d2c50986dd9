"""Three brokers of which one leads less than it should, until an election is recommended."""

from __future__ import annotations

from controller_model.records.events import RecommendationGraded, RecommendationMade
from controller_model.records.recommendations import SETTLE_MS, Grade
from tests.support.histories import Fold, History, small_cluster

BEAT_MS = 10_000
PARTITIONS = 10


def begun() -> tuple[History, Fold]:
    """Return three brokers; broker 0 is preferred everywhere, and leads everywhere."""
    history = small_cluster(t=dict.fromkeys(range(PARTITIONS), (0, 1, 2)))
    fold = Fold()
    history.heartbeat()
    fold.follow(history)
    return history, fold


def lead(history: History, leader: int, *partitions: int, isr: tuple[int, ...] = (0, 1, 2)) -> None:
    """Write another leader."""
    for partition in partitions:
        epoch = history.zxid  # any increasing number
        history.state("t", partition, leader=leader, isr=isr, leader_epoch=epoch)


def beat(history: History, fold: Fold, times: int) -> None:
    """Let heartbeats pass."""
    for _ in range(times):
        history.heartbeat()
    fold.follow(history)


def made(fold: Fold) -> list[RecommendationMade]:
    """Return the recommendations that were made."""
    return [event for event in fold.accounts if isinstance(event, RecommendationMade)]


def graded(fold: Fold) -> list[Grade]:
    """Return the grades."""
    return [event.grade for event in fold.accounts if isinstance(event, RecommendationGraded)]


def recommended(*partitions: int) -> tuple[History, Fold]:
    """Return a cluster in which broker 1 leads these partitions, and a recommendation was made."""
    history, fold = begun()
    lead(history, 1, *partitions)
    beat(history, fold, SETTLE_MS // BEAT_MS + 1)
    assert len(made(fold)) == 1
    return history, fold
