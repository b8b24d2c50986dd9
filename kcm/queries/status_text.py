"""The state of a cluster, and of all clusters, as text on one screen.

Problems come first and in red, healthy items are counted. Whether the figures can be
trusted is printed before them.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.insight.quorum import LEAST_WITH_MARGIN
from controller_model.insight.wording import counted
from controller_model.insight.worst_first import trouble
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.kafka.metadata_records import METADATA_VERSION
from controller_model.records.completeness import Status
from controller_model.records.foreign_writes import FOREIGN_WRITE_WORDS
from controller_model.records.recent import ELECTION_WINDOWS_MS
from controller_model.records.views import Capability
from kcm.cli.event_text import event_text
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import known, printable, time_text
from kcm.queries.api_client import Json
from kcm.queries.options import ago, blame, lasting

MAX_BROKERS = 30
"""Rows of brokers on one screen; unhealthy ones come first."""
MAX_PARTITIONS = 8
"""Abnormal partitions that are listed."""
MAX_EVENTS = 8
_GOOD = "bold green"
_BAD = "bold red"
_DOUBTFUL = "bold yellow"
_STATUS_STYLES = {"live": _GOOD, "behind": _BAD, "divergent": _BAD, "blind": _BAD, "kraft": _BAD}


def fleet(clusters: Sequence[Json]) -> RenderableType:
    """Return all clusters, one row each, the worst first."""
    table = PlainTable(
        "cluster", "figures", "controller", "epoch", "brokers", "partitions", "offline",
        "under-replicated", "under min ISR", "not preferred", "electable",
    )  # fmt: skip
    for cluster in sorted(clusters, key=_badness):
        counts = cluster["counts"]
        status = cluster["completeness"]["status"]
        controller = cluster["controller"]
        table.add(
            printable(cluster["name"]),
            Text(status, style=_STATUS_STYLES.get(status, _DOUBTFUL)),
            Text("nobody", _BAD) if controller["id"] == NO_CONTROLLER else known(controller["id"]),
            "-" if controller["epoch"] is None else str(controller["epoch"]),
            known(None if cluster["brokers_live"] is None else len(cluster["brokers_live"])),
            known(counts["partitions"]),
            *(Text(known(counts[name]), _BAD if counts[name] else "") for name in _TROUBLE),
            known(counts["preferred_imbalance"]),
            known(counts["preferred_electable"]),
        )
    return table


def screen(answer: Json, partitions: Sequence[Json], now_ms: int) -> RenderableType:
    """Return one cluster; `answer` is the API's, including the brokers' safety."""
    parts: list[RenderableType] = [_head(answer, now_ms), _figures(answer["counts"])]
    parts += [waiting] if (waiting := _waiting(answer, now_ms)) else []
    parts += [Text(), _brokers(answer["brokers"], now_ms)]
    if partitions:
        parts += [Text(), *map(_partition_line, partitions[:MAX_PARTITIONS])]
        if len(partitions) > MAX_PARTITIONS:
            parts.append(Text("... and more; kcm status --json lists them"))
    if answer["events"]:
        parts += [Text(), *(Text(event_line(e)) for e in reversed(answer["events"][:MAX_EVENTS]))]
    return Group(*parts)


def event_line(event: Json) -> str:
    """Return an event as one line: when, what, and the first partitions."""
    named = event.get("partitions")
    names = ""
    if isinstance(named, list) and named:
        names = ": " + ", ".join(f"{p['topic']}-{p['partition']}" for p in named[:3])
        names += ", ..." if event["partition_count"] > 3 else ""  # noqa: PLR2004  # those just named
    facts = event
    if isinstance(named, int):  # for a topic that was created, it is a count
        facts = {**event, "partition_count": named}
    return printable(f"{time_text(event['at'])}  {event_text(facts)}{names}")


def _partition_line(partition: Json) -> Text:
    """Return a partition as one line: what is wrong, its leader, its ISR."""
    isr = "none" if partition["isr"] is None else _list(partition["isr"])
    absent = "state not known" if partition["unreadable"] else "no state"
    leader = absent if partition["leader"] is None else f"leader {partition['leader']}"
    what = ", ".join(partition["conditions"])
    name = f"{partition['topic']}-{partition['partition']}"
    line = f"{name}: {what}; {leader}, ISR {isr} of {_list(partition['replicas'])}"
    return Text(printable(line), _BAD if "offline" in partition["conditions"] else "")


_TROUBLE = ("offline", "under_replicated", "under_min_isr")
_HARM = {
    "offline": "offline",
    "stranded": "could not come back",
    "unclean": "unclean",
    "under_min_isr": "under min ISR",
}
"""What the loss of a broker may do to partitions, by the field of its answer."""
_LIVE = {True: "yes", False: "NO", None: "not known"}
_NOT_FOLLOWED = {Status.BEHIND, Status.BLIND, Status.KRAFT}


def _badness(cluster: Json) -> tuple[Any, ...]:
    counts = cluster["counts"]
    return (
        trouble(
            is_followed=cluster["completeness"]["status"] not in _NOT_FOLLOWED,
            controller=cluster["controller"]["id"],
            **{name: counts[name] for name in _TROUBLE},
        ),
        cluster["completeness"]["status"] != "live",
        cluster["name"],
    )


def _head(answer: Json, now_ms: int) -> Text:
    text = Text(f"cluster     {printable(answer['name'])}: figures are ")
    completeness = answer["completeness"]
    status = completeness["status"]
    text.append(status, style=_STATUS_STYLES.get(status, _DOUBTFUL))
    if status != "live":
        text.append(blame(completeness, now_ms))
        reason = answer["log"]["incomplete_reason"] if status != "kraft" else None
        text.append(f" ({printable(reason)})" if reason else "")
    proven = completeness["verified_at"]
    text.append(", never proven" if proven is None else f", last proven {ago(proven, now_ms)} ago")
    _problems(text, answer["problems"], now_ms)
    text.append("\ncontroller  ")
    _controller(text, answer, now_ms)
    _kraft(text, answer, now_ms)
    _quorum(text, answer, now_ms)
    for kind, count in (answer["foreign_writes"] or {}).items():
        words = printable(FOREIGN_WRITE_WORDS.get(kind, kind))
        text.append(f"\nforeign     {words} ({count}; kcm events --kind Anomaly)", style=_BAD)
    text.append(f"\nelections   {_elections(answer, now_ms)}")
    _incident(text, answer["incidents"], now_ms)
    return text


def _problems(text: Text, problems: Sequence[Json], now_ms: int) -> None:
    """Add what is wrong, critical problems first, each with the alert on it: its runbook says what to do."""
    for problem in problems:
        severity, since = problem["severity"], problem["since"]
        line = f"{severity:<12}{problem['text']}{lasting(since, now_ms)}"
        pending = ", pending" if problem["state"] == "pending" else ""
        line += f" ({problem['alert']}{pending})" if problem["alert"] else ""
        style = _BAD if severity == "critical" else _DOUBTFUL
        text.append("\n").append(printable(line), style=style)


def _kraft(text: Text, answer: Json, now_ms: int) -> None:
    """Add since when a KRaft controller runs the cluster, and up to where ZooKeeper is a copy."""
    log, migration = answer["log"], answer["migration"]
    if log["kraft_since"] is None:
        return
    text.append(
        f"\nkraft       a KRaft controller runs the cluster{lasting(log['kraft_since'], now_ms)}"
    )
    copy = "ZooKeeper is a copy"
    if migration is not None:
        copy += (
            f" up to offset {migration['metadata_offset']} of epoch {migration['metadata_epoch']}"
        )
        copy += f", written {ago(migration['written_at'], now_ms)} ago"
    text.append(f"; {copy}", style="" if log["left_since"] is None else _BAD)


def _quorum(text: Text, answer: Json, now_ms: int) -> None:
    """Add who votes in a KRaft cluster's quorum, how many candidates were not elected, and commits that stand still."""
    quorum = answer["quorum"]
    if quorum is None:
        return
    voters = _list(quorum["voters"]) if quorum["voters"] else "not known"
    text.append(f"\nquorum      voters {voters}")
    if (spare := quorum["spare_voters"]) is not None:
        is_bad = not spare and len(quorum["voters"]) >= LEAST_WITH_MARGIN
        text.append(f", {spare or 'none'} may be lost", style=_BAD if is_bad else "")
    text.append(f", candidacies {quorum['candidacies']}")
    if (level := quorum["features"].get(METADATA_VERSION)) is not None:
        text.append(f", {METADATA_VERSION} {level}")
    if quorum["high_watermark"] is not None:
        text.append(f", committed up to {quorum['high_watermark']}")
        if quorum["commits_stopped"]:
            still = f", and no further{lasting(quorum['high_watermark_since'], now_ms)}"
            text.append(still, style=_BAD)
    if quorum["unreachable_since"] is not None:
        silent = lasting(quorum["unreachable_since"], now_ms)
        text.append(f"; no controller has answered{silent}", style=_BAD)
    if quorum["leader_silent_since"] is not None:
        silent = lasting(quorum["leader_silent_since"], now_ms)
        text.append(f"; controller {quorum['leader']} has not answered{silent}", style=_BAD)
    safe = answer["controllers_safe_to_stop"]
    if unsafe := [int(each) for each, is_safe in safe.items() if not is_safe]:
        text.append(f"\ncontrollers not safe to stop: {_list(unsafe)}", style=_DOUBTFUL)


def _incident(text: Text, incidents: Json | None, now_ms: int) -> None:
    """Add the open incident, or how long ago the last one was closed; without either, nothing."""
    if incidents is None:
        text.append("\nincident    not known")
    elif incidents["open"] is not None:
        since = ago(incidents["open_since"], now_ms)
        text.append(f"\nincident    number {incidents['open']}, open for {since}", style=_BAD)
        text.append(f", since {incidents['opened_by']}")
    elif incidents["last_closed_at"] is not None:
        closed = ago(incidents["last_closed_at"], now_ms)
        text.append(
            f"\nincident    none; {incidents['total']} before, the last closed {closed} ago"
        )


def _controller(text: Text, answer: Json, now_ms: int) -> None:
    controller = answer["controller"]
    if controller is None:
        text.append("not known", style=_DOUBTFUL)
        return
    if controller["id"] < 0:
        text.append(f"NOBODY{lasting(controller['vacant_since'], now_ms)}", style=_BAD)
    else:
        is_broker = any(broker["id"] == controller["id"] for broker in answer["brokers"])
        kind = "node" if answer["quorum"] is not None and not is_broker else "broker"
        text.append(f"{kind} {controller['id']}", style="bold")
        text.append(lasting(controller["elected_at"], now_ms))
    epoch = "not known" if controller["epoch"] is None else controller["epoch"]
    text.append(f", epoch {epoch}")
    if Capability.PENDING_WRITES in answer["log"]["absent"]:
        return
    health = answer["pending_writes"]["health"]
    text.append("; its work: ")
    style = {"zombie": _BAD, "slow": _DOUBTFUL}.get(health, "")
    text.append(health.replace("_", " "), style=style)
    text.append(f"; failover work: {controller['failover'].replace('_', ' ')}")
    if controller["failover_last_ms"] is not None:
        text.append(f", the last took {controller['failover_last_ms'] / 1000:.1f} s")


def _elections(answer: Json, now_ms: int) -> str:
    """Return how often the controller was elected within each window; none is counted from before counting began."""
    windows = [f"{count} in {window}" for window, count in answer["elections_within"].items()]
    if not windows:
        return "not known"
    since = answer["counters_since"]
    is_young = now_ms - since < max(ELECTION_WINDOWS_MS.values())
    return f"{', '.join(windows)}{f'; counted for {ago(since, now_ms)}' if is_young else ''}"


def _figures(counts: Json) -> Text:
    text = Text(f"partitions  {known(counts['partitions'])} in {known(counts['topics'])} topics: ")
    for name in _TROUBLE:
        count = known(counts[name])
        text.append(f"{count} {name.replace('_', ' ')}", _BAD if counts[name] else "")
        text.append(", ")
    text.append(f"{known(counts['at_min_isr'])} at min isr, ")
    text.append(f"{known(counts['reassigning'])} reassigning\n")
    electable = counts["preferred_electable"]
    imbalance = known(counts["preferred_imbalance"])
    text.append(f"balance     {imbalance} not led by the preferred replica, ")
    text.append(f"{known(electable)} of them electable", _DOUBTFUL if electable else "")
    text.append(" (kcm recommend)" if electable else "")
    return text


def _waiting(answer: Json, now_ms: int) -> Text | None:
    """Return what waits for the controller, each with its number and age: None if nothing does."""
    counts, writes, pending = answer["counts"], answer["pending_writes"], answer["pending"]
    found: list[tuple[str, str]] = []
    if writes["counts"]:
        kinds = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in writes["counts"].items())
        times = [at for at in (writes["oldest_at"], writes["pending_since"]) if at is not None]
        age = lasting(min(times), now_ms) if times else ""
        is_late = writes["health"] in {"zombie", "slow"}
        number = sum(writes["counts"].values())
        what = "pending write" if number == 1 else "pending writes"
        due = "overdue" if is_late else "due"
        found.append((f"{number} {what} ({kinds}), {due}{age}", _BAD if is_late else ""))
    if counts["without_state"]:
        found.append((f"{counted(counts['without_state'], 'partition')} without state", _DOUBTFUL))
    if counts["deleting_topics"]:
        age = lasting(pending["oldest_deletion_at"], now_ms)
        found.append((f"{counted(counts['deleting_topics'], 'topic')} to be deleted{age}", ""))
    for request, words in (
        ("reassign_partitions", "a request of reassignments"),
        ("preferred_election", "a request of preferred elections"),
    ):
        if pending[request]:
            found.append((f"{words}{lasting(pending[f'{request}_at'], now_ms)}", ""))
    work, requests = Capability.PENDING_WRITES, Capability.REQUESTS
    unknown = (
        ("pending writes", writes["counts"], work),
        ("partitions without state", counts["without_state"], work),
        ("deletions", counts["deleting_topics"], work),
        ("requests", pending["reassign_partitions"], requests),
    )
    absent = answer["log"]["absent"]
    missing = [what for what, value, of in unknown if value is None and of not in absent]
    if missing:
        found.append((f"not known: {', '.join(missing)}", _DOUBTFUL))
    if not found:
        return None
    text = Text("waiting     ")
    for number, (words, style) in enumerate(found):
        text.append("; " if number else "").append(words, style)
    return text


def _brokers(brokers: Sequence[Json], now_ms: int) -> PlainTable:
    table = PlainTable(
        "broker", "live", "since", "rack", "leaders", "replicas", "not led", "imbalance",
        "safe to stop", cut=("broker",),
    )  # fmt: skip
    order = sorted(
        brokers,
        key=lambda b: (b["live"] is not False, b["safe_to_stop"]["safe"] is True, b["id"]),
    )
    for broker in order[:MAX_BROKERS]:
        table.add(
            f"{broker['id']} {printable(broker['host'] or '')}",
            "fenced" if broker["fenced"] else _LIVE[broker["live"]],
            ago(broker["since"], now_ms),
            printable(broker["rack"] or "-"),
            known(broker["leaders"]),
            known(broker["replicas"]),
            known(broker["preferred_not_led"]),
            "not known" if (ratio := broker["imbalance_ratio"]) is None else f"{ratio:.0%}",
            _safety(broker),
            style=_BAD if broker["live"] is False else "",
        )
    table.add_more(len(order) - MAX_BROKERS)
    return table


def _safety(broker: Json) -> Text:
    safety = broker["safe_to_stop"]
    if safety["safe"] is None:
        return Text("-") if broker["live"] is False else Text("not known", style=_DOUBTFUL)
    if safety["safe"]:
        return Text("yes")
    reasons = [f"{safety[name]} {words}" for name, words in _HARM.items() if safety[name]]
    if safety["why"]:
        reasons.append("the quorum would have no majority")
    # Some are certain where it is not known how many.
    return Text(f"NO: {', '.join(reasons) or 'partitions would break'}", style=_DOUBTFUL)


def _list(brokers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, brokers))}]"
