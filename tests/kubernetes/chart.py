"""The chart on an API server: each values file of its folder `ci` is installed, changed and removed, and no pod runs.

Objects are judged as strictly as the API server can (`fieldValidation=Strict`), those of the Prometheus operator by its own schemas;
pods by Pod Security at its level `restricted`; accounts by what they may do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.images.checks import ROOT
from tests.kubernetes.api import Namespace
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.go_programs import ensure_operator_crds
from tests.support.waiting import wait_until

CHART = ROOT / "helm" / "kafka-controller-monitor"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE = "rel"
CONTROLLERS_S = 30.0
"""Kubernetes' own controllers make pods and count budgets within a second."""
KINDS = ("PodMonitor", "ScrapeConfig")
"""What `serviceMonitor.kind` takes besides the kind of the values files."""
DRIVER = frozenset(("", "pods", verb) for verb in ("create", "get", "list", "watch", "delete", "deletecollection"))  # fmt: skip
"""What the chart's README promises of the driver's account; the others may nothing."""
_OF_EACH_NAMESPACE = frozenset({"configmap/kube-root-ca.crt", "serviceaccount/default"})

Right = tuple[str, str, str]
"""Group, resource and verb."""


def steps(cluster: Cluster) -> Iterator[str]:
    """Take each values file through its life; yield what was seen."""
    cluster.kubectl("apply", "--server-side", "-f", str(ensure_operator_crds()))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    boards = Namespace(cluster.api, "monitoring")
    assert VALUES, f"{CHART}/ci has no values"
    yield _controls(cluster)
    for values in VALUES:
        yield _life(cluster, values)
        wait_until(
            lambda: left_in(cluster, boards), lambda left: left == set(), deadline_s=CONTROLLERS_S
        )


def _controls(cluster: Cluster) -> str:
    """Show that wrong objects are found: an unknown field in each kind, and pods that are not restricted."""
    values = CHART / "ci" / "all-values.yaml"
    namespace = Namespace(cluster.api, "ci-controls")
    objects = _render(cluster, namespace, values)
    kinds = {each["kind"]: {**each, "noSuchField": 1} for each in objects}
    for kind, wrong in kinds.items():
        said = _judge(cluster, [wrong], check=False)
        assert "noSuchField" in said, f"{kind} with an unknown field: {said}"
    seccomp = "podSecurityContext.seccompProfile.type=Unconfined"
    said = _judge(cluster, _render(cluster, namespace, values, seccomp), check=False)
    assert "would violate PodSecurity" in said, said
    return f"an unknown field is refused in each of {len(kinds)} kinds, and pods without seccomp are warned of"


def _life(cluster: Cluster, values: Path) -> str:
    began = time.monotonic()
    name = values.name.removesuffix("-values.yaml")
    namespace = Namespace(cluster.api, f"ci-{name}")
    given = ("--namespace", namespace.name, "--values", str(values))
    done = cluster.helm("install", RELEASE, str(CHART), *given)
    assert "warning" not in done.stderr.lower(), done.stderr
    objects = _render(cluster, namespace, values)
    _strictly(cluster, objects)
    if any(each["kind"] == "ServiceMonitor" for each in objects):
        for kind in KINDS:
            others = _render(cluster, namespace, values, f"serviceMonitor.kind={kind}")
            assert kind in {each["kind"] for each in others}
            _strictly(cluster, others)
    pods = _wait_for_pods(namespace)
    budgets = _wait_for_budgets(namespace, objects)
    rights = _rights_of_accounts(namespace)
    cluster.helm("upgrade", RELEASE, str(CHART), *given, "--set", "settings.log_level=debug")
    _wait_for_log_level(namespace)
    cluster.helm("uninstall", RELEASE, "--namespace", namespace.name, "--wait", "--timeout", "60s")
    claims = {
        f"persistentvolumeclaim/{claim['metadata']['name']}-{each['metadata']['name']}-0"
        for each in objects
        if each["kind"] == "StatefulSet"
        for claim in each["spec"].get("volumeClaimTemplates", ())
    }
    wait_until(
        lambda: left_in(cluster, namespace), lambda left: left == claims, deadline_s=CONTROLLERS_S
    )
    return (
        f"{name}: {len(objects)} objects taken, {pods} pods and {budgets} budgets made, rights: {rights}; "
        f"left: {', '.join(sorted(claims)) or 'nothing'}; {time.monotonic() - began:.1f} s"
    )


def _render(
    cluster: Cluster, namespace: Namespace, values: Path, *assigned: str
) -> list[dict[str, Any]]:
    release = cluster.api.get("/version")["gitVersion"]
    done = cluster.helm(
        *("template", RELEASE, str(CHART), "--namespace", namespace.name, "--values", str(values)),
        *("--kube-version", release, *(part for each in assigned for part in ("--set", each))),
    )
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def _judge(cluster: Cluster, objects: list[dict[str, Any]], *, check: bool) -> str:
    """Return what the API server has to say of objects that it does not keep."""
    # Not as a List: of its items kubectl itself would compare the fields, and with less.
    documents = "---\n".join(f"{json.dumps(each)}\n" for each in objects)
    strict = ("apply", "--server-side", "--force-conflicts", "--dry-run=server")
    return cluster.kubectl(
        *strict, "--validate=strict", "-f", "-", stdin=documents, check=check
    ).stderr


def _strictly(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    said = _judge(cluster, objects, check=True)
    assert said == "", said


def _wait_for_pods(namespace: Namespace) -> int:
    """Wait until each workload has all its pods: admission has refused none. Tokens are in the driver's alone."""
    want: int = sum(each["spec"]["replicas"] for each in namespace.workloads())
    try:
        pods = namespace.wait_for_pods(lambda found: len(found) == want, CONTROLLERS_S)
    except AssertionError as error:
        raise AssertionError(f"{want} pods were wanted: {namespace.warnings()}") from error
    for pod in pods:
        sources = [s for v in pod["spec"]["volumes"] for s in v.get("projected", {}).get("sources", ())]  # fmt: skip
        has_token = any("serviceAccountToken" in each for each in sources)
        assert has_token is _is_driver(pod["spec"]["serviceAccountName"]), pod["metadata"]["name"]
    return want


def _wait_for_budgets(namespace: Namespace, objects: list[dict[str, Any]]) -> int:
    """Wait until each budget, which has the name of its Deployment, counts the Deployment's pods."""
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in objects if each["kind"] == "Deployment"}  # fmt: skip
    names = {each["metadata"]["name"] for each in objects if each["kind"] == "PodDisruptionBudget"}
    want = {name: replicas[name] for name in names}
    wait_until(
        lambda: {
            each["metadata"]["name"]: each.get("status", {}).get("expectedPods")
            for each in namespace.budgets()
        },
        lambda seen: seen == want,
        deadline_s=CONTROLLERS_S,
    )
    return len(want)


def _rights_of_accounts(namespace: Namespace) -> str:
    """Compare what each account of the release may do, beyond what any account may, with what is promised; return it in words."""
    names = [
        each["metadata"]["name"] for each in namespace.api.items(namespace.path("serviceaccounts"))
    ]
    elsewhere = Namespace(namespace.api, "default", create=False)
    common = _rights(elsewhere, "default:default")
    words = []
    for name in names:
        account = f"{namespace.name}:{name}"
        held = _rights(namespace, account) - common
        assert held == (DRIVER if _is_driver(name) else frozenset()), (account, held)
        assert _rights(elsewhere, account) == common, account
        words.append(f"{name} {'pods' if held else 'none'}")
    return ", ".join(words)


def _is_driver(account: str) -> bool:
    return account.endswith("-stream")


def _rights(namespace: Namespace, account: str) -> frozenset[Right]:
    """Return what an account, `namespace:name`, may do in a namespace, as the API server's authorizers list it."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    user = {"Impersonate-User": f"system:serviceaccount:{account}"}
    answer = namespace.api.ask("POST", path, {"spec": {"namespace": namespace.name}}, **user)
    assert answer.is_success, answer.text
    status = answer.json()["status"]
    assert status["incomplete"] is False, status
    return frozenset(
        (group, resource, verb)
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def _wait_for_log_level(namespace: Namespace) -> None:
    """Wait until the controllers have seen templates whose containers get the changed setting."""

    def unchanged() -> list[str]:
        return [
            each["metadata"]["name"]
            for each in namespace.workloads()
            if each["status"].get("observedGeneration") != each["metadata"]["generation"]
            or {"name": "KCM_LOG_LEVEL", "value": "debug"}
            not in each["spec"]["template"]["spec"]["containers"][0]["env"]
        ]

    wait_until(unchanged, lambda names: not names, deadline_s=CONTROLLERS_S)


def left_in(cluster: Cluster, namespace: Namespace) -> set[str]:
    """Return what is in a namespace besides what is in any."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--namespaced", "--output=name")
    wanted = ",".join(each for each in kinds.stdout.split() if not each.startswith("events"))
    found = cluster.kubectl("get", wanted, "--namespace", namespace.name, "--output=name")
    return set(found.stdout.split()) - _OF_EACH_NAMESPACE
