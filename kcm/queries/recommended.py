"""Read a whole recommendation page by page: for Kafka's own tool, and for `kcm elect`.

The rule: all pages are of one moment. Where the cluster changes between two of them, the exporter
refuses the next page or reports another count, and all pages are read again.
"""

from typing import Any, NamedTuple

from controller_model.kafka.ids import TopicPartition
from kcm.queries.api_client import ExporterApi
from pipeline.runtime import UnreachableError, UsageError

CHUNKS_A_PAGE = 100
TRIES = 5
"""A cluster that changes during each of these reads is too unstable to elect by a list."""


class RecommendedElections(NamedTuple):
    """The recommended partitions, and the first page, which says what the elections would fix."""

    first: dict[str, Any]
    chunks: list[dict[str, Any]]

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of all chunks, each once."""
        return list(
            dict.fromkeys(
                TopicPartition(each["topic"], each["partition"])
                for chunk in self.chunks
                for each in chunk["election"]["partitions"]
            )
        )

    def election(self) -> dict[str, Any]:
        """Return the file that Kafka's own tool takes."""
        return {"partitions": [each._asdict() for each in self.partitions]}


def read_recommended(
    api: ExporterApi, path: str, broker: int | None, chunk: int | None = None
) -> RecommendedElections:
    """Return all chunks of one moment, or one of them; raises KcmError."""
    for _ in range(TRIES):
        found = _read_once(api, path, broker, chunk)
        if found is not None:
            return found
    raise UnreachableError(
        f"the cluster changed {TRIES} times while the recommendation was read; try again"
    )


def _read_once(
    api: ExporterApi, path: str, broker: int | None, chunk: int | None
) -> RecommendedElections | None:
    """Return the recommendation; None when the cluster changed between two pages."""
    page = first = api.get(path, broker=broker, limit=CHUNKS_A_PAGE)
    if chunk is not None and chunk > max(1, first["chunk_count"]):
        count = first["chunk_count"]
        is_are = "is 1 chunk" if count == 1 else f"are {count} chunks"
        raise UsageError(f"option --chunk: there {is_are}")
    chunks = list(first["chunks"])
    while page["next"] is not None and not (chunk is not None and len(chunks) >= chunk):
        try:
            page = api.get(path, broker=broker, limit=CHUNKS_A_PAGE, after=page["next"])
        except UsageError:  # the place in the list belongs to another moment
            return None
        if page["partition_count"] != first["partition_count"]:
            return None
        chunks += page["chunks"]
    if chunk is not None:
        chunks = [each for each in chunks if each["number"] == chunk]
    return RecommendedElections(first, chunks)
