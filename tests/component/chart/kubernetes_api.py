"""As much of Kubernetes' API as Spark's driver asks for: it runs pods as processes of this machine.

A pod that is made runs what its manifest says (command, arguments, variables, folder), and
ends when it is deleted. Requests are kept, so that a test can compare them with a Role.
"""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Pod = dict[str, Any]
STARTED = "2026-11-21T10:00:00Z"
LOOK_S = 0.2
"""How soon it is noticed that a pod has ended, or that nobody follows a watch any more."""


class Kubernetes:
    """The pods of one namespace, and who follows them."""

    def __init__(self, namespace: str, run: Callable[[Pod], subprocess.Popen[bytes]]) -> None:
        self.namespace = namespace
        self.asked: set[tuple[str, str]] = set()
        """Verb and resource, as a Role names them."""
        self.made: list[Pod] = []
        """Pods as they were asked for."""
        self._run = run
        self._lock = threading.RLock()
        self._pods: dict[str, Pod] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._followers: list[queue.Queue[tuple[str, Pod]]] = []
        self._versions = itertools.count(1)
        self._stop = threading.Event()
        api = self

        class Handler(_Handler):
            kubernetes = api

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True),
            threading.Thread(target=self._reap, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def stopping(self) -> bool:
        """Whether all watches are to end."""
        return self._stop.is_set()

    def close(self) -> None:
        """End the API and all pods."""
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        for name in list(self._processes):
            self.delete(name)

    def processes(self) -> list[subprocess.Popen[bytes]]:
        """Return what runs of the pods that were made."""
        with self._lock:
            return list(self._processes.values())

    def add(self, pod: Pod) -> Pod:
        """Keep a pod as one that runs; nothing is started for it."""
        with self._lock:
            pod["metadata"] |= {"namespace": self.namespace, "creationTimestamp": STARTED}
            pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
            self._tell("ADDED", pod, "Running")
        return pod

    def make(self, pod: Pod) -> Pod:
        """Make a pod, and run it."""
        self.made.append(json.loads(json.dumps(pod)))
        with self._lock:
            self._processes[pod["metadata"]["name"]] = self._run(pod)
        return self.add(pod)

    def find(self, query: dict[str, str]) -> list[Pod]:
        """Return the pods that selectors choose."""
        with self._lock:
            return [pod for pod in self._pods.values() if _is_chosen(pod, query)]

    def delete(self, name: str) -> Pod | None:
        """End a pod and forget it; None when there is none of this name."""
        with self._lock:
            process = self._processes.pop(name, None)
            pod = self._pods.get(name)
            if process is not None:
                process.terminate()
                process.wait()
            if pod is not None:
                self._tell("DELETED", pod, "Succeeded")
                del self._pods[name]
        return pod

    def follow(self) -> queue.Queue[tuple[str, Pod]]:
        """Return a queue of what becomes of pods from now on."""
        with self._lock:
            follower: queue.Queue[tuple[str, Pod]] = queue.Queue()
            self._followers.append(follower)
            return follower

    def _tell(self, kind: str, pod: Pod, phase: str) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._versions))
        state = {"running": {"startedAt": STARTED}}
        if phase == "Failed":
            state = {"terminated": {"exitCode": 1, "finishedAt": STARTED}}  # type: ignore[dict-item]  # a number
        pod["status"] = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "startTime": STARTED,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": each["name"],
                    "ready": True,
                    "restartCount": 0,
                    "image": "",
                    "state": state,
                }
                for each in pod["spec"]["containers"]
            ],
        }
        self._pods[pod["metadata"]["name"]] = pod
        for follower in self._followers:
            follower.put((kind, json.loads(json.dumps(pod))))

    def _reap(self) -> None:
        while not self._stop.wait(LOOK_S):
            with self._lock:
                for name, process in list(self._processes.items()):
                    if process.poll() is not None:
                        del self._processes[name]
                        self._tell("MODIFIED", self._pods[name], "Failed")


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    kubernetes: Kubernetes
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keep the console quiet."""

    def do_GET(self) -> None:
        """Get, list or watch."""
        name, query = self._asked()
        if "Upgrade" in self.headers and self.headers["Upgrade"].lower() == "websocket":
            self._answer({})  # no web sockets here: clients then follow over plain HTTP
        elif name:
            self._note("get")
            found = self.kubernetes.find({"fieldSelector": f"metadata.name={name}"})
            self._answer(found[0] if found else None)
        elif query.get("watch") == "true":
            self._note("watch")
            self._watch(query)
        else:
            self._note("list")
            self._answer(_list_of(self.kubernetes.find(query)))

    def do_POST(self) -> None:
        """Create."""
        self._asked()
        self._note("create")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self.kubernetes.make(json.loads(body)), status=201)

    def do_DELETE(self) -> None:
        """Delete one, or those that selectors choose."""
        name, query = self._asked()
        self._note("delete" if name else "deletecollection")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = [name] if name else [p["metadata"]["name"] for p in self.kubernetes.find(query)]
        gone = [pod for each in names if (pod := self.kubernetes.delete(each)) is not None]
        self._answer((gone[0] if gone else None) if name else _list_of(gone))

    def _asked(self) -> tuple[str, dict[str, str]]:
        """Return the pod's name, or nothing, and the query."""
        url = urllib.parse.urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        self._resource = parts[4] if len(parts) > 4 else url.path
        return (parts[5] if len(parts) > 5 else ""), dict(urllib.parse.parse_qsl(url.query))

    def _note(self, verb: str) -> None:
        self.kubernetes.asked.add((verb, self._resource))

    def _answer(self, body: object, *, status: int = 200) -> None:
        if body is None:
            status, body = 404, {"kind": "Status", "status": "Failure", "reason": "NotFound"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, query: dict[str, str]) -> None:
        follower = self.kubernetes.follow()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in self._lines(follower, query):
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
        except OSError:
            return

    def _lines(
        self, follower: queue.Queue[tuple[str, Pod]], query: dict[str, str]
    ) -> Iterator[bytes]:
        while not self.kubernetes.stopping:
            try:
                kind, pod = follower.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if _is_chosen(pod, query):
                yield json.dumps({"type": kind, "object": pod}).encode() + b"\n"


def _list_of(pods: list[Pod]) -> dict[str, Any]:
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "0"},
        "items": pods,
    }


def _is_chosen(pod: Pod, query: dict[str, str]) -> bool:
    """Return whether a pod is one of those that equality selectors choose."""
    held = dict(pod["metadata"].get("labels") or {})
    held["metadata.name"] = pod["metadata"]["name"]
    terms = [*query.get("labelSelector", "").split(","), *query.get("fieldSelector", "").split(",")]
    for term in filter(None, terms):
        key, _, wanted = term.partition("=")
        if key.endswith("!"):
            if held.get(key[:-1]) == wanted:
                return False
        elif held.get(key) != wanted:
            return False
    return True
