"""The properties that Spark's session gets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from pipeline.runtime import EnvironmentProblemError, UsageError
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import (
    Session,
    _escaped,
    check_wire,
    reason_printed,
    spark_properties,
    submit_files,
)
from streaming.workspace import Workspace
from tests.support.waiting import wait_until


def test_the_users_spark_properties_take_precedence(tmp_path: Path) -> None:
    """Those of kcm are defaults; a property that would break the log's order cannot be set."""
    settings = load(
        StreamSettings, spark_conf={"spark.sql.adaptive.enabled": "true", "spark.x": "y"}
    )
    workspace = Workspace(tmp_path, stop=threading.Event())
    properties = spark_properties(settings, workspace)
    assert properties["spark.sql.adaptive.enabled"] == "true"
    assert properties["spark.x"] == "y"
    assert properties["spark.sql.streaming.noDataMicroBatches.enabled"] == "false"
    assert properties["spark.local.dir"] == str(tmp_path / "scratch")


def test_jars_are_sent_to_the_executors_of_a_cluster(tmp_path: Path) -> None:
    """Locally they are on the class path; a cluster's executors have them sent."""
    workspace = Workspace(tmp_path, stop=threading.Event())
    jars = (Path("/a.jar"), Path("/b.jar"))
    local = spark_properties(load(StreamSettings, connector_jars=jars), workspace)
    assert local["spark.driver.extraClassPath"] == f"/a.jar{os.pathsep}/b.jar"
    remote = spark_properties(
        load(StreamSettings, connector_jars=jars, spark_master="spark://m:7077"), workspace
    )
    assert remote["spark.jars"] == "/a.jar,/b.jar"
    assert "spark.driver.host" not in remote


def test_a_class_data_archive_is_used_if_it_exists(tmp_path: Path) -> None:
    """Without it, or if it does not exist, Java gets no option: it would only print a warning."""
    workspace = Workspace(tmp_path, stop=threading.Event())
    archive = tmp_path / "classes.jsa"

    def options(given: Path | None) -> list[str]:
        properties = spark_properties(load(StreamSettings, class_archive=given), workspace)
        return properties["spark.driver.defaultJavaOptions"].split()

    assert options(archive) == options(None)
    archive.write_bytes(b"classes")
    assert f"-XX:SharedArchiveFile={archive}" in options(archive)


@pytest.mark.parametrize("takes", [True, False])
def test_spark_talks_to_python_through_unix_sockets_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, takes: bool
) -> None:
    """On a cluster the folder would be on the executors' machines, about which nothing is known."""
    monkeypatch.setattr(Workspace, "takes_unix_sockets", lambda _: takes)
    workspace = Workspace(tmp_path, stop=threading.Event())
    option = "spark.python.unix.domain.socket.enabled"
    assert spark_properties(load(StreamSettings), workspace)[option] == str(takes).lower()
    remote = spark_properties(load(StreamSettings, spark_master="spark://m:7077"), workspace)
    assert option not in remote


def test_connections_to_a_cluster_are_authenticated_and_encrypted(tmp_path: Path) -> None:
    """With executors elsewhere both sides authenticate and encrypt; locally there are no connections."""
    workspace = Workspace(tmp_path, stop=threading.Event())
    remote = spark_properties(load(StreamSettings, spark_master="k8s://https://k"), workspace)
    assert remote["spark.authenticate"] == "true"
    assert remote["spark.network.crypto.enabled"] == "true"
    assert "spark.authenticate" not in spark_properties(load(StreamSettings), workspace)


SECRET = {"spark.authenticate.secret": "hunter2"}
OPEN = {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}


@pytest.mark.parametrize(
    ("master", "conf", "refused"),
    [
        ("local[2]", {}, False),
        ("k8s://https://kubernetes.default.svc", {}, False),
        ("yarn", {}, False),
        ("spark://m:7077", {}, True),
        ("local-cluster[1,1,512]", {}, True),
        ("spark://m:7077", {"spark.authenticate.secret": ""}, True),
        ("spark://m:7077", SECRET, False),
        ("spark://m:7077", {"spark.authenticate.secret.file": "/run/secrets/spark"}, False),
        ("spark://m:7077", OPEN, False),
    ],
)
def test_a_standalone_master_needs_a_shared_secret(
    master: str, conf: dict[str, str], refused: bool
) -> None:
    """Spark generates none there: it must be given, or authentication turned off explicitly."""
    settings = load(StreamSettings, spark_master=master, spark_conf=conf)
    with (
        pytest.raises(UsageError, match=r"spark\.authenticate\.secret")
        if refused
        else (nullcontext())
    ):
        check_wire(settings)


def test_submit_files_have_mode_0600_and_are_removed(tmp_path: Path) -> None:
    """The arguments name the files and contain no secret; other users may not read the files.

    What a killed fold has left there is replaced.
    """
    (tmp_path / "spark.properties").write_text("spark.a=before")
    properties = {"spark.a": "hunter2", "spark.driver.extraJavaOptions": "-Da='b c' -Dd=\"e\\\\f\""}
    with submit_files(properties, tmp_path) as arguments:
        files = {path.name: path for path in tmp_path.iterdir()}
        assert {oct(path.stat().st_mode & 0o777) for path in files.values()} == {"0o600"}
        assert "hunter2" not in arguments
        assert files["java.options"].read_text() == '"-Da=b c"\n"-Dd=e\\\\f"\n'
        held = read_back(files["spark.properties"].read_text()).splitlines()
        assert held == [
            "spark.a=hunter2",
            f"spark.driver.extraJavaOptions=@{files['java.options']}",
        ]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="descendants are found in Linux's /proc")
@pytest.mark.parametrize("how", ["kill", "close"])
def test_a_jvm_that_does_not_end_is_killed(how: str) -> None:
    """The watchdog's kill also ends its workers; a close first asks Spark to stop, and gives the JVM its time."""
    jvm = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & echo $!; wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert jvm.stdin is not None
    assert jvm.stdout is not None
    worker = int(jvm.stdout.readline())
    session = Session.__new__(Session)  # without a JVM
    asked: list[str] = []
    session._gateway = SimpleNamespace(proc=jvm, shutdown=lambda: asked.append("gateway"))

    def stop() -> None:
        time.sleep(0.1)
        asked.append("Spark")

    session.spark = SimpleNamespace(stop=stop)  # type: ignore[assignment]
    try:
        if how == "kill":
            session.kill()
            wait_until(lambda: state_of(worker), lambda state: state in {"", "Z"}, deadline_s=10)
        else:
            session.close(jvm_deadline_s=0.1)
            assert asked == ["Spark", "gateway"], "Spark needs the connection for its end"
            assert jvm.returncode == -signal.SIGKILL, "the next fold finds the folder's lock free"
        assert jvm.wait(10) == -signal.SIGKILL
        assert not session.alive
    finally:
        jvm.kill()
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        jvm.wait()
        for pipe in (jvm.stdin, jvm.stdout):
            pipe.close()


class ExitFiles:
    """The part of a JVM with the files that it deletes at its exit: in a private field of a class of this name."""

    def __init__(self, hook: str = "java.io.DeleteOnExitHook") -> None:
        self.to_delete = {"/scratch/1.sock"}
        self.java = SimpleNamespace(
            lang=SimpleNamespace(Class=SimpleNamespace(forName=self._find)),
            util=SimpleNamespace(LinkedHashSet=set),
        )
        self._hook = hook
        self._is_accessible = False

    def setAccessible(self, flag: bool) -> None:  # noqa: N802  # Java's name and call
        """Let a private field be set."""
        self._is_accessible = flag

    def set(self, of: None, files: set[str]) -> None:
        """Set the static field."""
        assert of is None
        if not self._is_accessible:
            raise Py4JError("IllegalAccessException: a member with modifiers private static")
        self.to_delete = files

    def _find(self, name: str) -> SimpleNamespace:
        if name != self._hook:
            raise Py4JError(f"ClassNotFoundException: {name}")
        return SimpleNamespace(getDeclaredField={"files": self}.__getitem__)


def test_the_jvm_forgets_the_files_of_batches_where_it_can() -> None:
    """Another set takes the list's place, since more files follow; a Java without the list is no error."""
    session = Session.__new__(Session)  # without a JVM
    jvm = ExitFiles()
    session._gateway = SimpleNamespace(jvm=jvm)
    session.forget_temporary_files()
    assert jvm.to_delete == set()
    other = ExitFiles("java.io.OtherHook")
    session._gateway = SimpleNamespace(jvm=other)
    session.forget_temporary_files()
    assert other.to_delete == {"/scratch/1.sock"}


def state_of(pid: int) -> str:
    """Return Linux's letter for the state of a process; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def test_submit_files_that_cannot_be_written_name_their_folder(tmp_path: Path) -> None:
    """The fold waits after that error, until a user corrects it; no file is left behind."""
    gone = tmp_path / "gone"
    with pytest.raises(EnvironmentProblemError, match=str(gone)), submit_files({"a": "b"}, gone):
        pass


@given(st.text())
def test_an_escaped_property_is_read_back_unchanged(text: str) -> None:
    """Java reads exactly the text that was written."""
    written = _escaped(text)
    assert read_back(written).encode("utf-16", "surrogatepass").decode("utf-16") == text
    assert not set(written) & set("=:#! \t\f\r\n")


def read_back(written: str) -> str:
    """Return what Java reads, in units of UTF-16."""
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), written)


UNKNOWN_HOST = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" java.lang.ExceptionInInitializerError
\tat org.apache.spark.util.Utils$.localHostName(Utils.scala:900)
Caused by: java.lang.RuntimeException: no address
\tat org.apache.spark.util.Utils$.findLocalInetAddress(Utils.scala:800)
\t... 14 more
Caused by: java.net.UnknownHostException: builder: builder: Name or service not known
\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1671)
\t... 17 more
[13.876s][warning][cds] Skipping org/apache/logging/log4j/core/async/AsyncLoggerContext: Failed verification
"""


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", ""),
        ("WARNING: Using incubator modules: jdk.incubator.vector\n", ""),
        (UNKNOWN_HOST, "java.net.UnknownHostException: builder: builder: Name or service not known"),
        ("java.io.IOException: first\n\tat a.B(C)\njava.io.IOException: last\n\tat a.B(C)\n", "java.io.IOException: last"),
        ("Unrecognized VM option 'X'\nError: Could not create the Java Virtual Machine.\n", "Unrecognized VM option 'X'"),
        ("A: outer\n\tSuppressed: B: s\n\t\tat a\n\tCaused by: C: inner\n\t\t... 3 more\n", "C: inner"),
    ],
)  # fmt: skip
def test_the_reason_of_a_jvm_that_does_not_start_is_its_deepest_cause(
    printed: str, reason: str
) -> None:
    """Neither a call in a trace, nor "... 17 more", nor a warning of the JVM's own log is told as the reason."""
    assert reason_printed(printed) == reason
