"""Requests to Kubernetes' API server as its administrator, and what tests ask of one namespace."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import wait_until

ANSWER_S = 30.0
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}  # fmt: skip
"""Labels of a namespace: Pod Security refuses pods that are not `restricted`, and warns of workloads whose pods would be."""

Body = dict[str, Any]


class Api:
    """The API server. What it answers with a status of failure is an AssertionError, unless the caller looks at it."""

    def __init__(self, url: str, certificate: Path, token: str) -> None:
        self._client = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(certificate)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_S,
        )

    def ask(
        self, method: str, path: str, body: Body | None = None, **headers: str
    ) -> httpx.Response:
        """Return the answer, whatever its status."""
        return self._client.request(method, path, json=body, headers=headers)

    def get(self, path: str) -> Body:
        """Return an object, or a list."""
        return self._found(self.ask("GET", path))

    def items(self, path: str) -> list[Body]:
        """Return the objects of a list."""
        items: list[Body] = self.get(path)["items"]
        return items

    def create(self, path: str, body: Body) -> Body:
        """Create an object."""
        return self._found(self.ask("POST", path, body))

    def merge(self, path: str, body: Body) -> Body:
        """Change some fields of an object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._found(self.ask("PATCH", path, body, **headers))

    @staticmethod
    def _found(answer: httpx.Response) -> Body:
        assert answer.is_success, (
            f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text}"
        )
        found: Body = answer.json()
        return found


class Namespace:
    """One namespace of the cluster."""

    def __init__(
        self, api: Api, name: str, *, create: bool = True, restricted: bool = True
    ) -> None:
        self.api, self.name = api, name
        if create:
            labels = RESTRICTED if restricted else {}
            api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    def path(self, kind: str, group: str = "") -> str:
        """Return the path of the namespace's objects of a kind, such as `deployments` of the group `apps/v1`."""
        return f"{f'/apis/{group}' if group else '/api/v1'}/namespaces/{self.name}/{kind}"

    def workloads(self) -> list[Body]:
        """Return its Deployments and StatefulSets."""
        kinds = ("deployments", "statefulsets")
        return [each for kind in kinds for each in self.api.items(self.path(kind, "apps/v1"))]

    def budgets(self) -> list[Body]:
        """Return its PodDisruptionBudgets."""
        return self.api.items(self.path("poddisruptionbudgets", "policy/v1"))

    def pods(self, component: str = "") -> list[Body]:
        """Return its pods, or those of one part, that nobody has asked to end."""
        query = f"?labelSelector=app.kubernetes.io/component={component}" if component else ""
        found = self.api.items(self.path(f"pods{query}"))
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def warnings(self) -> set[str]:
        """Return its events that warn: reason, object and message."""
        return {
            f"{each['reason']} {each['involvedObject']['name']}: {each.get('message', '')}"
            for each in self.api.items(self.path("events"))
            if each["type"] == "Warning"
        }

    def kill(self, pod: Body) -> None:
        """Delete a pod without any grace."""
        path = self.path(f"pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        answer = self.api.ask("DELETE", path)
        assert answer.is_success, answer.text

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until each workload has all its pods, ready and of its newest template."""

        def unready() -> dict[str, str]:
            found = {}
            for each in self.workloads():
                status, want = each["status"], each["spec"]["replicas"]
                seen = each["metadata"]["generation"] == status.get("observedGeneration")
                counts = [
                    status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")
                ]
                if not seen or counts != [want] * 3:
                    found[each["metadata"]["name"]] = f"{counts} of {want}"
            return found

        wait_until(unready, lambda found: not found, deadline_s=deadline_s)

    def wait_for_pods(
        self, holds: Callable[[list[Body]], bool], deadline_s: float, component: str = ""
    ) -> list[Body]:
        """Wait until the pods are so; return them."""
        return wait_until(lambda: self.pods(component), holds, deadline_s=deadline_s)


def is_ready(pod: Body) -> bool:
    """Return whether a pod is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
