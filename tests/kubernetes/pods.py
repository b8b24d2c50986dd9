"""The chart on a node whose pods run: the whole monitor, killed, replaced, drained and removed while it watches two clusters."""

from __future__ import annotations

import base64
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import bcrypt
import httpx

from kcm.run.exporter_client import ClusterSeen, parse_scrape, read_cluster
from tests.images.checks import USER, version
from tests.kubernetes.api import Body, Namespace, is_ready
from tests.kubernetes.chart import CHART, left_in
from tests.kubernetes.cluster import Cluster
from tests.support.commands import say
from tests.support.waiting import wait_until

FOLDER = Path(__file__).parent
VALUES = FOLDER / "values.yaml"
CLUSTERS = ("prod", "modern")
NAMESPACES = ("kafka", "monitor", "monitor-fold", "monitor-web")
RELEASE = "kcm"
"""Also what the names of all its objects begin with."""
WAIT = ("--wait", "--timeout", "300s")
START_S = 300.0
"""Kafka, Spark and their JVMs start in some 20 s; on a machine that does much else, in minutes."""
LEAD_S = 60.0
"""A lease of the default length ends within 6 s after its watcher."""
ROTATION_S = 150.0
"""The kubelet renews what a volume shows of a secret about once a minute, at the latest; kcm looks each 5 s."""
ASK_INTERVAL_S = 0.05
_EXPORTER, _WATCHER, _STREAM = 9640, 9641, 9642
_CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    host, port = place.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
        print(place)
    except OSError:
        pass
"""


def steps(cluster: Cluster) -> Iterator[str]:
    """Play the story; yield what was seen in each step. Of a step that fails, what may explain it is printed."""
    try:
        yield from _story(cluster)
    except AssertionError:
        for line in _troubles(cluster):
            say(line)
        raise


def _story(cluster: Cluster) -> Iterator[str]:
    began = time.monotonic()
    kafka = Namespace(cluster.api, "kafka", restricted=False)
    cluster.kubectl("apply", "--namespace", kafka.name, "-f", str(FOLDER / "kafka.yaml"))
    _make_volumes(cluster)
    kafka.wait_ready(START_S)
    yield f"ZooKeeper, its brokers and a node in KRaft mode are ready after {_since(began)}"
    monitor = Monitor(cluster, Namespace(cluster.api, "monitor"))
    yield from monitor.install()
    yield monitor.check_pods()
    done = cluster.helm("test", RELEASE, "--namespace", monitor.namespace.name, "--logs")
    assert '"ready":true' in done.stdout, done.stdout
    yield "helm test passes, and its log says that the exporter is ready"
    yield monitor.check_policies(kafka)
    for name in CLUSTERS:
        yield monitor.kill_leading_watcher(name)
    yield monitor.kill_fold()
    yield monitor.kill_controller(kafka)
    yield from monitor.upgrade()
    yield monitor.drain()
    yield _rotate_password(cluster)
    yield from _executors(cluster)
    yield monitor.uninstall()


def _troubles(cluster: Cluster) -> Iterator[str]:
    """Yield what may explain a failure: events that warn, and the end of what pods that are not ready wrote."""
    for name in NAMESPACES:
        namespace = Namespace(cluster.api, name, create=False)
        for line in sorted(namespace.warnings())[:20]:
            yield f"--- {name}: {line}"
        for pod in namespace.pods():
            if not is_ready(pod):
                place = ("--namespace", name, pod["metadata"]["name"])
                done = cluster.kubectl("logs", "--tail=8", *place, check=False)
                yield f"--- {'/'.join(place[1:])} ({pod['status']['phase']}):\n{done.stdout}{done.stderr}"


class Monitor:
    """The release of the whole monitor."""

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        self.cluster, self.namespace = cluster, namespace

    def install(self) -> Iterator[str]:
        """Install it, and wait for figures of both clusters."""
        began = time.monotonic()
        self._helm("install", *_chart(VALUES), *WAIT)
        yield f"helm install --wait: {_since(began)}"
        for name in CLUSTERS:
            seen = self._wait_for_live(name)
            brokers = f"controller {seen.controller_id}, {seen.live_brokers} brokers"
            yield f"{name} is live {_since(began)} after the install began: {brokers}"

    def check_pods(self) -> str:
        """Each pod runs as its image's user, with no right and no token, and cannot write to its root."""
        look = (
            "cat /proc/1/status; touch /written || echo; ls /var/run/secrets/kubernetes.io || echo"
        )
        most: dict[str, int] = {}
        for pod in self.namespace.pods():
            name = pod["metadata"]["name"]
            place = ("--namespace", self.namespace.name, name)
            done = self.cluster.kubectl("exec", *place, "--", "sh", "-c", look)
            inside = {key: value.split() for key, _, value in (line.partition(":") for line in done.stdout.splitlines())}  # fmt: skip
            user, group = USER.split(":")
            assert (set(inside["Uid"]), set(inside["Gid"])) == ({user}, {group}), name
            assert int(inside["CapEff"][0], 16) == int(inside["CapBnd"][0], 16) == 0, name
            assert (inside["NoNewPrivs"], inside["Seccomp"]) == (["1"], ["2"]), name
            assert "touch: cannot touch '/written': Read-only file system" in done.stderr, (
                done.stderr
            )
            assert "ls: cannot access" in done.stderr, done.stderr
            part = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            most[part] = max(most.get(part, 0), int(inside["VmHWM"][0]) // 1024)
        assert set(most) == {"watcher", "stream", "exporter"}
        memory = ", ".join(f"{part} {mib}" for part, mib in sorted(most.items()))
        return f"pods run as uid {user}, read-only, without rights and tokens; their first processes took at most (MiB): {memory}"

    def check_policies(self, kafka: Namespace) -> str:
        """The ports are open to the namespace that the policy names, and shut to others; pods reach what the values name only."""
        began = time.monotonic()
        named, other = (Namespace(self.cluster.api, name) for name in ("prometheus", "other"))
        manifest = (FOLDER / "probe.yaml").read_text().replace("VERSION", version())
        for each in (named, other):
            self.cluster.kubectl("apply", "--namespace", each.name, "-f", "-", stdin=manifest)
        for each in (named, other):
            wait_until(
                each.pods, lambda pods: len(pods) == 1 and is_ready(pods[0]), deadline_s=START_S
            )
        parts = {"exporter": _EXPORTER, "watcher": _WATCHER, "stream": _STREAM}
        ports = {_place(pod, port) for part, port in parts.items() for pod in self.namespace.pods(part)}  # fmt: skip
        wait_until(lambda: self._reached(other, "probe", ports), lambda found: found == set(), deadline_s=LEAD_S)  # fmt: skip
        assert self._reached(named, "probe", ports) == ports
        (broker,), (listening,) = kafka.api.items(kafka.path("pods?labelSelector=app=kafka")), named.pods()  # fmt: skip
        allowed, denied = _place(broker, 9092), _place(listening, 8000)
        assert self._reached(other, "probe", {denied}) == {denied}
        for part in parts:
            name = self.namespace.pods(part)[0]["metadata"]["name"]
            assert self._reached(self.namespace, name, {allowed, denied}) == {allowed}, part
        return f"NetworkPolicies hold on {len(ports)} ports of pods, and for what each part may reach; {_since(began)}"

    def kill_leading_watcher(self, name: str) -> str:
        """A watcher leads again when the leading one is killed; where they elect a leader, it is another one.

        Those of a cluster in KRaft mode elect nobody: the killed one may be back before another has noticed.
        """
        (old,) = wait_until(lambda: self._leading(name), lambda found: len(found) == 1)
        began = time.monotonic()
        _kill_processes(self._pod(old))
        (new,) = wait_until(
            lambda: self._leading(name),
            lambda found: len(found) == 1 and (found != [old] or name == "modern"),
            deadline_s=LEAD_S,
        )
        after = _since(began)
        self._wait_for_live(name)
        who = "it, started again," if new == old else "another"
        return f"the leading watcher of {name} is killed: {who} leads after {after}"

    def kill_fold(self) -> str:
        """The fold is back in its pod, goes on from its volume, and figures are live."""
        name = f"{RELEASE}-stream-0"
        before = _restarts(self._pod(name))
        began = time.monotonic()
        _kill_processes(self._pod(name))
        wait_until(lambda: _restarts(self._pod(name)), lambda n: n > before, deadline_s=START_S)
        body = wait_until(
            lambda: _metrics(self._pod(name), _STREAM),
            lambda text: _sample(text, "kcm_fold_up") == 1,
            deadline_s=START_S,
        )
        assert _sample(body, "kcm_fold_lineages_total") == 0, "it began anew"
        for each in CLUSTERS:
            self._wait_for_live(each)
        return f"the fold is killed: all is live after {_since(began)}, in the same lineage"

    def kill_controller(self, kafka: Namespace) -> str:
        """The broker that is the controller is killed: the other one is shown."""
        old = self._wait_for_live("prod").controller_id
        began = time.monotonic()
        _kill_processes(kafka.api.get(kafka.path(f"pods/watched-{old}")))
        seen = wait_until(
            lambda: read_cluster(self._url(), "prod"),
            lambda seen: isinstance(seen, ClusterSeen) and seen.live and seen.controller_id not in {old, None, -1},
            deadline_s=LEAD_S,
        )  # fmt: skip
        assert isinstance(seen, ClusterSeen)
        after = _since(began)
        kafka.wait_ready(START_S)
        return f"broker {old}, the controller of prod, is killed: broker {seen.controller_id} is shown after {after}"

    def upgrade(self) -> Iterator[str]:
        """Upgrade and rollback replace all pods, and no answer of the exporters fails meanwhile."""
        with _Client(self._url()) as client:
            began = time.monotonic()
            self._helm("upgrade", *_chart(VALUES), "--set", "settings.log_level=debug", *WAIT)
            self._check_log_level({"debug"})
            yield f"helm upgrade --wait: {_since(began)}; {client.count()}"
            began = time.monotonic()
            self._helm("rollback", "1", *WAIT)
            self._check_log_level(set())
            yield f"helm rollback --wait: {_since(began)}; {client.count()}"
            for name in CLUSTERS:
                self._wait_for_live(name)

    def drain(self) -> str:
        """Evict all pods as `kubectl drain` does: budgets let one of each part go at a time, and no answer fails."""
        began = time.monotonic()
        going = {each["metadata"]["name"] for each in self.namespace.pods() if is_ready(each)}
        refused: set[str] = set()
        evicted = len(going)
        with _Client(self._url()) as client:
            while going:
                for name in sorted(going):
                    body = {
                        "apiVersion": "policy/v1",
                        "kind": "Eviction",
                        "metadata": {"name": name},
                    }
                    answer = self.cluster.api.ask(
                        "POST", self.namespace.path(f"pods/{name}/eviction"), body
                    )
                    assert answer.status_code in {201, 429}, answer.text
                    if answer.status_code == 429:
                        refused |= set(re.findall(r"disruption budget (\S+) needs", answer.text))
                    else:
                        going.remove(name)
                assert time.monotonic() - began < START_S, f"not evicted: {going}"
                time.sleep(0.5)
            self.namespace.wait_ready(START_S)
            for name in CLUSTERS:
                self._wait_for_live(name)
            budgets = {each["metadata"]["name"] for each in self.namespace.budgets()}
            assert refused == budgets, (refused, budgets)
            return f"drain: {evicted} pods evicted, each of {len(budgets)} budgets made one wait, all live again after {_since(began)}; {client.count()}"

    def uninstall(self) -> str:
        """Remove it: the checkpoint's claim is left."""
        return _uninstall(self.cluster, self.namespace)

    def _check_log_level(self, want: set[str]) -> None:
        found = {
            variable["value"]
            for pod in self.namespace.pods()
            for variable in pod["spec"]["containers"][0].get("env", ())
            if variable["name"] == "KCM_LOG_LEVEL"
        }
        assert found == want, found

    def _helm(self, verb: str, *arguments: str) -> None:
        self.cluster.helm(verb, RELEASE, "--namespace", self.namespace.name, *arguments)

    def _pod(self, name: str) -> Body:
        return self.cluster.api.get(self.namespace.path(f"pods/{name}"))

    def _url(self) -> str:
        service = self.cluster.api.get(self.namespace.path(f"services/{RELEASE}-exporter"))
        return f"http://{service['spec']['clusterIP']}:{_EXPORTER}"

    def _wait_for_live(self, name: str) -> ClusterSeen:
        seen = wait_until(
            lambda: read_cluster(self._url(), name),
            lambda seen: isinstance(seen, ClusterSeen) and seen.live,
            deadline_s=START_S,
        )
        assert isinstance(seen, ClusterSeen)
        return seen

    def _reached(self, namespace: Namespace, pod: str, places: set[str]) -> set[str]:
        """Return to which places a pod can connect."""
        place = ("--namespace", namespace.name, pod)
        done = self.cluster.kubectl("exec", *place, "--", "python", "-c", _CONNECT, *places)
        return set(done.stdout.split())

    def _leading(self, name: str) -> list[str]:
        """Return the pods that say that they lead."""
        return [
            pod["metadata"]["name"]
            for pod in self.namespace.pods("watcher")
            if pod["metadata"]["labels"]["kafka-controller-monitor/cluster"] == name
            and 1.0 in parse_scrape(_metrics(pod, _WATCHER), name, {"kcm_watcher_leader"}).values()
        ]


class _Client:
    """Asks the exporters by their service again and again, each time on a new connection."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1/clusters"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failures: list[str] = []
        self._answers: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(ASK_INTERVAL_S):
            began = time.monotonic()
            try:
                with urllib.request.urlopen(self._url, timeout=10) as answer:
                    answer.read()
            except OSError as error:
                self._failures.append(str(error))
            self._answers.append(time.monotonic() - began)

    def count(self) -> str:
        """Return how many answers there were until now; none may have failed."""
        assert self._failures == [], (
            f"{len(self._failures)} of {len(self._answers)} answers failed: {self._failures[:5]}"
        )
        assert self._answers, "nothing was asked"
        return f"{len(self._answers)} answers, none failed, the slowest took {max(self._answers):.2f} s"


def _make_volumes(cluster: Cluster) -> None:
    folder = cluster.folder / "volumes"
    for name in ("1", "2"):
        (folder / name).mkdir(parents=True)
    manifest = (FOLDER / "volumes.yaml").read_text().replace("FOLDER", str(folder))
    cluster.kubectl("apply", "-f", "-", stdin=manifest)


def _rotate_password(cluster: Cluster) -> str:
    """A changed secret is in force without a restart: the new password is taken, and the old one refused."""
    namespace = Namespace(cluster.api, "monitor-web")
    path = namespace.path("secrets")
    cluster.api.create(path, {"metadata": {"name": "web"}, "data": _web_configuration("old")})
    cluster.helm(
        *("install", RELEASE, "--namespace", namespace.name, *_chart(VALUES)),
        *("--set", "watcher.enabled=false,stream.enabled=false,dashboards.enabled=false"),
        *("--set", "exporter.replicas=1,web.configSecret=web", *WAIT),
    )
    (pod,) = namespace.pods("exporter")
    assert _status(pod, "old") == 200
    assert _status(pod, "new") == 401
    began = time.monotonic()
    cluster.api.merge(f"{path}/web", {"data": _web_configuration("new")})
    wait_until(lambda: _status(pod, "new"), lambda status: status == 200, deadline_s=ROTATION_S)
    after = _since(began)
    assert _status(pod, "old") == 401
    (now,) = namespace.pods("exporter")
    assert (now["metadata"]["uid"], _restarts(now)) == (pod["metadata"]["uid"], 0)
    cluster.helm("uninstall", RELEASE, "--namespace", namespace.name, *WAIT)
    return f"a password in a secret is changed: in force after {after}, without a restart"


def _executors(cluster: Cluster) -> Iterator[str]:
    """The fold as a driver whose executor is a pod: a killed one is replaced."""
    namespace = Namespace(cluster.api, "monitor-fold")
    began = time.monotonic()
    values = (VALUES, FOLDER / "executors-values.yaml")
    cluster.helm("install", RELEASE, "--namespace", namespace.name, *_chart(*values), *WAIT)
    _wait_for_fold(namespace)
    (old,) = _running(namespace)
    driver = f"{RELEASE}-stream-0"
    assert [each["name"] for each in old["metadata"]["ownerReferences"]] == [driver]
    assert old["spec"]["automountServiceAccountToken"] is False
    yield f"the fold with an executor as a pod is up {_since(began)} after the install began"
    began = time.monotonic()
    _kill_processes(old)
    wait_until(lambda: [each["metadata"]["name"] for each in _running(namespace)], lambda names: names not in ([], [old["metadata"]["name"]]), deadline_s=START_S)  # fmt: skip
    after = _since(began)
    _wait_for_fold(namespace)
    assert _restarts(cluster.api.get(namespace.path(f"pods/{driver}"))) == 0
    yield f"its executor is killed: another one runs after {after}"
    yield _uninstall(cluster, namespace)


def _place(pod: Body, port: int) -> str:
    return f"{pod['status']['podIP']}:{port}"


def _running(namespace: Namespace) -> list[Body]:
    return [each for each in namespace.pods("executor") if each["status"]["phase"] == "Running"]


def _wait_for_fold(namespace: Namespace) -> None:
    path = namespace.path(f"pods/{RELEASE}-stream-0")
    wait_until(
        lambda: _sample(_metrics(namespace.api.get(path), _STREAM), "kcm_fold_up"),
        lambda up: up == 1,
        deadline_s=START_S,
    )


def _uninstall(cluster: Cluster, namespace: Namespace) -> str:
    began = time.monotonic()
    cluster.helm("uninstall", RELEASE, "--namespace", namespace.name, *WAIT)
    claim = f"persistentvolumeclaim/checkpoint-{RELEASE}-stream-0"
    wait_until(
        lambda: left_in(cluster, namespace), lambda left: left == {claim}, deadline_s=START_S
    )
    return f"helm uninstall in {namespace.name}: {_since(began)}; left: {claim}"


def _chart(*values: Path) -> tuple[str, ...]:
    return (str(CHART), *(part for each in values for part in ("--values", str(each))))


def _web_configuration(password: str) -> dict[str, str]:
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    text = f"basic_auth_users: {{prometheus: {hashed}}}\n"
    return {"web.yaml": base64.b64encode(text.encode()).decode()}


def _status(pod: Body, password: str) -> int:
    url = f"http://{pod['status']['podIP']}:{_EXPORTER}/metrics"
    return httpx.get(url, auth=("prometheus", password)).status_code


def _metrics(pod: Body, port: int) -> str:
    """Return what a pod serves; empty while it serves nothing."""
    try:
        return httpx.get(f"http://{pod['status'].get('podIP')}:{port}/metrics").text
    except (httpx.HTTPError, httpx.InvalidURL):
        return ""


def _sample(body: str, metric: str) -> float | None:
    """Return the value of a metric without labels."""
    found = re.search(rf"^{metric} (\S+)$", body, re.MULTILINE)
    return float(found[1]) if found else None


def _restarts(pod: Body) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])


def _kill_processes(pod: Body) -> None:
    """Kill all processes of a pod's containers, as the kernel would: they are children of this node."""
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = f"pod{pod['metadata']['uid']}" in (process / "cgroup").read_text()
            if inside and (process / "comm").read_text().strip() != "catatonit":
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    assert killed, f"no process of {pod['metadata']['name']} was found"


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
