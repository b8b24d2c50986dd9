"""`kcm what-if`: what would break if brokers were lost now.

The rule: "safe" is said only of live figures. What is not known is not safe, and --check says no.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from kcm.cli.exits import NOT_SO
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import printable
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.queries.options import (
    DEFAULT_URL,
    AsJson,
    Cluster,
    Exporter,
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
    typer.Option(metavar="RACK", help="All brokers of this rack are lost as well."),
]
CheckSafe = Annotated[
    bool,
    typer.Option(
        "--check",
        help=f"Exit with {NOT_SO} unless nothing would break, by live figures: for scripts.",
    ),
]


def what_if(
    *,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
    lose_broker: LostBrokers = None,
    lose_rack: LostRacks = None,
    check: CheckSafe = False,
    as_json: AsJson = False,
) -> int:
    """Print what would break if brokers were lost, or stopped, now.

    Examples: kcm what-if, kcm what-if --lose-broker 3, kcm what-if --lose-rack r1 --check && systemctl stop kafka

    Without a broker or a rack: each live broker alone. A partition that another replica can lead does not break. Figures that
    are not live (kcm status) prove nothing: that is printed first, and --check says no.
    """
    api = ExporterApi(exporter)
    is_safe = False  # unless it was seen to be
    with printing():
        path = cluster_path(api.choose(cluster), "/what-if")
        each = None if lose_broker or lose_rack else "broker"
        answer = api.get(path, lose_broker=lose_broker, lose_rack=lose_rack, each=each)
        is_safe = proves_safe(answer)
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
    return NOT_SO if check and not is_safe else 0


def proves_safe(answer: dict[str, Any]) -> bool:
    """Return whether live figures show of some loss, and of each in the answer, that it is safe."""
    verdicts = [loss["safe"] for loss in answer["losses"]]
    is_live = answer["completeness"]["status"] == "live"
    return is_live and bool(verdicts) and all(verdict is True for verdict in verdicts)


def loss_text(loss: dict[str, Any], *, live: bool) -> RenderableType:
    """Return one loss as text: whether it is safe, the reasons, what else happens."""
    many = len(loss["brokers"]) != 1
    who = f"broker{'s' if many else ''} {', '.join(map(str, loss['brokers']))}"
    if loss["racks"]:
        who = printable(f"{who} (rack {', '.join(loss['racks'])})")
    if loss["safe"] is True and not live:
        head = Text(f"{who}: not known now; it was safe to stop", style="bold yellow")
    elif loss["safe"] is True:
        head = Text(f"{who}: safe to stop, nothing would break", style="bold green")
    elif loss["safe"] is None:
        head = Text(f"{who}: nothing to stop", style="bold yellow")
    else:
        head = Text(f"{who}: NOT safe to stop", style="bold red")
    lines = [Text(printable(f"  {reason['text']}")) for reason in loss["reasons"]]
    return Group(head, *lines, *(Text(f"  {note}") for note in loss["notes"]))


def table(answer: dict[str, Any], *, live: bool) -> RenderableType:
    """Return each broker's loss, a row each, those that are not safe first."""
    losses = sorted(answer["losses"], key=lambda loss: (loss["safe"] is True, loss["brokers"]))
    if not losses:
        return Text("no broker is live: nothing to stop", style="bold yellow")
    shown = PlainTable(
        "broker", "safe to stop", "offline", "under min ISR", "stranded", "unclean", "leaders moved"
    )
    for loss in losses:
        shown.add(
            ", ".join(map(str, loss["brokers"])),
            _verdict(loss["safe"] if live or not loss["safe"] else None),
            *(str(loss[name]) for name in ("offline", "under_min_isr", "stranded", "unclean")),
            str(sum(move["partition_count"] for move in loss["leaders_moved"])),
        )
    return shown


def _verdict(safe: bool | None) -> Text:
    if safe is None:
        return Text("not known", style="bold yellow")
    return Text("yes") if safe else Text("NO", style="bold red")
