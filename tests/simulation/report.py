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

One integer, the seed, gives a Kafka cluster that changes its znodes, everything that goes wrong, and every delay. The
watcher's service with its publisher, beats and reading back, its candidacy, the model, the processor, the exporter's
reading thread, its server with the API and what the live page polls, and the run of `kcm elect` are the real ones;
sockets, Kafka's clients, threads, Spark, browsers and time are played, so a seed always plays the same. One seed of
seven has two more clusters, one in the same partition of the topics and one in another, whose logs are lost,
repeated, damaged and forged as well, and the second of which loses beginnings, stretches and ends of its partition:
nothing of that may show in another cluster. One seed of fifteen loses the beginning of its views again and again. In
one of fifteen somebody writes into the log what `kcm elect` writes there, good or hostile: nothing but an election's
origin may follow from it. In one of ten ZooKeeper throttles its clients: what they ask waits its turn, for longer
than their sessions live or not, or is refused because it has waited, perhaps by a server that lags. In one of
thirteen the pipeline's Kafka starts: until it has read its metadata it reports its topics as missing. In two of
twenty-one somebody runs `kcm elect`, which Kafka answers well or not, while leaders move and brokers go. Three
browsers look at the live page, of the cluster, of another or of all; they are prompt or slow, or take nothing, and
come and go. The exporter's server stands still now and then, or a mistake is made about one cluster. In one seed of
eight the fold's service runs the fold, with its lineages on a real folder: queries fail, hang and are refused,
Spark's JVM dies or does not answer, Kafka is away, the disk is full, and checkpoints are damaged, lost and restored.
`make simulate SEEDS=FROM+COUNT` runs seeds; a failing one is printed with the command that replays it with a trace.

After every batch: nothing has moved back, the digest is of what is held, a hole is reported, a whole resync is
believed, what counts as verified was true, divergent is no false alarm. Twice a second: what the exporter shows as
live was true within 4 s (20 s while a server that lost its peers has not noticed it), and somebody could read who the
controller is. At the watcher: a resync starts where the view is, an event comes before its value, only the leader
publishes, and under a proof. In the fold's output and at the exporter: event ids rise, an election is reported once,
no topic that lives is deleted, and it says that it lacks views if it does, and only then. At the live page: what a
browser shows with a beat is what the exporter held then, and true within 4 s where the beat says so; a browser that
takes what it is sent hears a beat each second, whatever befalls the figures of other clusters, and without beats none
takes its figures for live. Of `kcm elect`: it asks for nothing but by figures that are live and newer than its pause,
nothing after a refusal, and nothing once another controller, another registration or more offline partitions were the
truth for 4 s; what it calls elected was so, and its end accounts for all that it asked for. No part ends by what it
reads, and neither a watcher nor a query ends because a Kafka that starts does not know its topics. Of the fold's
service: a lineage begins for a reason and for nothing else, the published lineage never goes back, no query goes on
from what the log has lost or with other topics, what heals by waiting ends no part, and the first pause after a batch
is short. Once all is healed and quiet: state and figures equal ZooKeeper's, counters are those of the log without its
repetitions, elections follow the epoch, no request for a resync is open, and pages show what the exporter holds.

| | |
|---|---|
| seeds | {seeds} |
| broken | {broken} |
| changes of znodes, at least one seed's / all | {least} / {changes:,} |
| batches judged | {batches:,} |
| time played | {hours:,.0f} h |

| what went wrong | how often | in seeds |
|---|---|---|
{faults}

Planted in the code, each of these is caught (`tests/property/test_simulation.py`):
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
    return "\n".join(["   often in seeds  what went wrong", *lines])


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
