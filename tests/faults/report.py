"""Report the outcomes of a run: lines for a terminal, and the page in docs/.

The rule: each section of the page is written by the run that measured it, between markers, so that
the faults and the long run can be measured separately.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.faults.history import ANSWERS
from tests.faults.judge import STALE_S
from tests.faults.runner import Outcome
from tests.faults.soak import PARTS_MEASURED, Stretch
from tests.support.releases import KAFKA_4_4

_PAGE = """\
# Reliability

The sections *Faults* and *A long run* are written by `python -m tests.faults`: do not edit them. What was found is listed [below](#defects-found).

Real servers: three ZooKeeper members, three Kafka 3.9 brokers, the pipeline with its own Kafka, all supervised as by `kcm up`. Partitions change four times a second. Four times a second
everything that the exporter shows is compared with what ZooKeeper holds, and since when.

<!-- faults: begin -->
<!-- faults: end -->

<!-- soak: begin -->
<!-- soak: end -->
"""

_FAULTS = """
## Faults

`python -m tests.faults --report docs/reliability.md`. After each fault of a part, every leader, every ISR and every count must equal ZooKeeper's.

*Follows after*: from the fault until all figures are live and current again and stay so; this includes the duration of the fault. *Not live*: how long the exporter
reported that its figures do not follow ZooKeeper, or did not answer. *Oldest under live*: the age of the oldest outdated figure that was shown as `live`. Beyond {limit:g} s it is stale; the next column says for how long.
SIGSTOP is a pause of 10 to 60 s. Watcher, driver and exporter continue before `kcm up` restarts them as hanging (45 s without an answer); Spark's JVM is killed by the fold's own watchdog.
SIGSTOP until restarted is one that nobody ends: `kcm up` kills its Kafka for it. Of two watchers, which an election chooses, the leader is cut off from one side for 60 s: the other must lead by then.
A clock is stepped by an hour while its part runs (libfaketime; the monotonic clock goes on), is wrong for 30 s and then right again; ZooKeeper's is that of all three members, the driver's also that of its JVM and worker.
Meanwhile the status must be `live` or `clocks_disagree`, under which all but times is right, so that stale figures count there as well. Afterwards no clock may be more than 1 s off, and an election must be shown with its own time.
A main loop that hangs does so inside a process that lives and answers on its port, until `kcm up` restarts it. A log that nobody reads is a full pipe, into which the main loop logs 10,000 lines; then the part gets SIGTERM.
Driver and JVM share the proxy to the pipeline's Kafka: a half-open connection of the JVM is one of the driver, too. The Python worker has only a Unix socket to the JVM. Only parts with files have a lost disk:
the checkpoint belongs to the driver, its JVM and its worker; watcher and exporter have none.
*History*: the znodes' versions that ZooKeeper's own transaction logs hold of the time since the cell before, each compared with the log `kcm.changes`: true, in order, none twice, none lost (`tests/faults/history.py` says
what exactly). *Merged* are those that were replaced before the watcher could read them, or while none was connected: a watch promises no more. A version counts as lost if {answers} answers of ZooKeeper that knew it are in the log before its replacement.
The cells from *active controller* on are of a KRaft cluster: three controllers of Kafka {kraft}, brokers that are imitated by protocol and change ISRs four times a second, and the same pipeline. True is what a majority of the
controllers has in its own log files; each published record is compared with them by its offset: content, epoch, time, order, none lost. *Hears nobody* is a controller that nothing reaches, and that reaches the others. *Cut off from the controllers* is a watcher that no
controller answers, while they reach each other: one of two lets the other lead, and one alone is told as `blind`.
Times are of a machine with {cpus} processors; *load* is its load average, other work included.

| part | fault | follows after | not live | oldest under live | stale under live | history | load | |
|---|---|---:|---:|---:|---:|---:|---:|---|
{rows}

{summary}
"""

_SOAK = """
## A long run

`python -m tests.faults --soak MINUTES --report docs/reliability.md`, here {minutes:.0f} minutes, seed {seed}: topics are created, deleted and reassigned, controllers deposed, and each part is killed or stopped at random.
Memory and open files are the maximum of each part in those minutes. The delay is from ZooKeeper's write until the value is shown, restarts included.

| from minute | happened | kills | changes | delay p50 | p99 | not live | oldest under live | stale under live | wrong | {parts} |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|{lines}|
{rows}
"""


def line(found: Outcome) -> str:
    """Return an outcome in one line."""
    return (
        f"{'ok    ' if found.ok else 'FAILED'} {found.part}: {found.fault}: "
        f"follows after {_seconds(found.follows_after_s)}, not live {_seconds(found.not_live_s)}, "
        f"oldest under live {_seconds(found.oldest_s)} {found.oldest}, "
        f"stale {_seconds(found.stale_s)}, {found.changes} changes, history {_history(found)} "
        f"{found.wrong} {found.problem} {found.history_problem}"
    ).rstrip()


def write_faults(page: Path, outcomes: Sequence[Outcome], *, of: Sequence[str]) -> None:
    """Write the section about faults; `of` are the names of all cells. Rows of cells that were not played now stay."""
    rows = {_name_of(row): row for row in _section(page, "faults").splitlines() if _name_of(row)}
    rows |= {found.name: _row(_cells_of(found)) for found in outcomes}
    rows = {name: rows[name] for name in of if name in rows}
    not_played = [name for name in of if name not in rows]
    failed = sum("**" in row for row in rows.values())
    text = _FAULTS.format(
        limit=STALE_S,
        answers=ANSWERS,
        rows="\n".join(rows.values()),
        cpus=os.cpu_count(),
        kraft=KAFKA_4_4.version,
        summary=f"{len(rows) - failed} of {len(rows)} cells passed."
        + (f" Not run: {'; '.join(not_played)}." if not_played else ""),
    )
    _write(page, "faults", text)


def _name_of(row: str) -> str:
    """Return the name of the cell that a row of the table is about; empty for another line.

    >>> _name_of("| exporter | kill -9 | 8.7 s |"), _name_of("|---|---|"), _name_of("| part | fault |")
    ('exporter: kill -9', '', '')
    """
    cells = row.split(" | ")
    is_row = row.startswith("| ") and len(cells) > 1 and not row.startswith("| part |")
    return f"{cells[0].removeprefix('| ')}: {cells[1]}" if is_row else ""


def write_soak(page: Path, stretches: Sequence[Stretch], seed: int) -> None:
    """Write the section about the long run."""
    text = _SOAK.format(
        minutes=sum(stretch.minutes for stretch in stretches),
        seed=seed,
        parts=" | ".join(f"{part}: MiB, files" for part in PARTS_MEASURED),
        lines="---:|" * (len(PARTS_MEASURED) - 1) + "---:",
        rows="\n".join(stretch_rows(stretches)),
    )
    _write(page, "soak", text)


def stretch_rows(stretches: Sequence[Stretch]) -> list[str]:
    """Return a row of the table for each stretch."""
    rows = []
    began = 0.0
    for each in stretches:
        cells = (
            f"{began:.0f}",
            str(each.happened),
            str(each.kills),
            f"{each.changes:,}",
            f"{each.delay_p50_s:.2f} s",
            f"{each.delay_p99_s:.1f} s",
            _seconds(each.not_live_s),
            _seconds(each.oldest_live_s),
            _seconds(each.stale_s) if each.stale_s else "none",
            str(each.wrong or "none"),
            *(
                f"{each.costs[part].memory_mib:.0f}, {each.costs[part].open_files}"
                for part in PARTS_MEASURED
            ),
        )
        rows.append(_row(cells))
        began += each.minutes
    return rows


def _section(page: Path, section: str) -> str:
    """Return the text of a section."""
    whole = page.read_text(encoding="utf-8") if page.exists() else _PAGE
    return whole.partition(f"<!-- {section}: begin -->")[2].partition(f"<!-- {section}: end -->")[0]


def _write(page: Path, section: str, text: str) -> None:
    """Write a section, and keep the sections that other runs measured."""
    whole = page.read_text(encoding="utf-8") if page.exists() else _PAGE
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, _, rest = whole.partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def _cells_of(found: Outcome) -> Sequence[str]:
    remark = f"**wrong**: {found.wrong}" if found.wrong else ""
    if found.history_problem:
        remark = f"**history**: {found.history_problem}"
    if found.problem:
        remark = f"**did not come back**: {found.problem[:120]}"
    return (
        found.part,
        found.fault,
        _seconds(found.follows_after_s),
        _seconds(found.not_live_s),
        _seconds(found.oldest_s),
        _seconds(found.stale_s) if found.stale_s else "none",
        _history(found),
        f"{found.load:.0f}",
        remark,
    )


def _history(found: Outcome) -> str:
    if found.history is None:
        return "not compared"
    repeated = f", {found.history.repeated} repeated" if found.history.repeated else ""
    return f"{found.history.versions:,}, {found.history.merged} merged{repeated}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
