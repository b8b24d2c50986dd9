"""The report of a run of many seeds: a table of faults, and the page in docs/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.faults import FAULTS
from tests.simulation.planted import PLANTED
from tests.simulation.play import Outcome

_PAGE = """\
# Simulation

Written by `python -m tests.simulation {seeds} --report docs/simulation.md`; do not edit.

A seed, one integer, determines the changes of a Kafka cluster's znodes, every fault and every delay. These parts are the
real ones: the watcher's service with its publisher, beats and readback, its candidacy, the model, the processor, the
exporter's main loop, its server with the API and what the live page polls, and the run of `kcm elect`. Sockets, Kafka's
clients, threads, Spark, browsers and time are simulated, so a seed gives the same run each time. Each process has a steady
clock that begins at another value.
`python -m tests.simulation FROM+COUNT` runs seeds; a failing one is printed with the command that replays it with a trace.

Besides the faults in the table:

- One seed of seven has two more clusters, one in the same partition of the topics and one in another. Their logs are lost,
  repeated, damaged and forged, and the partition of the second loses beginnings, stretches and ends. No other cluster may
  be affected.
- One seed of fifteen loses the beginning of its views repeatedly.
- In one of eleven, main loops of watchers hang in processes that live: the session stays until the elector ends it.
- In two of seventeen, records of log and events expire after some seconds, as by `retention.ms`, also those that a fold or
  an exporter that is behind has not read.
- In one of fifteen, records that `kcm elect` writes are written into the log by others, valid or hostile. Only an
  election's origin may depend on them.
- In one of ten, ZooKeeper throttles its clients: requests wait, for longer than the sessions live or not, or are refused
  because they waited, also by a server that lags.
- In one of thirteen, the pipeline's Kafka starts: until it has read its metadata, it reports its topics as missing.
- In two of twenty-one, somebody runs `kcm elect`, and Kafka answers or fails while leaders move and brokers end.
- In one of nine, and from seed 1,301 on in every other one, changes that are not urgent wait for others, as shipped.
- Three browsers poll the live page of the cluster, of another or of all. They are fast, slow or hidden, and are opened
  and closed. The exporter's server pauses, or an error is raised for one cluster.
- In one seed of eight, the fold's service runs the fold, with its lineages on a real folder: queries fail, hang and are
  refused, Spark's JVM dies or does not answer, Kafka is away, the disk is full, and checkpoints are damaged, lost and
  restored. In two of eleven of these the topics have a first partition that no cluster uses, and files of the checkpoint
  are cut, emptied, overwritten or have a wrong digit.

What is checked:

- After every batch: nothing has moved back, the digest equals the state, a hole is reported, a complete resync is
  accepted, what counts as verified was true, divergent is never a false alarm.
- Twice a second: what the exporter shows as live was true within 4 s (20 s while a server that lost its peers has not
  noticed it), and the controller can be read. What it shows as behind, blind, incomplete or divergent was true
  within 4 s before the time up to which, as it says, the figures followed the cluster.
- At the watcher: a resync starts where the view is, an event precedes its value, only the leader publishes, and only
  under a proof.
- In the fold's output and at the exporter: event ids rise, an election is reported once, a topic is reported as deleted
  only where it was absent after it was held, and as created once, and missing views are reported if views are missing,
  and only then.
- At the live page: what a browser shows is what the exporter held when it made the answer, and true within 4 s where
  the answer says live. A browser that polls gets answers, whatever happens to the figures of other clusters, and
  without answers no browser shows figures as live.
- Of `kcm elect`: it requests elections only by figures that are live and newer than its pause. It requests nothing after
  a refusal, and nothing once another controller, another registration or more offline partitions were true for 4 s.
  What it reports as elected was elected, and its report accounts for all that it requested.
- No part ends because of what it reads. No watcher and no query ends because a Kafka that starts does not know its topics.
- Of the fold's service: a lineage begins only for a reason, the published lineage never goes back, no query continues
  after what the log has lost or with other topics, a fault that passes ends no part, and the first pause after a batch is
  short.
- After all faults have ended: state and figures equal ZooKeeper's, counters are those of the log without its repetitions,
  elections follow the epoch, no request for a resync is open, and pages show what the exporter holds.
- Then, for two reconciliation intervals in which nothing changes: the watcher writes heartbeats and reconciliations only,
  no view of a topic is published, no part logs a line, and reads, requests, batches, views and their bytes stay within
  what the intervals and the cluster's size allow.

| | |
|---|---|
| seeds | {seeds} |
| failed | {broken} |
| changes of znodes, fewest of a seed / all | {least} / {changes:,} |
| batches checked | {batches:,} |
| time simulated | {hours:,.0f} h |

| fault or event | how often | in seeds |
|---|---|---|
{faults}

Each of these planted bugs is caught (`tests/property/test_simulation.py`):
{planted}.
"""


def fault_rows(outcomes: Iterable[Outcome]) -> list[tuple[str, int, int]]:
    """Return (kind, how often, in how many seeds), the kinds of the table first."""
    often: Counter[str] = Counter()
    seeds: Counter[str] = Counter()
    for outcome in outcomes:
        often.update(outcome.hits)
        seeds.update(outcome.hits.keys())
    names = [*FAULTS, *sorted(often.keys() - FAULTS.keys())]
    return [(name, often[name], seeds[name]) for name in names]


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the faults as lines for a terminal."""
    rows = fault_rows(outcomes)
    lines = [f"{often:>8} {seeds:>8}  {name}" for name, often, seeds in rows]
    return "\n".join(["   often in seeds  fault or event", *lines])


def page(seeds: str, outcomes: Sequence[Outcome]) -> str:
    """Return the page for docs/."""
    rows = fault_rows(outcomes)
    return _PAGE.format(
        seeds=seeds,
        broken=sum(outcome.broken is not None for outcome in outcomes) or "none",
        least=min(outcome.changes for outcome in outcomes),
        changes=sum(outcome.changes for outcome in outcomes),
        batches=sum(outcome.batches for outcome in outcomes),
        hours=sum(outcome.virtual_ms for outcome in outcomes) / 3_600_000,
        faults="\n".join(f"| {name} | {often:,} | {in_:,} |" for name, often, in_ in rows),
        planted=", ".join(PLANTED),
    )
