"""The lineage: one name for a checkpoint and its topics."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pipeline.topics import EnsuredTopics, topic_names
from streaming.lineage import FORMAT, Lineage, Lineages, topics_changed

NAMES = topic_names("kcm")


def topics(*, partitions: int = 1, recreated: str | None = None) -> EnsuredTopics:
    """Return the three topics with ids "c", "v", "e", `recreated` of them re-created."""
    known = {"changes": "c", "views": "v", "events": "e"}
    if recreated is not None:
        known[recreated] = "other"
    return EnsuredTopics(NAMES, partitions, {f"kcm.{name}": i for name, i in known.items()})


def lineages(root: Path, *, now_ms: int = 1_000) -> Lineages:
    """Return the lineages of a folder at a fixed time."""
    return Lineages(root, now_ms=lambda: now_ms, token=lambda: "abc")


def test_the_first_start_begins_a_lineage(tmp_path: Path) -> None:
    """A new folder gets a name from the time and a checkpoint folder under it."""
    lineage, reason = lineages(tmp_path).open(topics())
    assert lineage.name == "0000000001000-abc"
    assert reason == "there was no checkpoint"
    assert lineages(tmp_path).checkpoint(lineage).is_dir()


def test_the_next_start_continues_the_lineage(tmp_path: Path) -> None:
    """With the same topics and format the lineage is the same, whatever the time."""
    first = lineages(tmp_path).open(topics())[0]
    assert lineages(tmp_path, now_ms=9_000).open(topics()) == (first, None)


@pytest.mark.parametrize("name", ["changes", "views", "events"])
def test_a_topic_that_was_re_created_begins_another(tmp_path: Path, name: str) -> None:
    """Each of the three topics belongs to the lineage."""
    first = lineages(tmp_path).open(topics())[0]
    lineage, reason = lineages(tmp_path, now_ms=9_000).open(topics(recreated=name))
    assert reason == f"topic kcm.{name} was re-created"
    assert lineage.name > first.name


def test_more_partitions_begin_another(tmp_path: Path) -> None:
    """A cluster's partition follows from their number, and so does the order of its log."""
    lineages(tmp_path).open(topics())
    _, reason = lineages(tmp_path).open(topics(partitions=2))
    assert reason == "the topics have 2 partitions, not 1"


def test_a_state_of_another_format_begins_another(tmp_path: Path) -> None:
    """What another release packed is not read; the log is folded again."""
    first = lineages(tmp_path).open(topics())[0]
    older = msgspec.structs.replace(first, format="0.0")
    (tmp_path / "lineage.json").write_bytes(msgspec.json.encode(older))
    _, reason = lineages(tmp_path).open(topics())
    assert reason == f"the checkpoint's state is of format 0.0, not {FORMAT}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"name":1}'])
def test_a_damaged_file_begins_another(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds, the fold starts."""
    (tmp_path / "lineage.json").write_bytes(content)
    _, reason = lineages(tmp_path).open(topics())
    assert str(reason).startswith("lineage.json is damaged")


def test_a_lineage_whose_name_holds_no_time_begins_another(tmp_path: Path) -> None:
    """Whoever wrote it into the file: the fold starts, at the clock's time."""
    found = Lineage(name="restored", format=FORMAT, partitions=1, topic_ids=topics().ids)
    (tmp_path / "lineage.json").write_bytes(msgspec.json.encode(found))
    assert lineages(tmp_path).open(topics())[0].name == "0000000001000-abc"


def test_a_missing_checkpoint_begins_another(tmp_path: Path) -> None:
    """A name without its folder is useless."""
    first = lineages(tmp_path).open(topics())[0]
    lineages(tmp_path).checkpoint(first).rmdir()
    assert lineages(tmp_path).open(topics())[1] == "the checkpoint is gone"


def test_lineage_names_increase_although_the_clock_went_back(tmp_path: Path) -> None:
    """Readers take the newest name, so a later lineage never gets an older name."""
    first = lineages(tmp_path, now_ms=5_000).open(topics())[0]
    second = lineages(tmp_path, now_ms=1).begin_new(topics())
    assert second.name > first.name
    assert lineages(tmp_path).open(topics()) == (second, None)


def test_remove_others_deletes_the_older_checkpoints(tmp_path: Path) -> None:
    """Until then they are kept, because the new fold may not start."""
    store = lineages(tmp_path)
    first = store.open(topics())[0]
    second = store.begin_new(topics())
    assert store.checkpoint(first).is_dir()
    store.remove_others(second)
    assert not store.checkpoint(first).exists()
    assert store.checkpoint(second).is_dir()


def test_deleted_recreated_and_renamed_topics_are_reported() -> None:
    """Each by its name. The same topics are not a change."""
    lineage = Lineage(name="1-a", format=FORMAT, partitions=1, topic_ids={"a": "1", "b": "2"})
    assert topics_changed(lineage, {"a": "1", "b": "2"}) is None
    assert topics_changed(lineage, {"a": "1"}) == "topic b is gone"
    assert topics_changed(lineage, {"a": "1", "b": "3"}) == "topic b was re-created"
    assert topics_changed(lineage, {"a": "1", "b": "2", "c": "3"}) == "the topics have other names"


def test_a_checkpoint_older_than_the_views_begins_another(tmp_path: Path) -> None:
    """A restored checkpoint of an earlier lineage would write what readers no longer accept."""
    first = lineages(tmp_path).open(topics())[0]
    later = f"{2_000:013d}-restored"
    lineage, reason = lineages(tmp_path).open(topics(), published=later)
    assert lineage.name > later > first.name
    assert later in str(reason)
    assert lineages(tmp_path).open(topics(), published=lineage.name) == (lineage, None)


def test_a_lineage_that_has_not_written_yet_is_continued(tmp_path: Path) -> None:
    """The views still hold what an older lineage wrote."""
    first = lineages(tmp_path).open(topics())[0]
    second = lineages(tmp_path).begin_new(topics())
    assert lineages(tmp_path).open(topics(), published=first.name) == (second, None)


def test_a_new_lineage_is_newer_than_the_views_even_on_a_slow_clock(tmp_path: Path) -> None:
    """Even with a clock that is behind, the fold creates a name that readers accept."""
    reported = f"{5_000:013d}-other"
    lineage, _ = lineages(tmp_path, now_ms=1_000).open(topics(), published=reported)
    assert lineage.name > reported
