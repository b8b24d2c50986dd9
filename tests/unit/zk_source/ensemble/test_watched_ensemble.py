"""The watched ensemble: whose session counts, and what is reported when there is no Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.runtime import UsageError, get_logger
from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.ensemble.watched_ensemble import WatchedEnsemble
from zk_source.wire.inbox import Inbox, SessionChanged

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def ensemble(**settings: Any) -> WatchedEnsemble:
    """Return an ensemble without a client."""
    loaded = load(WatchSettings, zookeeper="zk1:2181/kafka", **settings)
    return WatchedEnsemble(loaded, Inbox(), get_logger("test"))


def test_the_session_of_a_replaced_client_is_ignored() -> None:
    """Clients are numbered; only the newest one's session is ours."""
    watched = ensemble()
    assert watched.is_own(SessionChanged(0, "CONNECTED", "zk1:2181"))
    assert not watched.is_own(SessionChanged(1, "CONNECTED", "zk1:2181"))


def test_a_missing_kafka_names_the_chroot_to_correct() -> None:
    """With fail_fast it ends the watcher."""
    with pytest.raises(UsageError, match="no /brokers under the chroot /kafka"):
        ensemble(fail_fast=True).report_no_brokers()


def test_a_missing_kafka_is_logged_once_while_it_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The chroot may be right, and the cluster not started yet."""
    watched = ensemble(fail_fast=False)
    for _ in range(3):
        watched.report_no_brokers()
    assert capsys.readouterr().out.count("waiting for it to appear") == 1
