"""Watchers as processes of their own on one small cluster, to be stopped, frozen and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller_model.fold.replay import replay
from controller_model.records.changes import ChangeKind, ZnodeChange, digest_text
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from pipeline.settings import given_values
from source_log.config import SourceSettings
from tests.component.watcher.watching import (
    CLUSTER,
    LogReader,
    metric,
    published_tree,
    repository,
    state,
)
from tests.support.ensemble_in_memory import digest_of
from tests.support.hanging import command_line
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.config import WatchSettings

STATE = "/brokers/topics/t0/partitions/0/state"


class WatcherProcess:
    """A watcher in a process of its own."""

    def __init__(
        self,
        settings: SourceSettings,
        log_path: Path,
        *,
        may_hang: bool = False,
        module: str = "zk_source",
    ) -> None:
        """Start it; `may_hang` lets it take the signals of `tests.support.hanging`."""
        self._log_path = log_path
        env = {f"KCM_{name.upper()}": text for name, text in given_values(settings).items()}
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command_line("watch") if may_hang else [sys.executable, "-m", module],
                cwd=repository(),
                env={**os.environ, **env, "KCM_LOG_FORMAT": "json"},
                stderr=log,
            )

    def log(self) -> list[dict[str, Any]]:
        """Return what it logged so far, without a line that is half written."""
        text, _, _ = self._log_path.read_text().rpartition("\n")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def wait_for_line(self, beginning: str) -> dict[str, Any]:
        """Wait until it has logged a line; return it."""

        def seen() -> list[dict[str, Any]]:
            assert self.exit_code is None, self._log_path.read_text()
            return [line for line in self.log() if str(line["event"]).startswith(beginning)]

        return wait_until(seen)[0]

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def metric(self, name: str) -> float:
        """Return one of its own metrics."""
        return metric(self.wait_for_line("metrics are served")["port"], name)

    def end(self) -> None:
        """Kill it, if it still runs."""
        self.signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait(DEADLINE_S)


class Scene:
    """A small cluster in ZooKeeper, its log, and watchers as they are started."""

    def __init__(
        self, settings: WatchSettings, chroot: str, client: KazooClient, folder: Path
    ) -> None:
        self.settings = settings
        self.chroot = chroot
        self.client = client
        self.log = LogReader(settings, strict=False)
        self._folder = folder
        self._watchers: list[WatcherProcess] = []

    def start(self, *, may_hang: bool = False) -> WatcherProcess:
        """Start one more watcher."""
        path = self._folder / f"watcher-{len(self._watchers)}.log"
        watcher = WatcherProcess(self.settings, path, may_hang=may_hang)
        self._watchers.append(watcher)
        return watcher

    def start_leader_and_standby(
        self, *, may_hang: bool = False
    ) -> tuple[WatcherProcess, WatcherProcess]:
        """Start two; the first leads and has resynced, the second is the standby."""
        leader = self.start(may_hang=may_hang)
        self.log.wait_for(ChangeKind.RESYNC_FINISHED)
        standby = self.start()
        standby.wait_for_line("standing by")
        return leader, standby

    def change(self, number: int) -> None:
        """Change a znode of the cluster."""
        self.client.set(self.chroot + STATE, state(number))

    def wait_for_tree(self, tree: dict[str, int]) -> None:
        """Wait until the log's last word on each path is this tree."""

        def last_words() -> dict[str, int | None]:
            changes = [c for c in self.log.read() if c.kind in {ChangeKind.SET, ChangeKind.DELETED}]
            return {c.path: c.mzxid for c in changes}

        wait_until(last_words, lambda seen: seen == tree)

    def wait_for_take_over(self, *, deadline_s: float = DEADLINE_S) -> ZnodeChange:
        """Wait until a resync of a generation above all that was read has ended; return its beginning."""
        before = max(change.generation for change in self.log.changes)
        finished = wait_until(
            lambda: [c for c in self.log.read() if c.kind is ChangeKind.RESYNC_FINISHED],
            lambda seen: seen[-1].generation > before,
            deadline_s=deadline_s,
        )[-1]
        return next(c for c in self.log.changes if c.generation == finished.generation)

    def check_fold(self) -> ClusterState:
        """Fold the log; it ends equal to the tree, and nothing deposed was applied on the way."""
        znodes = published_tree(self.client, self.chroot)
        digest = digest_of(znodes)
        return wait_until(
            self._fold, lambda state: digest_text(state.control.source.digest) == digest
        )

    def _fold(self) -> ClusterState:
        state = ClusterState(ControlPlane(CLUSTER, Assumed(), 0), MemoryTopicStore(), ZOOKEEPER)
        log = state.control.log
        highest = 0
        for change in self.log.read():
            before = log.position
            replay(state, change)
            if change.generation < highest:
                assert log.position == before, f"a deposed record counts: {change}"
            highest = max(highest, change.generation)
        assert (log.view.holes, log.view.incomplete_since, log.view.divergent_since) == (
            0,
            None,
            None,
        )
        return state

    def close(self) -> None:
        """End everything that was started."""
        for watcher in self._watchers:
            watcher.end()
        self.log.__exit__()
