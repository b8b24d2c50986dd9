"""Checks whether the log still reaches as far as a checkpoint has folded it.

The rule: after a log was restored from an older copy, Spark waits silently until the log has grown
past the offset that it knows, and what is written until then is never folded. So before the fold
continues it compares the two. A log that lost its end counts as another store.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topics import EnsuredTopics
from streaming.published_lineage import GROUP


def truncated_log(
    settings: PipelineSettings, topics: EnsuredTopics, checkpoint: Path
) -> str | None:
    """Return which part of what this checkpoint has folded the log has lost; None when it has lost nothing.

    Raise TopicReadError when Kafka does not answer.
    """
    log = topics.names.changes
    folded = folded_to(checkpoint, log)
    if not folded:
        return None
    unknown = folded.keys() - set(range(topics.partitions))
    if unknown:  # a damaged file: Kafka would be asked for it for ever
        return f"the checkpoint has folded partition {min(unknown)} of topic {log}, which has none"
    with RecordReader(settings, GROUP) as reader:
        extents = reader.extents((log, partition) for partition in sorted(folded))
    for (_, partition), _, end in extents:
        if end < folded[partition]:
            where = f"topic {log}, partition {partition}"
            return f"{where} ends at {end}, the checkpoint has folded it up to {folded[partition]}"
    return None


def folded_to(checkpoint: Path, topic: str) -> dict[int, int]:
    """Return by partition up to which offsets the newest batch was planned to fold a topic.

    Empty where the checkpoint has no batch yet, or in a form that is not known.
    """
    batches = [path for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not batches:
        return {}
    lines = max(batches, key=lambda path: int(path.name)).read_bytes().splitlines()
    for line in reversed(lines):
        with suppress(*DECODING_ERRORS, KeyError):
            return msgspec.json.decode(line, type=dict[str, dict[int, int]])[topic]
    return {}
