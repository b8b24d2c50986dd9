"""`kcm what-if`: what would break if brokers, or controllers of a KRaft quorum, were lost now.

"Safe" is printed only for live figures. What is not known is not safe, and --check fails: with a separate exit code
where no harm is known, and only min.insync.replicas or how far controllers are is not known.
"""

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.insight.quorum_loss import QuorumGrade
from kcm.cli.exits import EXIT_CONDITION_FALSE, NOT_KNOWN
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import known, printable
from kcm.queries.api_client import DEFAULT_URL, ExporterApi, cluster_path
from kcm.queries.options import (
    AsJson,
    Cluster,
    Exporter,
    HttpConfigFile,
    console,
    print_json,
    print_not_live_warning,
    printing,
)

LostBrokers = Annotated[
    list[int] | None,
    typer.Option(metavar="N", min=0, help="This broker is lost; repeatable: all at once."),
]
LostRacks = Annotated[
    list[str] | None,
    typer.Option(metavar="RACK", help="All brokers of this rack are lost, too."),
]
LostControllers = Annotated[
    list[int] | None,
    typer.Option(
        metavar="N",
        min=0,
        help="This controller of a KRaft quorum is lost, too; repeatable. A node that is broker and controller is lost "
        "as both.",
    ),
]
Margin = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=1000,
        help="So many voters more than a majority the quorum should have left.",
    ),
]
CheckSafe = Annotated[
    bool,
    typer.Option(
        "--check",
        help=f"For scripts: exit with {EXIT_CONDITION_FALSE} unless live figures show that nothing would break, and with "
        f"{NOT_KNOWN} if no harm is known, and min.insync.replicas or how far controllers are is not.",
    ),
]


def what_if(
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    lose_broker: LostBrokers = None,
    lose_rack: LostRacks = None,
    lose_controller: LostControllers = None,
    margin: Margin = 0,
    check: CheckSafe = False,
    as_json: AsJson = False,
) -> int:
    """Print what would break if brokers, or controllers of a KRaft quorum, were lost, or stopped, now.

    Examples: kcm what-if, kcm what-if --lose-broker 3, kcm what-if --lose-controller 3001 --check && systemctl stop kafka

    Without a name, each live broker and each controller is judged alone. A partition that another replica can lead does not break. A quorum
    goes on while a majority of its voters is left and caught up, by the leader's last answer; what was lost before makes nothing worse.
    Figures that are not live (kcm status) prove nothing: a line before the answer says so, and --check fails.
    """
    api = ExporterApi(exporter, http_config_file)
    code = EXIT_CONDITION_FALSE  # unless it was shown to be safe
    with printing():
        path = cluster_path(api.choose(cluster), "/what-if")
        each = None if lose_broker or lose_rack or lose_controller else "node"
        answer = api.get(
            path,
            lose_broker=lose_broker,
            lose_rack=lose_rack,
            lose_controller=lose_controller,
            each=each,
            margin=margin,
        )
        code = checked(answer)
        print_not_live_warning(answer, as_json=as_json)
        if as_json:
            print_json(answer)
        else:
            is_live = answer["completeness"]["status"] == "live"
            shown = (
                table(answer, live=is_live)
                if each
                else loss_text(answer["losses"][0], live=is_live)
            )
            console().print(shown, crop=False)
    return code if check else 0


def checked(answer: dict[str, Any]) -> int:
    """Return 0 if the figures are live and show that each loss in the answer, at least one, is safe.

    NOT_KNOWN: they show no harm, but some loss depends on a min.insync.replicas, or on how far controllers are, that is
    not known.
    """
    losses = answer["losses"]
    if answer["completeness"]["status"] != "live" or not losses:
        return EXIT_CONDITION_FALSE
    if all(loss["safe"] is True for loss in losses):
        return 0
    return (
        NOT_KNOWN
        if all(loss["safe"] or _is_unknown(loss) for loss in losses)
        else EXIT_CONDITION_FALSE
    )


def _is_unknown(loss: dict[str, Any]) -> bool:
    """Return whether a loss is not safe only because of what is not known about it."""
    is_of_quorum = loss["quorum"] is not None and loss["quorum"]["grade"] is None
    return loss["safe"] is None and (loss["min_isr_unknown"] > 0 or is_of_quorum)


def loss_text(loss: dict[str, Any], *, live: bool) -> RenderableType:
    """Return one loss as text: whether it is safe, the reasons, and the other effects."""
    who = " and ".join(_names(loss))
    if loss["racks"]:
        who = printable(f"{who} (rack {', '.join(loss['racks'])})")
    quorum = loss["quorum"]
    is_no_worse = quorum is not None and quorum["grade"] == QuorumGrade.NO_WORSE
    if loss["safe"] is True and not live:
        head = Text(f"{who}: not known now; it was safe to stop", style="bold yellow")
    elif loss["safe"] is True:
        what = "no worse than now" if is_no_worse else "nothing would break"
        head = Text(f"{who}: safe to stop, {what}", style="bold green")
    elif _is_unknown(loss):
        head = Text(f"{who}: not known whether it is safe to stop", style="bold yellow")
    elif loss["safe"] is None:
        head = Text(f"{who}: nothing to stop", style="bold yellow")
    else:
        head = Text(f"{who}: NOT safe to stop", style="bold red")
    reasons = [reason["text"] for reason in loss["reasons"]]
    notes = list(loss["notes"])
    if quorum is not None:
        reasons.append(quorum["text"])
        notes += quorum["notes"]
    lines = [Text(printable(f"  {each}")) for each in (*reasons, *notes)]
    return Group(head, *lines)


def table(answer: dict[str, Any], *, live: bool) -> RenderableType:
    """Return the loss of each broker and each controller, one row each, unsafe ones first."""
    losses = sorted(answer["losses"], key=lambda loss: (loss["safe"] is True, _ids(loss)))
    if not losses:
        return Text("no broker is live: nothing to stop", style="bold yellow")
    has_quorum = answer["quorum"] is not None
    quorum_column = ("quorum",) if has_quorum else ()
    shown = PlainTable(
        "node" if has_quorum else "broker",
        "safe to stop",
        *quorum_column,
        *("offline", "under min ISR", "stranded", "unclean", "leaders moved"),
    )
    for loss in losses:
        name = ", ".join(_names(loss)) if has_quorum else ", ".join(map(str, loss["brokers"]))
        shown.add(
            name,
            _safety(loss["safe"] if live or not loss["safe"] else None),
            *((_quorum(loss["quorum"]),) if has_quorum else ()),
            *(known(loss[name]) for name in ("offline", "under_min_isr", "stranded", "unclean")),
            str(sum(move["partition_count"] for move in loss["leaders_moved"])),
        )
    unknown = answer["quorum"]["unknown"] if has_quorum else None
    if unknown is None:
        return shown
    return Group(shown, Text(printable(f"how far the controllers are is not known: {unknown}")))


def _ids(loss: dict[str, Any]) -> list[int]:
    """Return the ids of all nodes that are lost."""
    controllers = loss["quorum"]["controllers"] if loss["quorum"] is not None else ()
    return sorted({*loss["brokers"], *controllers})


def _names(loss: dict[str, Any]) -> list[str]:
    """Return who is lost: brokers, controllers, and nodes that are both.

    >>> _names({"brokers": [1, 2], "quorum": {"controllers": [1, 3001]}})
    ['broker 2', 'controller 3001', 'broker and controller 1']
    """
    brokers, controllers = set(loss["brokers"]), set()
    if loss["quorum"] is not None:
        controllers = set(loss["quorum"]["controllers"])
    kinds = (
        ("broker", brokers - controllers),
        ("controller", controllers - brokers),
        ("broker and controller", brokers & controllers),
    )
    return [
        f"{kind}{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"
        for kind, ids in kinds
        if ids
    ]


def _quorum(quorum: dict[str, Any] | None) -> Text:
    """Return what a loss does to the quorum, in few words."""
    if quorum is None:
        return Text("-")
    grade, margin = quorum["grade"], quorum["margin"]
    if grade is None:
        return Text("not known", style="bold yellow")
    if grade == QuorumGrade.BREAKS:
        return Text("no majority", style="bold red")
    spare = "" if margin is None else f"{margin} to spare"
    if grade == QuorumGrade.NO_WORSE:
        return Text("no worse than now")
    return Text(spare, style="bold red" if grade == QuorumGrade.UNDER_MARGIN else "")


def _safety(safe: bool | None) -> Text:
    if safe is None:
        return Text("not known", style="bold yellow")
    return Text("yes") if safe else Text("NO", style="bold red")
