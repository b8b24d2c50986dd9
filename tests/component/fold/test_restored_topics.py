"""Kafka's own volumes restored from an older copy: the topics have their ids, and less in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from tests.component.fold.folding import Outcome, Stream
from tests.support.histories import History, small_cluster

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def _folded(stream: Stream, history: History) -> Any:
    outcome = Outcome(stream.bootstrap_servers, stream.names)
    try:
        return outcome.folded(history)
    finally:
        outcome.close()


def _stop(stream: Stream) -> None:
    assert stream.process is not None
    assert stream.process.stop() == 0


def test_a_checkpoint_ahead_of_the_log_begins_another_lineage(tmp_path: Path, jars: Jars) -> None:
    """Spark would wait until the log has grown past the place that it knows; the fold reads it again."""
    with Supervisor(tmp_path / "stack", kill_on_exit=True) as supervisor:
        broker = KraftBroker(supervisor, jars, tmp_path / "kafka")
        broker.start()
        stream = Stream(supervisor, broker, jars, tmp_path / "fold")
        stream.start()
        history = small_cluster()
        stream.append_new(history)
        _folded(stream, history)
        broker.stop()
        shutil.copytree(broker.data_dir, tmp_path / "copy")
        broker.start()
        for _ in range(40):
            history.heartbeat()
        history.delete("/controller")
        history.elect(1)
        stream.append_new(history, at_a_time=1)
        before = _folded(stream, history)
        _stop(stream)
        broker.stop()
        shutil.rmtree(broker.data_dir)
        shutil.copytree(tmp_path / "copy", broker.data_dir)
        broker.start()
        # Another watcher begins above what the view, an older one again, says.
        history.new_generation("w2")
        history.delete("/controller", seen=False)
        history.elect(2, seen=False)
        history.resync()
        history.heartbeat()
        stream.append_new(history)
        stream.start()
        after = _folded(stream, history)
        said = Path(stream.process.log_path).read_text() if stream.process else ""
        _stop(stream)
    assert after.as_of.lineage > before.as_of.lineage
    assert f"topic {stream.names.changes}, partition 0 ends at 2, the checkpoint has folded" in said
    assert after.log.incomplete_since is None
    assert after.controller.id == 2
    # The epoch shows the election that the log has lost.
    assert after.controller.elections == history.epoch == before.controller.elections + 1
    assert after.counts == before.counts
