"""Where a recorded log comes from, and what its bundles report about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller_model.state.control_plane import Assumed
from kcm.history.bundle_file import write_bundle
from kcm.history.log_source import LogSource, open_log
from kcm.history.options import load_replay
from pipeline.runtime import UsageError
from tests.support.bundles import manifest
from tests.support.replaying import write

LOG = [b'{"a":1}\n', b'{"a":2}\n']


def bundle(path: Path, **fields: Any) -> str:
    """Write a bundle of a log of two lines; return its name."""
    write_bundle(path, manifest(**fields), log=LOG, events=(), before=None, after=b"{}")
    return str(path)


def opened(*files: str, **options: Any) -> LogSource:
    """Return the log in these files."""
    return open_log(load_replay(None, options), files, None, from_topic=False)


def test_files_and_bundles_are_one_log_in_their_order(tmp_path: Path) -> None:
    """Only bundles have a manifest."""
    one = bundle(tmp_path / "b.zip")
    two = write(tmp_path / "a.jsonl", b"x")
    source = opened(one, two)
    assert list(source.manifests) == [one]
    assert [line.data.strip() for line in source.lines] == [*map(bytes.strip, LOG), b"x"]


@pytest.mark.parametrize(
    ("files", "from_topic", "said"),
    [
        (["a.jsonl"], True, "give files or --from-topic, not both"),
        ([], False, "which log? name a FILE"),
        (["/no/such/file"], False, "/no/such/file"),
    ],
)
def test_a_log_needs_exactly_one_source(files: list[str], from_topic: bool, said: str) -> None:
    """Nothing is read until the source is clear."""
    with pytest.raises(UsageError) as caught:
        open_log(load_replay(None, {}), files, None, from_topic=from_topic)
    assert said in str(caught.value)


def test_the_topic_is_read_when_its_lines_are_asked_for() -> None:
    """Opening it needs no server; an address without a server is reported on reading."""
    settings = load_replay(None, {"bootstrap_servers": "127.0.0.1:1"})
    source = open_log(settings, [], "prod", from_topic=True)
    assert source.manifests == {}
    assert source.assumed == settings.assumed


def test_each_missing_part_of_a_bundle_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line has the bundle's name; a complete bundle prints nothing."""
    name = bundle(tmp_path / "b.zip", missing=("the begin of the log", "events"))
    opened(name, bundle(tmp_path / "whole.zip"))
    assert capsys.readouterr().err == (
        f"kcm: {name}: missing: the begin of the log\nkcm: {name}: missing: events\n"
    )


def test_settings_recorded_in_a_bundle_are_assumed_of_its_cluster(tmp_path: Path) -> None:
    """Settings of the command win, first a cluster's, then those for all; other clusters get no assumption."""
    name = bundle(tmp_path / "b.zip", assumed_min_insync_replicas=2)
    assert opened(name).assumed("prod") == Assumed(min_insync_replicas=2)
    assert opened(name).assumed("stage") == Assumed(min_insync_replicas=None)
    everywhere = opened(name, assumed_min_insync_replicas=3, min_insync_replicas="stage=1")
    assert everywhere.assumed("prod") == Assumed(min_insync_replicas=3)
    assert everywhere.assumed("stage") == Assumed(min_insync_replicas=1)
