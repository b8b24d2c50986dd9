"""Make docs/mutants.md: how many changes of each file survive, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.mutation.mutants import NOT_RUN, NOTICED, REJECTED, Mutant
from tests.mutation.reasons import Reason

HEAD = """# Mutants that live

`python -m tests.mutation` changes the code in {total:,} small ways, one at a time: of the model its elections,
states, contribution, control records and replay, and the edges, what talks to Kafka, ZooKeeper and
Spark or to those who watch. Log lines are left as they are. A change is noticed when mypy rejects it
or when unit tests of the same package fail: {share:.1f} % are. The simulation (`python -m tests.simulation`) and
the tests with real servers are not run. `pyproject.toml` names the files and the tests.

Each other change has its reason in `tests/mutation/reasons.toml`, of which this page is made
(`python -m tests.mutation --compare --write`). The command fails where one has none, and where a
reason has lost its change. *The same* means that nobody can tell the change from the code.
"""


def mutants_page(mutants: Sequence[Mutant], reasons: Sequence[Reason]) -> str:
    """Return the page; what was not run is left out of its counts."""
    not_run = Counter(each.file for each in mutants if each.status == NOT_RUN)
    mutants = [each for each in mutants if each.status != NOT_RUN]
    made = Counter(each.file for each in mutants)
    rejected = Counter(each.file for each in mutants if each.status == REJECTED)
    noticed = Counter(each.file for each in mutants if each.status in NOTICED)
    lines = [
        HEAD.format(total=made.total(), share=100 * noticed.total() / made.total()),
        "| file | mutants | rejected by mypy | noticed by tests | live |",
        "|---|---|---|---|---|",
    ]
    for file, total in made.items():
        by_tests = noticed[file] - rejected[file]
        lines.append(
            f"| `{file}` | {total} | {rejected[file]} | {by_tests} | {total - noticed[file]} |"
        )
    if not_run:
        listed = ", ".join(f"{number} of `{file}`" for file, number in not_run.items())
        lines += ["", f"Not run when this page was made: {listed}."]
    for file in made:
        of_file = [each for each in reasons if each.file == file]
        if of_file:
            lines += ["", f"## {file}", "", "| live | where | why |", "|---|---|---|"]
        for reason in of_file:
            alive = [each for each in mutants if each.change and reason.covers(each)]
            where = ", ".join(dict.fromkeys(f"`{each.change.split(':')[0]}`" for each in alive))
            lines.append(f"| {len(alive)} | {where} | {reason.why} |")
    return "\n".join(lines) + "\n"
