"""Snapshots, differences and events as text for a terminal.

Everything fits one screen. What is abnormal is listed, the rest is counted; `--json` has
all of it.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.history.snapshot import PartitionSnapshot, Snapshot
from controller_model.history.snapshot_diff import Difference, SnapshotDiff
from controller_model.insight.wording import counted
from controller_model.records.events import AnyEvent
from controller_model.records.views import Capability
from kcm.cli.event_text import event_text
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import known, printable, time_text
from kcm.history.options import place_text, position_text

UNPROVEN = "not proven committed"
MAX_BROKERS = 30
"""Rows of brokers on one screen; brokers that are gone come first."""
MAX_PARTITIONS = 10
"""Abnormal partitions that are listed."""
MAX_DIFFERENCES = 200
"""Lines of differences that are printed."""
_THING_DEPTHS = {2, 4}
"""Lengths of the paths in a snapshot that lead to a topic, a broker, or a topic's partition."""
_TROUBLE = ("offline", "under_replicated", "under_min_isr", "at_min_isr", "preferred_imbalance")


def summary(snapshot: Snapshot) -> RenderableType:
    """Return a snapshot as one screen."""
    parts: list[RenderableType] = [_head(snapshot), _figures(snapshot)]
    if snapshot.brokers:
        parts.append(_brokers(snapshot))
    parts += [Text(printable(line)) for line in _abnormal(snapshot)]
    return Group(*parts)


def event_line(event: AnyEvent) -> str:
    """Return an event as one line: when, where in the log, and what happened."""
    facts: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    partitions = facts.pop("partitions", None)
    names = ""
    if isinstance(partitions, int):
        facts["partition_count"] = partitions
    elif partitions is not None:
        facts.setdefault("partition_count", len(partitions))
        shown = " ".join(f"{topic}-{number}" for topic, number in partitions[:MAX_PARTITIONS])
        names = f" ({shown}{' ...' if len(partitions) > MAX_PARTITIONS else ''})"
    at, position = time_text(event.at), position_text(event.position)
    return printable(f"{at}  {position}  {event_text(facts)}{names}")


def diff_lines(difference: SnapshotDiff) -> Iterator[str]:
    """Yield the differences, one line for each thing that differs."""
    before, after = (
        f"{position_text(side.as_of)} ({time_text(side.at)})"
        for side in (difference.before, difference.after)
    )
    yield f"cluster {printable(difference.cluster or '(unnamed)')}: from {before} to {after}"
    if not difference.differences:
        yield "nothing differs"
    groups = [
        (subject, list(group))
        for subject, group in itertools.groupby(difference.differences, key=_subject)
    ]
    for subject, group in groups[:MAX_DIFFERENCES]:
        yield printable(f"{subject}: {', '.join(map(_change, group))}")
    if len(groups) > MAX_DIFFERENCES:
        yield f"... and {len(groups) - MAX_DIFFERENCES} more; --json has them all"


def _head(snapshot: Snapshot) -> Text:
    controller = snapshot.controller
    text = Text(
        f"cluster     {printable(snapshot.cluster or '(unnamed)')}\n"
        f"as of       {place_text(snapshot.as_of, snapshot.at)}\n"
        "controller  "
    )
    if controller.elections is None:
        text.append("not known")
    else:
        is_kraft = Capability.SESSION in snapshot.absent
        kind = "node" if is_kraft and controller.id not in snapshot.brokers else "broker"
        nobody = "nobody" if controller.known else "not known"
        who = nobody if controller.id is None else f"{kind} {controller.id}"
        epoch = "unknown" if controller.epoch is None else controller.epoch
        text.append(
            f"{who}, epoch {epoch}; elections {controller.elections}, changes {controller.changes}, "
            f"to another {kind} {controller.id_changes}, missed {controller.missed_elections}"
        )
    if snapshot.unproven_from is not None:
        text.append(
            f"\nunproven    from offset {snapshot.unproven_from} on nothing proves that it was committed",
            style="bold yellow",
        )
    if snapshot.incomplete_reason is not None:
        text.append(f"\nincomplete  {printable(snapshot.incomplete_reason)}", style="bold yellow")
    return text


def _figures(snapshot: Snapshot) -> Text:
    counts: dict[str, int | None] = msgspec.structs.asdict(snapshot.counts)

    def listed(*names: str) -> str:
        return ", ".join(f"{_spaced(name)} {known(counts[name])}" for name in names)

    pending, absent = snapshot.pending, snapshot.absent
    has_work = Capability.PENDING_WRITES not in absent
    under_way = [
        listed("reassigning", *(["deleting_topics"] if has_work else [])),
        *(["preferred election"] if pending.preferred_election else []),
        *(["reassign partitions"] if pending.reassign_partitions else []),
    ]
    if Capability.REQUESTS not in absent:
        under_way.append(f"notifications {known(pending.notifications)}")
    of_log = ["unreadable"]
    if Capability.SESSION not in absent:
        of_log = ["missed_updates", "unreadable", "stale"]
    text = Text(f"size        {listed('topics', 'partitions')}\n")
    is_bad = any(counts[name] for name in ("offline", "under_replicated", "under_min_isr"))
    text.append(f"partitions  {listed(*_TROUBLE)}\n", style="bold red" if is_bad else "")
    text.append(f"under way   {', '.join(under_way)}\n")
    text.append(f"log         {listed(*of_log)}")
    return text


def _brokers(snapshot: Snapshot) -> PlainTable:
    table = PlainTable(
        "broker", "live", "epoch", "registrations", "leaders", "replicas", "preferred",
        "imbalance", left=("live",),
    )  # fmt: skip
    order = sorted(snapshot.brokers.items(), key=lambda item: (item[1].live is not False, item[0]))
    for broker, facts in order[:MAX_BROKERS]:
        table.add(
            str(broker),
            "not known" if facts.live is None else "yes" if facts.live else "NO",
            "-" if facts.epoch is None else str(facts.epoch),
            str(facts.registrations),
            str(facts.leaders),
            str(facts.replicas),
            str(facts.preferred),
            f"{facts.imbalance_ratio:.1%}",
            style="bold red" if facts.live is False else "",
        )
    table.add_more(len(order) - MAX_BROKERS)
    return table


def _abnormal(snapshot: Snapshot) -> Iterator[str]:
    """Yield the abnormal partitions, the worst first."""
    found = []
    for name, topic in snapshot.topics.items():
        if topic.deleting:
            continue
        for partition, facts in topic.partitions.items():
            problem = _problem(facts)
            if problem is not None:
                found.append((problem, f"{name}-{partition}", facts))
    found.sort(key=lambda entry: entry[0])
    for (_, what), name, facts in found[:MAX_PARTITIONS]:
        isr = "none" if facts.isr is None else _list(facts.isr)
        yield f"{what:<16} {name}: leader {facts.leader}, ISR {isr} of {_list(facts.replicas)}"
    if len(found) > MAX_PARTITIONS:
        yield f"... and {len(found) - MAX_PARTITIONS} more; --json has them all"


def _problem(facts: PartitionSnapshot) -> tuple[int, str] | None:
    if facts.state == "OfflinePartition":
        return 0, "offline"
    if facts.isr is not None and len(facts.isr) < len(set(facts.replicas) - set(facts.adding)):
        return 1, "under-replicated"
    if facts.adding or facts.removing:
        return 2, "reassigning"
    return None


def _subject(difference: Difference) -> str:
    path = difference.path
    match path:
        case ("topics", topic, "partitions", partition, *_):
            return f"{topic}-{partition}"
        case ("topics", topic, *_):
            return f"topic {topic}"
        case ("brokers", broker, *_):
            return f"broker {broker}"
    return path[0].replace("_", " ")


def _change(difference: Difference) -> str:
    path = difference.path
    is_thing = path[0] in {"topics", "brokers"} and len(path) in _THING_DEPTHS
    if is_thing and difference.before is None:
        return f"new{_facts(difference.after)}"
    if is_thing and difference.after is None:
        return f"gone{_facts(difference.before)}"
    name = f"{_spaced(path[-1])} " if len(path) > 1 else ""
    return f"{name}{_value(difference.before)} -> {_value(difference.after)}"


def _facts(thing: Any) -> str:
    if not isinstance(thing, dict):
        return ""
    if "partitions" in thing:
        count = len(thing["partitions"])
        return f" ({counted(count, 'partition')})"
    facts = (f"{_spaced(name)} {_value(value)}" for name, value in thing.items())
    return f" ({', '.join(facts)})"


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return _list(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _list(values: Iterable[object]) -> str:
    return f"[{','.join(map(str, values))}]"


def _spaced(name: str) -> str:
    return name.replace("_", " ")
