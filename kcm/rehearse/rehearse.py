"""`kcm rehearse`: what the controller would do, step by step.

Nothing is done to the cluster. The exporter rehearses on the current state. On a recorded
log this command rehearses itself, at any place of the log and without a limit on size.
"""

import urllib.parse
from pathlib import Path
from typing import Annotated

import typer

from controller_model.history.log_replay import END
from kcm.cli.options import Options, with_options
from kcm.history.log_source import FromTopic, LogFiles, open_log
from kcm.history.options import NAMES, ReplaySettings, load_replay, read_point
from kcm.queries.api_client import DEFAULT_URL, ExporterApi, Json, cluster_path
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
from kcm.rehearse.order import InOrder, steps_in_order
from kcm.rehearse.text import report_text
from pipeline.runtime import UsageError
from rehearsal.steps import StepKind

ANSWER_TIMEOUT_S = 300.0
"""A rolling restart of a large cluster takes minutes."""
LONGEST_QUERY = 28_000
"""Characters of a request's steps, encoded: the request's head may have 32 kB."""

COMMAND_CLASS = InOrder
"""The command class of this verb: the order of its options matters."""

_BROKER = {"metavar": "N", "min": 0}
StopBrokers = Annotated[
    list[int] | None, typer.Option(help="This broker is stopped: a controlled shutdown.", **_BROKER)
]
KillBrokers = Annotated[
    list[int] | None, typer.Option(help="This broker dies at once (kill -9).", **_BROKER)
]
StartBrokers = Annotated[
    list[int] | None, typer.Option(help="This broker is started again.", **_BROKER)
]
Rolling = Annotated[
    bool,
    typer.Option(
        "--rolling-restart",
        help="Each broker is stopped and started, one after the other: by id, the controller last.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="The brokers of --rolling-restart, in this order."),
]
DeleteController = Annotated[
    bool, typer.Option("--delete-controller", help="Somebody deletes /controller.")
]
Reassignments = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="The JSON of kafka-reassign-partitions is executed."),
]
DeleteTopics = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="This topic is deleted.")
]
Elections = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[FILE]",
        help="A preferred election of all partitions, or of those in a JSON of kafka-leader-election.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="With a log: start from this place in it, GENERATION:SEQ or a TIME. [default: its end]",
    ),
]
Limit = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=10_000, help="Maximum number of partitions in each list."),
]


@with_options(ReplaySettings, only=NAMES)
def rehearse(
    config: Path | None,
    options: Options,
    *,
    context: typer.Context,
    files: LogFiles = None,
    stop_broker: StopBrokers = None,
    kill_broker: KillBrokers = None,
    start_broker: StartBrokers = None,
    rolling_restart: Rolling = False,
    order: Order = None,
    delete_controller: DeleteController = False,  # noqa: ARG001  # where it stands is all that it says
    reassign: Reassignments = None,
    delete_topic: DeleteTopics = None,
    preferred_election: Elections = None,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    from_topic: FromTopic = False,
    at: At = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> int:
    """Print what Kafka's controller would do in answer to these steps; nothing is executed.

    Examples: kcm rehearse --stop-broker 3, kcm rehearse --rolling-restart --order 1,2,3, kcm rehearse --kill-broker 1 --reassign plan.json, kcm rehearse --from-topic --at 2026-11-21T10:00:00Z --kill-broker 1

    Steps are rehearsed in the order in which they are given. The exporter rehearses on the cluster as it is now; with FILEs or --from-topic
    this command replays the recorded log and rehearses on that. The answer lists what is a race in Kafka and what ZooKeeper does not hold.
    """  # fmt: skip
    if order is not None and not rolling_restart:
        raise UsageError("option --order: it needs --rolling-restart as well")
    steps = steps_in_order(
        context,
        {
            StepKind.STOP_BROKER: stop_broker,
            StepKind.KILL_BROKER: kill_broker,
            StepKind.START_BROKER: start_broker,
            StepKind.ROLLING_RESTART: order,
            StepKind.DELETE_CONTROLLER: None,
            StepKind.REASSIGN: reassign,
            StepKind.DELETE_TOPIC: delete_topic,
            StepKind.PREFERRED_ELECTION: preferred_election,
        },
    )
    if files or from_topic:
        from kcm.rehearse.recorded import rehearse_on_log  # noqa: PLC0415  # to ask the exporter takes no simulator

        point = END if at is None else read_point("--at", at)
        source = open_log(load_replay(config, options), files, cluster, from_topic=from_topic)
        answer = rehearse_on_log(source, steps, cluster=cluster, point=point, most=limit)
    elif at is not None:
        raise UsageError("option --at: it needs a log: name a FILE, or give --from-topic")
    else:
        api = ExporterApi(exporter, http_config_file, within_s=ANSWER_TIMEOUT_S)
        answer = _by_exporter(api, cluster, steps, limit)
    with printing():
        if "completeness" in answer:
            print_not_live_warning(answer, as_json=as_json)
        if as_json:
            print_json(answer)
        else:
            console().print(report_text(answer), crop=False)
    return 0


def _by_exporter(api: ExporterApi, cluster: str | None, steps: list[str], limit: int) -> Json:
    if len(urllib.parse.urlencode({"step": steps}, doseq=True)) > LONGEST_QUERY:
        raise UsageError(
            "the files of the steps are too long for a request to the exporter: rehearse on the log, "
            "with --from-topic, which has no such limit"
        )
    path = cluster_path(api.choose(cluster), "/rehearsal")
    answer: Json = api.get(path, step=steps, limit=limit)
    return answer
