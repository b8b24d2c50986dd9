"""`kcm watch`: the watcher alone."""

from __future__ import annotations

from pathlib import Path

from kcm.cli.options import Options, with_options
from kcm.cli.parts import WATCH, run_part


@with_options((WATCH.title, WATCH.settings))
def watch(config: Path | None, options: Options) -> int:
    """Watch one cluster's ZooKeeper and write what changes to the log.

    Example: kcm watch --cluster prod --zookeeper zk1:2181,zk2:2181/kafka --bootstrap-servers k1:9092

    Every option can also be given as an environment variable (--session-timeout-s as KCM_SESSION_TIMEOUT_S) or in
    the configuration file (session_timeout_s = 6). Give passwords there: arguments are visible to all users.
    """
    return run_part(WATCH, config, options)
