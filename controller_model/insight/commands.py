"""The shell lines that run preferred elections.

Anybody may have written a host into a znode, and these lines are pasted into a shell, so each word
is quoted. A broker whose address is not known stands as HOST:PORT.
"""

import shlex
from collections.abc import Sequence

ELECTION_FILE = "election.json"
"""The name of the file with the partitions, which `kcm recommend --json` prints."""
_ADDRESS_NOT_KNOWN = "HOST:PORT"


def kafka_election(server: str | None) -> str:
    """Return the line by which Kafka's own tool elects the partitions in a file.

    >>> kafka_election("$(reboot):9092").split(" --")[1]
    "bootstrap-server '$(reboot):9092'"
    """
    return (
        f"kafka-leader-election.sh --bootstrap-server {shlex.quote(server or _ADDRESS_NOT_KNOWN)} "
        f"--election-type PREFERRED --path-to-json-file {ELECTION_FILE}"
    )


def recommended_elections(
    server: str | None, *, chunk_count: int, chunk: int | None = None, options: Sequence[str] = ()
) -> str:
    """Return the line that runs a recommendation as it is when the line is run.

    Several chunks are for `kcm elect`; one chunk, or a chosen one, is for Kafka's own tool.
    `options` are those of `kcm recommend` and `kcm elect`, such as --cluster.

    >>> recommended_elections("[2001:db8::7]:9092", chunk_count=2, options=["--cluster", "prod"])
    "kcm elect --bootstrap-servers '[2001:db8::7]:9092' --cluster prod"
    """
    if chunk is None and chunk_count > 1:
        where = ("--bootstrap-servers", server or _ADDRESS_NOT_KNOWN)
        return shlex.join(["kcm", "elect", *where, *options])
    only = () if chunk is None else ("--chunk", str(chunk))
    listed = shlex.join(["kcm", "recommend", *options, *only, "--json"])
    return f"{listed} > {ELECTION_FILE} && {kafka_election(server)}"
