"""`kcm what-if`: what would break if brokers were lost now.

"Safe" is printed only for live figures. What is not known is not safe, and --check fails:
with a separate exit code where only min.insync.replicas is not known.
"""

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

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
CheckSafe = Annotated[
    bool,
    typer.Option(
        "--check",
        help=f"For scripts: exit with {EXIT_CONDITION_FALSE} unless live figures show that nothing would break, and with "
        f"{NOT_KNOWN} if only min.insync.replicas is not known.",
    ),
]


def what_if(
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    lose_broker: LostBrokers = None,
    lose_rack: LostRacks = None,
    check: CheckSafe = False,
    as_json: AsJson = False,
) -> int:
    """Print what would break if brokers were lost, or stopped, now.

    Examples: kcm what-if, kcm what-if --lose-broker 3, kcm what-if --lose-rack r1 --check && systemctl stop kafka

    Without a broker or a rack, each live broker is judged alone. A partition that another replica can lead does not break.
    Figures that are not live (kcm status) prove nothing: a line before the answer says so, and --check fails.
    """
    api = ExporterApi(exporter, http_config_file)
    code = EXIT_CONDITION_FALSE  # unless it was shown to be safe
    with printing():
        path = cluster_path(api.choose(cluster), "/what-if")
        each = None if lose_broker or lose_rack else "broker"
        answer = api.get(path, lose_broker=lose_broker, lose_rack=lose_rack, each=each)
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

    NOT_KNOWN: they show no harm, but some loss depends on a min.insync.replicas that is not known.
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
    return loss["safe"] is None and loss["min_isr_unknown"] > 0


def loss_text(loss: dict[str, Any], *, live: bool) -> RenderableType:
    """Return one loss as text: whether it is safe, the reasons, and the other effects."""
    many = len(loss["brokers"]) != 1
    who = f"broker{'s' if many else ''} {', '.join(map(str, loss['brokers']))}"
    if loss["racks"]:
        who = printable(f"{who} (rack {', '.join(loss['racks'])})")
    if loss["safe"] is True and not live:
        head = Text(f"{who}: not known now; it was safe to stop", style="bold yellow")
    elif loss["safe"] is True:
        head = Text(f"{who}: safe to stop, nothing would break", style="bold green")
    elif _is_unknown(loss):
        head = Text(f"{who}: not known whether it is safe to stop", style="bold yellow")
    elif loss["safe"] is None:
        head = Text(f"{who}: nothing to stop", style="bold yellow")
    else:
        head = Text(f"{who}: NOT safe to stop", style="bold red")
    lines = [Text(printable(f"  {reason['text']}")) for reason in loss["reasons"]]
    return Group(head, *lines, *(Text(f"  {note}") for note in loss["notes"]))


def table(answer: dict[str, Any], *, live: bool) -> RenderableType:
    """Return the loss of each broker, one row each, unsafe ones first."""
    losses = sorted(answer["losses"], key=lambda loss: (loss["safe"] is True, loss["brokers"]))
    if not losses:
        return Text("no broker is live: nothing to stop", style="bold yellow")
    shown = PlainTable(
        "broker", "safe to stop", "offline", "under min ISR", "stranded", "unclean", "leaders moved"
    )
    for loss in losses:
        shown.add(
            ", ".join(map(str, loss["brokers"])),
            _safety(loss["safe"] if live or not loss["safe"] else None),
            *(known(loss[name]) for name in ("offline", "under_min_isr", "stranded", "unclean")),
            str(sum(move["partition_count"] for move in loss["leaders_moved"])),
        )
    return shown


def _safety(safe: bool | None) -> Text:
    if safe is None:
        return Text("not known", style="bold yellow")
    return Text("yes") if safe else Text("NO", style="bold red")
