"""A rehearsal as text: steps, partitions, outages, requests, races, and what is not known.

The steps come first, one row each. A list is cut where the answer was cut, with the
number of the items left out.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.insight.wording import counted, duration
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import printable
from kcm.queries.api_client import Json


def report_text(answer: Json) -> RenderableType:
    """Return a rehearsal as text."""
    steps: list[Json] = answer["steps"]
    blocks: list[RenderableType] = [_steps(steps), *_refusals(steps), *_failovers(steps)]
    blocks += _titled("Partitions", _partitions(steps))
    blocks += _titled(
        "Offline, or under min.insync.replicas, by steps", _outages(answer["outages"])
    )
    blocks += _titled("Requests of the controller", _requests(steps))
    return Group(*blocks, *(Text(f"\n{printable(note)}") for note in _notes(answer)))


def _titled(title: str, table: PlainTable) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), table] if table.row_count else []


def _steps(steps: list[Json]) -> PlainTable:
    shown = PlainTable(
        "step", "operation", "controller", "elections", "offline", "under min ISR", "unclean",
        "leaders moved", "ZooKeeper writes", left=("operation", "controller", "elections"),
    )  # fmt: skip
    for step in steps:
        shown.add(
            str(step["number"]),
            printable(step["operation"]),
            _controller(step),
            ", ".join(f"{kind} {count}" for kind, count in step["elections"].items()) or "-",
            str(step["went_offline"]["count"]),
            _with_unknown(step["went_under_min_isr"], step["min_isr_unknown"]),
            _with_unknown(step["unclean"], step["unclean_unknown"]),
            str(sum(move["partition_count"] for move in step["leaders_moved"])),
            str(step["zookeeper_writes"]),
            style="bold red" if step["went_offline"]["count"] or step["unclean"]["count"] else "",
        )
    return shown


def _with_unknown(sure: Json, unknown: Json) -> str:
    count, doubtful = sure["count"], unknown["count"]
    return f"{count} ({doubtful} not known)" if doubtful else str(count)


def _controller(step: Json) -> str:
    before, now = _broker(step["controller_before"]), _broker(step["controller"])
    candidates = step["controller_candidates"]
    if not candidates:
        return _moved(before, now)
    race = f" (race of {', '.join(map(str, candidates))})" if len(candidates) > 1 else ""
    return f"{before} -> {now}{race}"


def _refusals(steps: list[Json]) -> Iterator[Text]:
    for step in steps:
        if step["refused"]:
            text = f"step {step['number']}: refused, or a part of it: {step['refused']}"
            yield Text(printable(text), style="bold yellow")


def _failovers(steps: list[Json]) -> Iterator[Text]:
    for step in steps:
        work = step["failover"]
        if work is None:
            continue
        least, most = work["at_least_ms"], work["at_most_ms"]
        time = (
            "how long is not known: no failover with leaders to write was seen"
            if least is None or most is None
            else f"{duration(least)} to {duration(most)}, by this cluster's last failover"
        )
        yield Text(
            f"step {step['number']}: the failover has {counted(work['partitions'], 'partition')} "
            f"without a leader and {counted(work['zookeeper_writes'], 'write')}; {time}"
        )


def _partitions(steps: list[Json]) -> PlainTable:
    columns = ("step", "partition", "leader", "ISR", "replicas")
    shown = PlainTable(*columns, left=columns)
    for step in steps:
        changes = step["changes"]
        for change in changes["partitions"]:
            name = printable(f"{change['topic']}-{change['partition']}")
            if change["deleted"]:
                shown.add(str(step["number"]), name, "deleted", "-", "-")
                continue
            shown.add(
                str(step["number"]),
                name,
                _moved(_broker(change["leader_before"]), _broker(change["leader"])),
                _moved(_ids(change["isr_before"]), _ids(change["isr"])),
                _moved(_ids(change["replicas_before"]), _ids(change["replicas"])),
            )
        more = changes["count"] - len(changes["partitions"])
        if more:
            shown.add(str(step["number"]), f"... {more} more", "", "", "")
    return shown


def _broker(broker: int | None) -> str:
    return "none" if broker is None or broker < 0 else str(broker)


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _moved(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _outages(outages: Json) -> PlainTable:
    shown = PlainTable("partition", "is", "from step", "until step", left=("is",))
    for each in outages["outages"]:
        shown.add(
            printable(f"{each['topic']}-{each['partition']}"),
            "offline" if each["kind"] == "offline" else "under min ISR",
            str(each["from_step"]) if each["from_step"] else "before",
            "the end" if each["until_step"] is None else str(each["until_step"]),
        )
    shown.add_more(outages["count"] - len(outages["outages"]))
    return shown


def _requests(steps: list[Json]) -> PlainTable:
    shown = PlainTable("step", "broker", "LeaderAndIsr", "UpdateMetadata", "StopReplica")
    for step in steps:
        for sent in step["requests"]:
            after_isr = sent["update_metadata_after_isr_changes"]
            most = sent["update_metadata"] + after_isr
            shown.add(
                str(step["number"]),
                str(sent["broker"]),
                _of(sent["leader_and_isr"], sent["leader_and_isr_partitions"]),
                f"{sent['update_metadata'] + 1} to {most}" if after_isr > 1 else str(most),
                _of(sent["stop_replica"], sent["stop_replica_partitions"]),
            )
    return shown


def _of(requests: int, partitions: int) -> str:
    return f"{requests} of {counted(partitions, 'partition')}" if requests else "0"


def _notes(answer: Json) -> Iterator[str]:
    """Yield the pending writes before the first step, the races, and what is not known."""
    pending = counted(answer["pending_writes"], "partition")
    if answer["is_zombie"]:
        yield f"before: writes are pending for {pending}, and the controller is a zombie: it makes none, the next one does"
    elif answer["pending_writes"]:
        yield f"before: writes are pending for {pending}; the rehearsal begins after them"
    for step in answer["steps"]:
        for race in step["races"]:
            yield f"race in step {step['number']}: {race['text']}"
    for unknown in answer["unknown"]:
        yield f"not known: {unknown['what']}: {unknown['text']}"
