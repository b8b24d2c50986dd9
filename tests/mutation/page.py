"""Make docs/mutants.md: how many changes of each file survive, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.mutation.mutants import NOT_RUN, NOTICED, REJECTED, Mutant
from tests.mutation.reasons import Reason

HEAD = """# Mutants that survive

`python -m tests.mutation` changes the code in {total:,} small ways, one at a time. It changes the model's elections,
states, contribution, control records and replay, and the code at the edges, which talks to Kafka, ZooKeeper, Spark and
clients. Log lines are not changed. A change is detected when mypy rejects it or a unit test of the same package fails:
{share:.1f} % are. The simulation and the tests with real servers are not run for it. `pyproject.toml` names the files and
the tests.

Each surviving change has its reason in `tests/mutation/reasons.toml`, from which this page is made
(`python -m tests.mutation --write`, after a run). The run fails if a change has no reason, or a reason no change. *The
same* means that the changed code behaves like the code.
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
        "| file | mutants | rejected by mypy | detected by tests | survive |",
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
            lines += ["", f"## {file}", "", "| number | where | why |", "|---|---|---|"]
        for reason in of_file:
            alive = [each for each in mutants if each.change and reason.covers(each)]
            where = ", ".join(dict.fromkeys(f"`{each.change.split(':')[0]}`" for each in alive))
            lines.append(f"| {len(alive)} | {where} | {reason.why} |")
    return "\n".join(lines) + "\n"
