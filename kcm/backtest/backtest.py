"""`kcm backtest`: which alerts a file of rules would have fired on a recorded history.

The exporter's code scrapes the history (`sampling`), and a Prometheus on this machine
evaluates the rules (`evaluation`). The server and its data are removed when the command ends.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller_model.metrics.catalogue import CATALOGUE
from kcm.backtest import report
from kcm.backtest.evaluation import Evaluation
from kcm.backtest.history import Window, record
from kcm.backtest.history_server import HistoryServer
from kcm.backtest.report import BackTest
from kcm.backtest.rules import read_rules
from kcm.cli.exits import EXIT_CONDITION_FALSE
from kcm.cli.options import Options, with_options
from kcm.history.log_source import ClusterName, FromTopic, LogFiles, open_log
from kcm.history.options import NAMES, ReplaySettings, load_replay
from kcm.queries.options import PIPE_WIDTH, AsJson, console, print_json, printing
from kcm.servers.supervisor import Supervisor
from pipeline.durations import duration_ms
from pipeline.runtime import UsageError

_LEAST_MS = 1000
_LABEL_NAME = re.compile(r"[a-zA-Z_]\w*", re.ASCII)
_SCRAPED_AS: Mapping[str, str] = {"job": "kcm", "instance": "exporter:9640"}
"""As in docker/compose/prometheus.yaml."""
_SERVED = frozenset({metric.name for metric in CATALOGUE} | {"up"})

RulesFile = Annotated[
    Path, typer.Argument(metavar="RULES.yaml", help="Alerting and recording rules of Prometheus.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Report what fired from this time on: 2026-11-21T10:00:00Z, or milliseconds since "
        "1970. [default: for a bundle, the beginning of its incident; else the beginning of "
        "the log]",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="Up to this time. [default: for a bundle, the end of its incident; else the end of "
        "the log]",
    ),
]
ScrapeInterval = Annotated[
    str, typer.Option(metavar="DURATION", help="How often Prometheus scrapes: 15s, 1m.")
]
EvaluationInterval = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How often rule groups without an interval of their own are evaluated.",
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        help="A label that Prometheus adds to what it scrapes, once for each; job is kcm and instance "
        "exporter:9640 unless given.",
    ),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Exit with 6 if there is an incident for which no alert fired."),
]


@with_options(ReplaySettings, only=NAMES)
def backtest(
    config: Path | None,
    options: Options,
    *,
    rules: RulesFile,
    files: LogFiles = None,
    cluster: ClusterName = None,
    from_topic: FromTopic = False,
    begin: From = None,
    end: To = None,
    scrape_interval: ScrapeInterval = "15s",
    evaluation_interval: EvaluationInterval = "15s",
    label: Label = None,
    check: Check = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate a file of Prometheus's rules on a recorded history: which alerts would have fired, and for which incidents none.

    Examples: kcm backtest rules.yaml incident.zip, kcm backtest rules.yaml changes.jsonl.gz --check, kcm backtest rules.yaml --from-topic --from 2026-11-21T00:00:00Z

    The history becomes the series that the exporter would have served, and a Prometheus on this machine evaluates the rules on
    them; prometheus and promtool must be on PATH. Metrics that no log holds have no series: those of the monitor's own parts
    (kcm_watcher_*, kcm_fold_*, kcm_exporter_*) and of single partitions. The output lists the rules that use them.
    """  # fmt: skip
    window = Window.read(begin, end)
    every_ms = _interval("--scrape-interval", scrape_interval)
    evaluated_ms = _interval("--evaluation-interval", evaluation_interval)
    added = _labels(label or [])
    settings = load_replay(config, options)
    rule_file = read_rules(rules)
    source = open_log(settings, files, cluster, from_topic=from_topic)
    with (
        tempfile.TemporaryDirectory(prefix="kcm-backtest-") as name,
        Supervisor(Path(name), kill_on_exit=True) as supervisor,
    ):
        folder = Path(name)
        server = HistoryServer(supervisor, folder, lookback_ms=every_ms - 1)
        history = record(
            source,
            cluster,
            window.of_bundles(source),
            reach_ms=rule_file.reach_ms,
            interval_ms=every_ms,
            labels=added,
            folder=folder,
            blocks=server.blocks,
        )
        server.restart()
        evaluated = Evaluation(
            server,
            rule_file,
            scrapes=history.scrapes,
            interval_ms=evaluated_ms,
            known=_SERVED,
        ).run(folder)
    result = BackTest(history, rule_file, evaluated)
    with printing():
        if as_json:
            print_json(report.as_json(result))
        else:
            console(PIPE_WIDTH).print(report.as_text(result), soft_wrap=True)
    return EXIT_CONDITION_FALSE if check and result.unnoticed else 0


def _interval(option: str, text: str) -> int:
    """Return an option's duration in milliseconds; raises UsageError."""
    interval_ms = duration_ms(text)
    if interval_ms < _LEAST_MS:
        raise UsageError(
            f"option {option}: {text!r} is no duration of 1s or more, such as 15s or 1m"
        )
    return interval_ms


def _labels(given: Sequence[str]) -> dict[str, str]:
    """Return the labels that Prometheus adds to a sample; raises UsageError."""
    labels = dict(_SCRAPED_AS)
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and _LABEL_NAME.fullmatch(name)):
            raise UsageError(f"option --label: {text!r} is not NAME=VALUE, such as env=prod")
        labels[name] = value
    return {name: value for name, value in labels.items() if value}
