"""A KRaft node's metadata folder as lines of a log, so that it is replayed as any other log."""

from collections.abc import Iterator

from controller_model.records.metadata_log import MetadataSlice
from kcm.history.replay_input import Line
from kraft_source.folder import Damage, MetadataFolder
from kraft_source.proof import CommitProof


def folder_lines(folder: MetadataFolder, cluster: str, proof: CommitProof) -> Iterator[Line]:
    """Yield the records of a folder under a cluster's name, and its damage."""
    for read in folder.records(cluster, proof):
        if isinstance(read, Damage):
            yield Line(str(folder.path), b"", read.text)
        else:
            offset = (
                read.record.first if isinstance(read.record, MetadataSlice) else read.record.end
            )
            yield Line(f"{folder.path}, offset {offset}", read.data)
