"""Manages the lineage: one name for a checkpoint and the three topics that it belongs to.

The rule: checkpoint and topics are one store. If a topic is gone or was re-created, or the state
has another format, the old offsets and counts mean nothing: a new checkpoint under a new name reads
the log from its earliest record, and readers of the views switch to the newer name. Names begin
with the time they were made, and increase even if the clock goes back. Readers never go back to an
older name. So once the views were written under a newer name, a checkpoint is useless: it was
restored from a backup.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from controller_model.state.packing import STATE_VERSION
from pipeline.topics import EnsuredTopics
from streaming.schemas import LAYOUT_VERSION

FORMAT = f"{STATE_VERSION}.{LAYOUT_VERSION}"
"""The format of the state in a checkpoint: the model's values, and how Spark's state store holds them."""

_FILE = "lineage.json"
_FOLDER = "lineages"


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """The content of lineage.json."""

    name: str
    format: str
    partitions: int
    topic_ids: dict[str, str]


class Lineages:
    """The lineages under a checkpoint folder: the current one, and for a short time an earlier one."""

    def __init__(self, root: Path, *, now_ms: Callable[[], int], token: Callable[[], str]) -> None:
        self._root = root
        self._now_ms = now_ms
        self._token = token

    def open(
        self, topics: EnsuredTopics, *, published: str | None = None
    ) -> tuple[Lineage, str | None]:
        """Return the lineage that fits these topics, and why it is a new one; None if it is not.

        `published` is the newest lineage that wrote to the topics; None if none did.
        """
        found = self._read()
        if isinstance(found, str):
            return self._begin(topics, published), found
        misfit = _misfit(found, topics)
        if misfit is None and not self.checkpoint(found).is_dir():
            misfit = "the checkpoint is gone"
        before = max(found.name, published or "")
        if misfit is None and before != found.name:
            misfit = f"the checkpoint is older than the views, which lineage {before} has written"
        return (found, None) if misfit is None else (self._begin(topics, before), misfit)

    def begin_new(self, topics: EnsuredTopics) -> Lineage:
        """Give up the current lineage and return a new one."""
        found = self._read()
        return self._begin(topics, None if isinstance(found, str) else found.name)

    def checkpoint(self, lineage: Lineage) -> Path:
        """Return the folder of a lineage's checkpoint."""
        return self._root / _FOLDER / lineage.name

    def remove_others(self, lineage: Lineage) -> None:
        """Remove the checkpoints of earlier lineages, now that this one works."""
        for folder in (self._root / _FOLDER).iterdir():
            if folder.name != lineage.name:
                shutil.rmtree(folder, ignore_errors=True)

    def _read(self) -> Lineage | str:
        """Return the lineage on disk, or the reason why there is none."""
        try:
            data = (self._root / _FILE).read_bytes()
        except FileNotFoundError:
            return "there was no checkpoint"
        try:
            return msgspec.json.decode(data, type=Lineage)
        except DECODING_ERRORS as error:
            return f"{_FILE} is damaged: {error}"

    def _begin(self, topics: EnsuredTopics, before: str | None) -> Lineage:
        created_ms = max(self._now_ms(), _created_ms(before) + 1)
        lineage = Lineage(
            name=f"{created_ms:013d}-{self._token()}",
            format=FORMAT,
            partitions=topics.partitions,
            topic_ids=dict(topics.ids),
        )
        self.checkpoint(lineage).mkdir(parents=True)
        partial = self._root / f"{_FILE}.partial"
        with partial.open("wb") as file:
            file.write(msgspec.json.encode(lineage))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self._root / _FILE)
        return lineage


def topics_changed(lineage: Lineage, topic_ids: Mapping[str, str]) -> str | None:
    """Return what happened to the lineage's topics; None when they are the same.

    >>> lineage = Lineage(name="1-a", format="1.1", partitions=1, topic_ids={"kcm.views": "x"})
    >>> topics_changed(lineage, {"kcm.views": "y"})
    'topic kcm.views was re-created'
    """
    for name, topic_id in lineage.topic_ids.items():
        if name not in topic_ids:
            return f"topic {name} is gone"
        if topic_ids[name] != topic_id:
            return f"topic {name} was re-created"
    if set(topic_ids) != set(lineage.topic_ids):
        return "the topics have other names"
    return None


def _misfit(lineage: Lineage, topics: EnsuredTopics) -> str | None:
    if lineage.format != FORMAT:
        return f"the checkpoint's state is of format {lineage.format}, not {FORMAT}"
    if lineage.partitions != topics.partitions:
        return f"the topics have {topics.partitions} partitions, not {lineage.partitions}"
    return topics_changed(lineage, topics.ids)


def _created_ms(name: str | None) -> int:
    try:
        return int(name.split("-")[0]) if name else 0
    except ValueError:
        return 0
