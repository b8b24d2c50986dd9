"""`kcm what-if`: what would break if brokers were lost now."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from kcm.api_client import ExporterApi, cluster_path
from kcm.asking import DEFAULT_URL, AsJson, Cluster, Exporter, console, print_json, printing
from kcm.exits import NOT_SO
from kcm.status_words import plain_table
from kcm.written import printable


def what_if(
    *,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
    lose_broker: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="This broker is lost; repeatable: all at once."),
    ] = None,
    lose_rack: Annotated[
        list[str] | None,
        typer.Option(metavar="RACK", help="All brokers of this rack are lost as well."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help=f"Exit with {NOT_SO} when something would break: for scripts."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Tell what would break if brokers were lost, or stopped, now.

    Examples: kcm what-if, kcm what-if --lose-broker 3, kcm what-if --lose-rack r1 --check && systemctl stop kafka

    Without a broker or a rack: each live broker alone. A partition that another replica can lead does not break.
    """
    api = ExporterApi(exporter)
    with printing():
        path = cluster_path(api.choose(cluster), "/what-if")
        each = None if lose_broker or lose_rack else "broker"
        told = api.get(path, lose_broker=lose_broker, lose_rack=lose_rack, each=each)
        if as_json:
            print_json(told)
        else:
            console().print(table(told) if each else words(told["losses"][0]))
    is_safe = all(loss["safe"] for loss in told["losses"])
    return NOT_SO if check and not is_safe else 0


def words(loss: dict[str, Any]) -> RenderableType:
    """Return one loss for the eye: the verdict, the reasons, what else happens."""
    many = len(loss["brokers"]) != 1
    who = f"broker{'s' if many else ''} {', '.join(map(str, loss['brokers']))}"
    if loss["racks"]:
        who = printable(f"{who} (rack {', '.join(loss['racks'])})")
    if loss["safe"]:
        head = Text(f"{who}: safe to stop, nothing would break", style="bold green")
    elif loss["safe"] is None:
        head = Text(f"{who}: nothing to stop", style="bold yellow")
    else:
        head = Text(f"{who}: NOT safe to stop", style="bold red")
    lines = [Text(printable(f"  {reason['text']}")) for reason in loss["reasons"]]
    return Group(head, *lines, *(Text(f"  {note}") for note in loss["notes"]))


def table(told: dict[str, Any]) -> RenderableType:
    """Return each broker's loss, a row each, those that are not safe first."""
    losses = sorted(told["losses"], key=lambda loss: (loss["safe"] is True, loss["brokers"]))
    shown = plain_table(
        "broker", "safe to stop", "offline", "under min ISR", "stranded", "unclean", "leaders moved"
    )
    for loss in losses:
        shown.add_row(
            ", ".join(map(str, loss["brokers"])),
            Text("yes" if loss["safe"] else "NO", style="" if loss["safe"] else "bold red"),
            *(str(loss[name]) for name in ("offline", "under_min_isr", "stranded", "unclean")),
            str(sum(move["partition_count"] for move in loss["leaders_moved"])),
        )
    return shown
