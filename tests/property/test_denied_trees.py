"""What may not be read is marked where its value is held; by denied tree there are only a count and a digest.

A cluster plays any order of resyncs that are denied some trees, of reads that are granted again, of writes and
deletions. The sums must be those of the marked znodes, and each reconciliation must prove the figures.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.records.changes import znode_digest
from controller_model.sources.zookeeper.denied_paths import is_below
from controller_model.sources.zookeeper.state import DENIED, DeniedTree
from controller_model.sources.zookeeper.stats import every_stat
from controller_model.state.packing import pack_control
from tests.support.histories import Fold, small_cluster

TOPICS = {name: {0: (0, 1, 2), 1: (1, 2, 0)} for name in "ab"}
ROOTS = ("/brokers/topics/a", "/brokers/topics/b", "/brokers/topics", "/brokers", "/controller")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["resync", "grant", "narrow", "write", "read", "delete"]),
        st.integers(0, 2**32),
    ),
    max_size=12,
)


class Play:
    """A cluster, its watcher that is denied some paths, and the fold."""

    def __init__(self) -> None:
        self.history, self.fold = small_cluster(**TOPICS), Fold()
        self.fold.follow(self.history)
        self.denied: tuple[str, ...] = ()

    def apply_step(self, step: str, draw: random.Random) -> None:
        """Apply a step, and let the fold follow."""
        history = self.history
        path = draw.choice(sorted(history.znodes))
        match step:
            case "resync":
                self._resync(draw.sample(ROOTS, draw.randint(0, 2)))
            case "grant" if self.denied:
                gone = draw.choice(self.denied)
                self._deny([each for each in self.denied if each != gone])
            case "narrow":
                self._deny([each for each in ROOTS if is_below(each, self.denied)][:2])
            case "write":
                history.set(path, history.znodes[path].data)
            case "read":
                history.report(path)
            case "delete" if path.endswith("/state"):
                history.delete(path)
        self.fold.follow(history)

    def _resync(self, roots: list[str]) -> None:
        self.denied = tuple(roots)
        self.history.start_resync()
        self._report_readable()
        self.history.finish_resync(denied=self.denied, denied_more=0)

    def _deny(self, roots: list[str]) -> None:
        """Deny these paths only, of those that are denied: the watcher reads the others."""
        self.denied = tuple(roots)
        self._report_readable()

    def _report_readable(self) -> None:
        for path in self.history.znodes:
            if path not in self.history.published and not is_below(path, self.denied):
                self.history.report(path)


def check(fold: Fold) -> None:
    """Compare what is held by tree with the marked znodes."""
    sums: dict[str, DeniedTree] = {}
    source = fold.state.control.source
    for path, stat in every_stat(fold.state):
        if stat.reading == DENIED:
            (root,) = (each for each in source.denied_trees if is_below(path, (each,)))
            tree = sums.setdefault(root, DeniedTree())
            tree.znodes += 1
            tree.digest ^= znode_digest(path, stat.order)
    assert source.denied_trees == sums


@given(STEPS)
def test_the_sums_are_those_of_the_marked_znodes_and_prove_the_figures(
    steps: list[tuple[str, int]],
) -> None:
    """After each step; no order of them makes a reconciliation fail."""
    play = Play()
    for step, seed in steps:
        play.apply_step(step, random.Random(seed))  # noqa: S311  # a play, not a secret
        check(play.fold)
        proof = play.history.reconciled(denied=play.denied, denied_more=0)
        play.fold.follow(play.history)
        log = play.fold.state.control.log
        assert (log.view.divergent_since, log.view.incomplete_since) == (None, None), step
        assert log.view.verified_at == proof.observed_at
        check(play.fold)


@pytest.mark.parametrize("root", ["/brokers/topics", "/"])
def test_the_row_that_every_batch_writes_does_not_grow_with_a_denied_tree(root: str) -> None:
    """A count and a digest take its place."""
    sizes = []
    for partitions in (1, 1_000):
        history = small_cluster(t=dict.fromkeys(range(partitions), (0, 1, 2)))
        fold = Fold()
        fold.follow(history)
        readable = len(pack_control(fold.state.control))
        history.start_resync()
        for path in history.znodes:
            if not is_below(path, (root,)):
                history.report(path)
        history.finish_resync(denied=(root,), denied_more=0)
        fold.follow(history)
        check(fold)
        assert list(fold.state.control.source.denied_trees) == [root]
        sizes.append(len(pack_control(fold.state.control)) - readable)
    few, many = sizes
    assert many - few < 16
