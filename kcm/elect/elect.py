"""`kcm elect`: run the recommended preferred elections, and watch their effect.

This is the only command that changes the watched cluster. So it does nothing without
--confirm, nothing on a cluster other than the one that the exporter shows, and nothing while the
monitor's figures are incomplete. It stops at the first surprise.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from controller_model.insight.wording import counted
from controller_model.kafka.ids import TopicPartition
from controller_model.records.decoding import DECODING_ERRORS
from kcm.cli.exits import NOT_CONFIRMED, STOPPED
from kcm.cli.options import Options, with_options
from kcm.cli.parts import all_names
from kcm.cli.text import warn
from kcm.elect.admin import Elections
from kcm.elect.request_writer import RequestWriter
from kcm.elect.run import Elect, ElectionRun
from kcm.elect.watch import ClusterWatch, names
from kcm.queries.api_client import DEFAULT_URL, ExporterApi, cluster_path
from kcm.queries.options import Cluster, Exporter, HttpConfigFile, PreferredBroker, discard_output
from kcm.queries.recommended import read_recommended
from pipeline.runtime import UnreachableError, UsageError
from pipeline.settings import PipelineSettings, check_hosts, load

CHUNK = 100
"""Partitions elected at a time: what one request moves, and what one surprise can affect."""
MAX_AT_ONCE = 500
_NOT_NAMED = "grade       cannot name these elections: give --pipeline-servers, or --config"

Brokers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Brokers of the WATCHED cluster, separated by commas.",
        show_default=False,
    ),
]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Run the elections; without it, they are only printed.")
]
ElectionFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Only the partitions in this file, made by kcm recommend --json; - is standard input.",
    ),
]
ChunkSize = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_AT_ONCE,
        help="Number of partitions that are elected at a time.",
    ),
]
Pause = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Pause between two chunks.")]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=1,
        max=300,
        help="How long to wait for the effect of a chunk, and for figures that are behind.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File of more client properties, key=value, by librdkafka's names, such as "
        "sasl.password.",
    ),
]


PipelineServers = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Brokers of the pipeline's own Kafka, where the elections are recorded, so that the "
        "grade names them. [default: bootstrap_servers of the file or the environment]",
        show_default=False,
    ),
]


class Plan(NamedTuple):
    """The elections to run."""

    partitions: list[TopicPartition]
    skipped: list[TopicPartition]
    """Partitions of the file that cannot be elected now, or need no election."""
    broker: int | None
    """The broker that is to lead the partitions; None: any."""
    before: int
    """Partitions (of the broker) that Kafka counts now as not led by their preferred replica."""
    after: int | None
    """The same count after the elections; None: not known for a part of the recommendation."""


@with_options(PipelineSettings, only=("secrets_dir", "topic_prefix"))
def elect(
    config: Path | None,
    options: Options,
    *,
    bootstrap_servers: Brokers,
    confirm: Confirm = False,
    broker: PreferredBroker = None,
    file: ElectionFile = None,
    chunk: ChunkSize = CHUNK,
    pause: Pause = 1.0,
    wait: Wait = 30.0,
    command_config: CommandConfig = None,
    pipeline_servers: PipelineServers = None,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
) -> int:
    """Run recommended preferred elections, and watch their effect.

    Examples: kcm elect --bootstrap-servers kafka1:9092, kcm elect --bootstrap-servers kafka1:9092 --broker 3 --confirm

    It stops at the first unexpected result: an error, another controller, a broker lost or restarted, a partition offline or under min ISR, a
    leader that is lost again, an effect that is not seen in time. It does nothing unless the monitor's figures are live. Where the
    pipeline's Kafka is given, it records its requests in the log, so that events and grades name these elections. Exit codes: 0
    all done or nothing to do, 7 not confirmed, 8 stopped; what was done and what was not is printed.
    """
    if file is not None and broker is not None:
        raise UsageError("give --file or --broker, not both")
    pipeline = read_pipeline(config, {**options, "bootstrap_servers": pipeline_servers})
    kafka = Elections(bootstrap_servers, command_config, within_s=wait)
    wanted = None if file is None else read_election(file)
    api = ExporterApi(exporter, http_config_file)
    name = api.choose(cluster)
    check_cluster(api, name, kafka)
    plan = make_plan(api, name, broker, wanted)
    chunks = [plan.partitions[at : at + chunk] for at in range(0, len(plan.partitions), chunk)]
    ended = announce(plan, len(chunks), confirm=confirm, is_named=pipeline is not None)
    if ended is not None:
        return ended
    # Kafka may take `wait` to elect, and the effect may take as long: elections seen within both
    # times count as these.
    ask: Elect = kafka.elect
    if pipeline is not None:
        ask = RequestWriter(pipeline, name, holds_s=2 * wait).recorded(ask)
    watch = ClusterWatch(api, name)
    return run_and_report(
        ElectionRun(chunks, elect=ask, watch=watch, pause_s=pause, wait_s=wait, say=_say)
    )


def read_pipeline(config: Path | None, options: Options) -> PipelineSettings | None:
    """Return the settings of the pipeline's Kafka; None: the user gave no address. Raises UsageError.

    The exporter knows an address but is not asked: credentials are sent only to one that the user
    gave.
    """
    servers = options["bootstrap_servers"]
    try:
        check_hosts(servers or "unset:1")
    except ValueError as error:
        raise UsageError(f"option --pipeline-servers: {error}") from None
    settings: PipelineSettings = load(PipelineSettings, config, known=all_names(), **options)
    return settings if "bootstrap_servers" in settings.model_fields_set else None


def check_cluster(api: ExporterApi, name: str, kafka: Elections) -> None:
    """Raise KcmError unless the monitor shows the cluster live, and Kafka is that same cluster."""
    shown = api.get(cluster_path(name))
    status, cluster_id = shown["completeness"]["status"], shown["cluster_id"]
    if status != "live":
        raise UnreachableError(
            f"the monitor's figures of {name} are {status}, so it could not see what "
            "the elections do; nothing was done; see kcm status"
        )
    there = kafka.cluster_id()
    if cluster_id is None:
        raise UnreachableError(
            f"the monitor does not know the id of {name} (/cluster/id), so nothing proves that "
            f"Kafka at {kafka.servers} is that cluster; nothing was done"
        )
    if there != cluster_id:
        raise UsageError(
            f"Kafka at {kafka.servers} is cluster {there}, and the monitor's {name} is "
            f"{cluster_id}: correct --bootstrap-servers or --cluster; nothing was done"
        )


def announce(plan: Plan, chunks: int, *, confirm: bool, is_named: bool) -> int | None:
    """Print what will be done; return the exit code if the command ends here, else None."""
    try:
        for line in plan_lines(plan, chunks):
            _say(line)
        if chunks and not is_named:
            _say(_NOT_NAMED)
        if chunks and not confirm:
            _say("nothing was done: give --confirm to run the elections")
    except BrokenPipeError:
        discard_output()
        if chunks and confirm:
            warn("stopped: the output was closed; nothing was done")
            return STOPPED
    if not chunks:
        return 0
    return None if confirm else NOT_CONFIRMED


def make_plan(
    api: ExporterApi, cluster: str, broker: int | None, wanted: Sequence[TopicPartition] | None
) -> Plan:
    """Return what can be elected now: all that is recommended, or the part of it that a file names."""
    found = read_recommended(api, cluster_path(cluster, "/recommendations"), broker)
    recommended = dict.fromkeys(found.partitions)
    before, after = found.first["imbalance_before"], found.first["imbalance_after"]
    if wanted is None:
        return Plan(list(recommended), [], broker, before, after)
    chosen = [partition for partition in wanted if partition in recommended]
    skipped = [partition for partition in wanted if partition not in recommended]
    if len(chosen) < len(recommended):
        # A partition that is being reassigned may count both before and after.
        each_counts = before - after == len(recommended)
        after = before - len(chosen) if each_counts else None
    return Plan(chosen, skipped, broker, before, after)


def plan_lines(plan: Plan, chunks: int) -> list[str]:
    """Return what will be done, as lines."""
    lines = []
    if plan.skipped:
        lines.append(
            f"skipped     {len(plan.skipped)} of the file: their preferred replica leads already, "
            f"or is not live and in sync ({names(plan.skipped)})"
        )
    count = len(plan.partitions)
    of = "" if plan.broker is None else f" of broker {plan.broker}"
    if not count:
        return [*lines, f"nothing to elect; imbalance{of} {plan.before}"]
    then = "" if plan.after is None else f", then {plan.after}"
    return [
        *lines,
        f"elect       {count} in {counted(chunks, 'chunk')}: {names(plan.partitions)}",
        f"imbalance   {plan.before}{of}{then}",
    ]


def read_election(path: Path) -> list[TopicPartition]:
    """Return the partitions of a file in the format of Kafka's own tool; raises UsageError."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        body: Any = json.loads(text)
        found = [(each["topic"], each["partition"]) for each in body["partitions"]]
    except OSError as error:
        raise UsageError(f"option --file: cannot read {path}: {error.strerror}") from None
    except (*DECODING_ERRORS, KeyError, TypeError):
        found = None
    if found is None or not all(isinstance(t, str) and type(p) is int for t, p in found):
        raise UsageError(
            f'option --file: {path} is not {{"partitions":[{{"topic":"t","partition":0}}]}}; '
            "kcm recommend --json makes one"
        )
    return list(dict.fromkeys(TopicPartition(topic, partition) for topic, partition in found))


def run_and_report(run: ElectionRun) -> int:
    """Run the elections, and print what was done, also after an error; return the exit code."""
    try:
        stopped_by = run.run()
    except KeyboardInterrupt:
        _sum_up(run)
        raise
    except BrokenPipeError:
        stopped_by = "the output was closed"
    if stopped_by is not None:
        warn(f"stopped: {stopped_by}")
    _sum_up(run)
    return 0 if stopped_by is None else STOPPED


def _sum_up(run: ElectionRun) -> None:
    """Print what was done; on standard error if the output was closed."""
    try:
        for line in run.summary():
            _say(line)
    except BrokenPipeError:
        discard_output()
        for line in run.summary():
            warn(line)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
