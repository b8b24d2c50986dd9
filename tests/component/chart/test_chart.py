"""The chart by helm itself, and Kubernetes' own schemas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dashboards.signals.signal import RUNBOOKS
from kcm.cli.parts import KRAFT_WATCH, load_part
from kraft_source.wire.connection import Access
from tests.component.chart.chart import (
    CHART,
    DOCKERFILE,
    KUBERNETES,
    NAMESPACE,
    NEEDS_HELM,
    ROOT,
    VALUE_SETS,
    Manifest,
    container_of,
    helm,
    localize,
    pod_of,
    render,
    secret_files,
    template,
    variables,
    workloads,
)
from web.guard import OPEN_PATHS, is_own_host

OLDEST_KUBERNETES = "1.25"
LONGEST_NAME = 63
YEAR_S = 365 * 86_400
OPERATORS_KINDS = {"ServiceMonitor", "PodMonitor", "ScrapeConfig", "PrometheusRule"}
"""Their schemas belong to the Prometheus operator, not to Kubernetes."""
NOT_TEXTS = ("1", "2024", "1e3", "0x10", "00", "true", "off", "y", "null")
"""What YAML takes for a number, a truth or nothing, unless it is quoted."""

LEAST = CHART / "ci" / "least-values.yaml"
EVERYTHING = CHART / "ci" / "all-values.yaml"
KRAFT = CHART / "ci" / "kraft-values.yaml"


def semantic(version: str) -> str:
    """Return a version of Kubernetes as helm takes it.

    >>> semantic("1.25")
    '1.25.0'
    """
    return ".".join([*version.split("."), "0"][:3])


each_set = pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)


@NEEDS_HELM
@each_set
def test_helm_lint_finds_nothing(values: Path) -> None:
    """`helm lint --strict` passes with each value set."""
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_HELM
@each_set
def test_every_resource_has_a_name_of_its_own(values: Path) -> None:
    """No two resources meet, and every name is short enough for a label and a host name."""
    manifests = render(values)
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(set(names)) == len(names)
    assert all(len(name) <= LONGEST_NAME for _, name in names)


@NEEDS_HELM
def test_long_names_stay_apart_and_short_enough() -> None:
    """The longest release and cluster names give names that Kubernetes takes, still all different."""
    twins = ["x" * 63 + "a", "x" * 63 + "b", "X" * 64]
    given = [f"--set=clusters.{name}.zookeeper=zk:2181" for name in twins]
    manifests = render(LEAST, *given, "--set", f"fullnameOverride={'r' * 53}")
    watchers = [each for each in workloads(manifests) if container_of(each)["name"] == "watcher"]
    names = {each["metadata"]["name"] for each in watchers}
    assert len(names) == len(twins) + 1
    assert all(len(name) <= LONGEST_NAME for name in names)


@NEEDS_HELM
@each_set
def test_every_manifest_is_valid_for_kubernetes(values: Path) -> None:
    """Each manifest is valid by the schemas of the oldest Kubernetes that is allowed and the newest."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    for version in (OLDEST_KUBERNETES, validator.latest_version()):
        for manifest in render(values, "--kube-version", semantic(version)):
            if manifest["kind"] not in OPERATORS_KINDS:
                validator.validate(manifest, version, strict=True)


@NEEDS_HELM
@pytest.mark.parametrize("name", NOT_TEXTS)
def test_a_name_that_yaml_reads_as_another_type_stays_a_string(name: str, tmp_path: Path) -> None:
    """Names that YAML would read as something else are labels and names as they were given."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    secret = {"name": name, "key": name}
    values: Manifest = {
        "fullnameOverride": name if name[0].isalpha() else "kcm",
        "kafka": {"bootstrapServers": "k:1", "tlsSecret": name, "propertiesSecret": secret},
        "clusters": {name: {"zookeeper": "zk:1", "authSecret": secret}},
        "stream": {"persistence": {"existingClaim": name}, "priorityClassName": name},
        "serviceAccount": {"name": name},
        "dashboards": {"namespace": name},
    }
    path = tmp_path / "values.yaml"
    path.write_text(json.dumps(values))
    versions = ("--kube-version", semantic(OLDEST_KUBERNETES))
    done = helm("template", name, str(CHART), "--namespace", name, "--values", str(path), *versions)
    assert done.returncode == 0, done.stderr
    # Readers of YAML differ in what they take for a text: nothing is left to them.
    bare = re.compile(
        rf"(name|space|instance|cluster|key): {re.escape(name)}$", re.IGNORECASE | re.MULTILINE
    )
    assert not bare.findall(done.stdout)
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]
    for manifest in manifests:
        validator.validate(manifest, OLDEST_KUBERNETES, strict=True)
    watchers = [w for w in workloads(manifests) if container_of(w)["name"] == "watcher"]
    assert [variables(container_of(each))["KCM_CLUSTER"] for each in watchers] == [name]


@NEEDS_HELM
@pytest.mark.parametrize(
    ("release", "given"),
    [
        ("rel", {"nameOverride": "a" * 39 + "-b"}),
        ("rel", {"fullnameOverride": "a" * 38 + "--b"}),
        ("my.app", {}),
        ("a" * 37 + ".b", {}),
    ],
)
def test_every_name_is_one_that_a_service_may_have(release: str, given: dict[str, str]) -> None:
    """Names that are cut, or of a release with dots, begin with a letter and end with no dash."""
    settings = [f"--set={name}={value}" for name, value in given.items()]
    done = helm(
        *("template", release, str(CHART), "--kube-version", KUBERNETES),
        *("--values", str(LEAST), *settings),
    )
    assert done.returncode == 0, done.stderr
    for manifest in filter(None, yaml.safe_load_all(done.stdout)):
        label = manifest["metadata"]["labels"]["app.kubernetes.io/name"]
        for name in (manifest["metadata"]["name"], label):
            assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name), name


@NEEDS_HELM
def test_a_pod_that_serves_nobody_keeps_no_node_from_being_drained() -> None:
    """Where Kubernetes knows of it, budgets count no pod that is not ready."""
    for version, expected in (
        ("1.26.15", None),
        ("1.27.0", "AlwaysAllow"),
        (KUBERNETES, "AlwaysAllow"),
    ):
        budgets = [
            each["spec"].get("unhealthyPodEvictionPolicy")
            for each in render(EVERYTHING, "--kube-version", version)
            if each["kind"] == "PodDisruptionBudget"
        ]
        assert set(budgets) == {expected}


@NEEDS_HELM
def test_a_fold_that_never_becomes_ready_can_be_replaced() -> None:
    """The StatefulSet does not wait for a broken pod before it starts a repaired one."""
    (fold,) = [each for each in render(LEAST) if each["kind"] == "StatefulSet"]
    assert fold["spec"]["podManagementPolicy"] == "Parallel"
    assert fold["spec"].get("updateStrategy", {}).get("type", "RollingUpdate") == "RollingUpdate"


@NEEDS_HELM
def test_an_exporter_serves_once_it_has_caught_up() -> None:
    """Kafka's absence keeps a new one out of the service for as long as it lasts, and takes no old one out."""
    (exporter,) = [
        each for each in workloads(render(LEAST)) if container_of(each)["name"] == "exporter"
    ]
    container = container_of(exporter)
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"
    waits_s = (
        container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"]
    )
    assert waits_s > YEAR_S
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert exporter["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@NEEDS_HELM
@pytest.mark.parametrize("version", ["1.29.9", "1.30.0"])
def test_an_exporter_serves_until_its_service_forgets_it(version: str) -> None:
    """An exporter that is to end first waits, by Kubernetes' own means where it has them, and has time left to end in order."""
    (exporter,) = [
        each
        for each in workloads(render(LEAST, "--kube-version", version))
        if container_of(each)["name"] == "exporter"
    ]
    hook = container_of(exporter)["lifecycle"]["preStop"]
    assert hook == (
        {"sleep": {"seconds": 5}} if version >= "1.30" else {"exec": {"command": ["sleep", "5"]}}
    )


@NEEDS_HELM
@each_set
def test_no_probe_asks_before_the_port_is_open(values: Path) -> None:
    """A part has some seconds to start, and one that hangs at its start is still restarted within minutes."""
    for workload in workloads(render(values)):
        container = container_of(workload)
        startup = container["startupProbe"]
        assert startup["initialDelaySeconds"] >= 3
        assert "initialDelaySeconds" not in container["livenessProbe"]
        if container["name"] != "exporter":
            assert startup["periodSeconds"] * startup["failureThreshold"] <= 300


@NEEDS_HELM
@each_set
def test_the_helm_test_asks_the_exporters_service(values: Path) -> None:
    """`helm test` asks the service's name and port for /readyz, as the images' user; without an exporter there is none."""
    manifests = render(values)
    pods = [each for each in manifests if each["kind"] == "Pod"]
    services = [
        each
        for each in manifests
        if each["kind"] == "Service" and each["metadata"]["name"].endswith("-exporter")
    ]
    assert len(pods) == len(services)
    for pod, service in zip(pods, services, strict=True):
        annotations = pod["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        assert "hook-succeeded" in annotations["helm.sh/hook-delete-policy"], "uninstall leaves it"
        url = urlsplit(pod["spec"]["containers"][0]["command"][-1])
        (port,) = service["spec"]["ports"]
        assert url.netloc == f"{service['metadata']['name']}:{port['port']}"
        assert url.path == "/readyz"
        (exporter,) = [
            each for each in workloads(manifests) if container_of(each)["name"] == "exporter"
        ]
        names = variables(container_of(exporter))["KCM_ALLOWED_HOSTS"].split(",")
        assert is_own_host(url.netloc, names)


@NEEDS_HELM
def test_probes_and_service_monitors_follow_the_web_configuration() -> None:
    """Every part has the file, knows the names of its service, and is probed by a path without password."""
    manifests = render(CHART / "ci" / "web-values.yaml")
    for workload in workloads(manifests):
        container = container_of(workload)
        given = {each["name"]: each.get("value") for each in container["env"]}
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        assert str(Path(given["KCM_WEB_CONFIG_FILE"]).parent) in mounted
        names = given["KCM_ALLOWED_HOSTS"].split(",")
        assert is_own_host(f"kcm-{container['name']}.monitoring.svc:9640", names)
        assert is_own_host("kcm.example.com", names)
        assert not is_own_host("evil.example.com", names)
        probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
        assert {probe["scheme"] for probe in probes} == {"HTTPS"}
        assert {probe["path"] for probe in probes} <= OPEN_PATHS
    monitors = [each for each in manifests if each["kind"] == "ServiceMonitor"]
    assert len(monitors) == 2
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["scheme"] == "https"
        assert endpoint["basicAuth"]["password"] == {"name": "kcm-scraper", "key": "password"}
        assert endpoint["tlsConfig"]["serverName"] == "kcm"


@NEEDS_HELM
def test_probes_only_connect_where_each_client_must_show_a_certificate(tmp_path: Path) -> None:
    """The kubelet has none: it would be refused, and the pod be replaced for ever."""
    values = tmp_path / "values.yaml"
    text = (CHART / "ci" / "web-values.yaml").read_text()
    values.write_text(text.replace("  tls: true\n", "  tls: true\n  clientCertificates: true\n"))
    for workload in workloads(render(values)):
        container = container_of(workload)
        probes = [container[name] for name in container if name.endswith("Probe")]
        assert all(probe["tcpSocket"] == {"port": "metrics"} for probe in probes)
        assert probes


@NEEDS_HELM
def test_an_ingress_leads_to_the_exporter_which_knows_its_names() -> None:
    """Each host has a rule to the exporter's service, and the exporter answers people who ask by it."""
    manifests = render(EVERYTHING)
    (ingress,) = [each for each in manifests if each["kind"] == "Ingress"]
    spec = ingress["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"secretName": "kcm-tls", "hosts": ["kcm.example.com"]}]
    assert [rule["host"] for rule in spec["rules"]] == ["kcm.example.com", "kcm.internal"]
    services = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Service"}
    for rule in spec["rules"]:
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        ports = services[backend["name"]]["spec"]["ports"]
        assert [port["name"] for port in ports] == [backend["port"]["name"]]
    for workload in workloads(manifests):
        names = variables(container_of(workload))["KCM_ALLOWED_HOSTS"].split(",")
        assert all(is_own_host(rule["host"], names) for rule in spec["rules"])
    assert not [each for each in render(LEAST) if each["kind"] == "Ingress"]


@NEEDS_HELM
def test_pods_take_more_labels_and_containers_and_are_spread() -> None:
    """Each part has its own; a constraint without a selector spreads the pods of the part, one of a cluster's watchers."""
    for workload in workloads(render(EVERYTHING)):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert labels["example.com/team"] == "kafka"
        own, *others = pod_of(workload)["containers"]
        assert own["command"][0] == "kcm"
        assert [each["name"] for each in others] == ["proxy"]
        selected = workload["spec"]["selector"]["matchLabels"]
        for each in pod_of(workload).get("topologySpreadConstraints", []):
            given = {"example.com/team": "kafka"} if each["maxSkew"] == 2 else selected
            assert each["labelSelector"]["matchLabels"] == given
        assert ("topologySpreadConstraints" in pod_of(workload)) is (
            workload["kind"] == "Deployment"
        )


@NEEDS_HELM
@each_set
def test_a_network_policy_admits_only_the_given_peers(values: Path) -> None:
    """No rule opens a port to all peers; without a given peer only the chart's own pods have rules."""
    given = yaml.safe_load(values.read_text()).get("networkPolicy", {})
    policies = [each["spec"] for each in render(values) if each["kind"] == "NetworkPolicy"]
    assert len(policies) == given.get("enabled", True)
    for policy in policies:
        assert "Ingress" in policy["policyTypes"]
        assert all(rule["from"] for rule in policy["ingress"])
        admitted = [r["from"] for r in policy["ingress"] if r["ports"][0]["port"] == "metrics"]
        tests = [pod for pod in render(values) if pod["kind"] == "Pod"]
        assert [peers for peers in admitted if peers != given.get("from")] == [
            [{"podSelector": {"matchLabels": _selectors(pod)}}] for pod in tests
        ]
        assert (given.get("from") in admitted) is bool(given.get("from"))


def _selectors(manifest: Manifest) -> dict[str, str]:
    """Return the labels of a manifest that selectors name."""
    labels = manifest["metadata"]["labels"]
    names = ("name", "instance", "component")
    return {(key := f"app.kubernetes.io/{name}"): labels[key] for name in names}


@NEEDS_HELM
def test_scrapes_have_limits_and_relabelings() -> None:
    """Those of the values, after the chart's own; partitions have limits of their own."""
    monitors = {
        m["metadata"]["name"]: m for m in render(EVERYTHING) if m["kind"] == "ServiceMonitor"
    }
    spec = monitors["kcm"]["spec"]
    assert (spec["sampleLimit"], spec["labelLimit"], spec["bodySizeLimit"]) == (50_000, 30, "32MB")
    assert monitors["kcm-partitions"]["spec"]["sampleLimit"] == 2_000_000
    assert "labelLimit" not in monitors["kcm-partitions"]["spec"]
    for monitor in monitors.values():
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["relabelings"][-1] == {"targetLabel": "site", "replacement": "eu-1"}
        (dropped,) = endpoint["metricRelabelings"]
        assert dropped["action"] == "drop"


@NEEDS_HELM
def test_no_secret_is_in_the_manifests() -> None:
    """What is secret comes as a file, in no variable, and the properties in clear are TOML that kcm merges with it."""
    manifests = render(EVERYTHING)
    assert not [each for each in manifests if each["kind"] == "Secret"]
    for workload in workloads(manifests):
        files = secret_files(workload)
        assert files["kafka_properties"] == ("kcm-kafka", "kafka.json")
        container = container_of(workload)
        assert not [each for each in container["env"] if "valueFrom" in each]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "secrets"]
        assert variables(container)["KCM_SECRETS_DIR"] == mount["mountPath"]
        if workload["metadata"]["name"] == "kcm-w-prod":
            assert files["zk_auth"] == ("zk-prod", "auth")
            assert files["zk_tls_key_password"] == ("zk-prod", "key-password")
            assert files["election_auth"] == ("zk-own", "auth")
    (config,) = [each for each in manifests if "kcm.toml" in each.get("data", {})]
    properties = tomllib.loads(config["data"]["kcm.toml"])["kafka_properties"]
    assert properties["security.protocol"] == "SASL_SSL"


@NEEDS_HELM
@each_set
def test_pods_keep_to_the_restricted_standard(values: Path) -> None:
    """Pods run without root, write only to their volumes, and get no variables of services."""
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert user
    manifests = render(values)
    tests = [each["spec"] for each in manifests if each["kind"] == "Pod"]
    every = [pod_of(workload) for workload in workloads(manifests)] + tests
    beside = [each for pod in every for each in pod["containers"][1:]]
    assert all(
        each["securityContext"]
        == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        for each in beside
    )
    for pod in every:
        container = pod["containers"][0]
        # Spark's driver makes pods, where executors are asked for; nothing else talks to Kubernetes.
        drives = "k8s://" in str(container.get("env"))
        assert pod["automountServiceAccountToken"] is drives
        assert pod["enableServiceLinks"] is False
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user.groups()
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@NEEDS_HELM
@each_set
def test_services_budgets_and_policies_select_pods_that_exist(values: Path) -> None:
    """Every selector holds for at least one pod, and for no pod of another part."""
    manifests = render(values)
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in workloads(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector is None or manifest["kind"] == "ServiceMonitor":
            continue
        labels = selector.get("matchLabels", selector)
        chosen = [pod for pod in pods if labels.items() <= pod.items()]
        assert chosen, manifest["metadata"]["name"]
        component = "app.kubernetes.io/component"
        if component in labels:
            assert {pod[component] for pod in chosen} == {labels[component]}


@NEEDS_HELM
def test_the_service_monitor_finds_all_three_parts() -> None:
    """It selects the services of watchers, fold and exporters, and their port exists."""
    manifests = render(EVERYTHING)
    monitors = {m["metadata"]["name"]: m for m in manifests if m["kind"] == "ServiceMonitor"}
    services = [each for each in manifests if each["kind"] == "Service"]

    def chosen(monitor: Manifest) -> set[str]:
        labels = monitor["spec"]["selector"]["matchLabels"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["honorLabels"] is True
        rule, *_ = endpoint["relabelings"]
        # Two scrapes of a target would else have the same `up`.
        assert (rule.get("sourceLabels") == ["__metrics_path__"]) is (
            endpoint["path"] == "/metrics/partitions"
        )
        assert rule["targetLabel"]
        found = [s for s in services if labels.items() <= s["metadata"]["labels"].items()]
        assert all([p["name"] for p in s["spec"]["ports"]] == [endpoint["port"]] for s in found)
        return {each["metadata"]["name"] for each in found}

    assert chosen(monitors["kcm"]) == {"kcm-watcher", "kcm-stream", "kcm-exporter"}
    assert chosen(monitors["kcm-partitions"]) == {"kcm-exporter"}


@NEEDS_HELM
@each_set
def test_the_egress_rules_allow_dns_and_every_server_that_is_named(values: Path) -> None:
    """Where egress is limited, names can be resolved, and Kafka, ZooKeepers and controllers be reached; else there is no rule."""
    given = yaml.safe_load(values.read_text())
    policies = [each["spec"] for each in render(values) if each["kind"] == "NetworkPolicy"]
    limited = {"egress", "limitEgress"} & given.get("networkPolicy", {}).keys()
    assert ["Egress" in policy["policyTypes"] for policy in policies] == [
        bool(limited) for _ in policies
    ]
    servers = [given["kafka"]["bootstrapServers"], given.get("election", {}).get("zookeeper", "")]
    clusters = given.get("clusters", {}).values()
    servers += [each.get("zookeeper") or each["controllers"] for each in clusters]
    wanted = {
        (int(port), "TCP") for each in servers for port in re.findall(r":(\d+)(?=[,/]|$)", each)
    }
    for policy in policies if limited else ():
        opened = {(p["port"], p["protocol"]) for rule in policy["egress"] for p in rule["ports"]}
        assert opened >= wanted | {(53, "UDP"), (53, "TCP")}


@NEEDS_HELM
def test_limited_egress_opens_nothing_that_is_not_named() -> None:
    """The ports of the values' servers, of `helm test`, and those that `egress` adds; of a disabled watcher none."""

    def opened(*arguments: str) -> set[int]:
        (policy,) = [each for each in render(KRAFT, *arguments) if each["kind"] == "NetworkPolicy"]
        return {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}

    assert opened() == {53, 2181, 9092, 9093, 9094, 9095, 9640}
    assert opened("--set=watcher.enabled=false") == {53, 9092, 9094, 9640}
    executors = ("--set=stream.executors.instances=1", "--set=stream.persistence.existingClaim=c")
    assert opened(*executors) == opened() | {443, 6443, 7078, 7079}


@NEEDS_HELM
def test_a_watcher_of_a_kraft_cluster_gets_its_access_and_nothing_of_zookeepers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables and files load as settings that log in as the values say; secrets are in no variable, no election is named."""
    manifests = render(KRAFT)
    secrets = {
        "kafka-modern": {"password": "secret", "key-password": "opens"},
        "kafka-modern-tls": dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "PEM"),
        "kafka-tokens": {"token": "a.b.c"},
    }
    loaded = {}
    for workload in workloads(manifests):
        name = workload["metadata"]["name"].removeprefix("kcm-w-")
        if "KCM_CONTROLLERS" not in variables(container_of(workload)):
            continue
        local = localize(workload, manifests, tmp_path / name, secrets=secrets)
        given = {key: each for key, each in local.environment.items() if key.startswith("KCM_")}
        assert not [key for key in given if "ZOOKEEPER" in key or "ELECTION" in key]
        assert not {"secret", "opens", "a.b.c"} & set(given.values())
        with monkeypatch.context() as patched:
            for key in [key for key in os.environ if key.startswith("KCM_")]:
                patched.delenv(key)
            for key, each in given.items():
                patched.setenv(key, each)
            loaded[name] = load_part(KRAFT_WATCH, None, {})
        assert workload["spec"]["strategy"]["type"] == "RollingUpdate"
    assert loaded.keys() == {"modern", "tokens", "plain"}
    access = loaded["modern"].access()
    assert access.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert access.tls.key_password == secrets["kafka-modern"]["key-password"]
    assert access.tls.certificate.read_text() == "PEM"
    assert (access.credentials.username, access.credentials.password) == ("kcm", "secret")
    assert loaded["modern"].buffer_mib == 128
    tokens = loaded["tokens"].access()
    assert (tokens.tls, tokens.credentials.mechanism) == (None, "OAUTHBEARER")
    assert tokens.credentials.token_file.read_text() == "a.b.c"
    assert loaded["plain"].access() == Access(None, None, None)
    assert [each.port for each in loaded["plain"].endpoints] == [9093]


@NEEDS_HELM
def test_kraft_clusters_alone_need_no_election(tmp_path: Path) -> None:
    """Several watchers of a KRaft cluster run without a path of ZooKeeper; one cluster with ZooKeeper makes it needed again."""
    values = tmp_path / "values.yaml"
    values.write_text("{kafka: {bootstrapServers: 'k:1'}, clusters: {c: {controllers: 'c:9093'}}}")
    assert workloads(render(values, "--set=election.path="))
    done = template("--values", str(KRAFT), "--set=election.path=")
    assert "watcher.replicas: without election.path" in done.stderr


@NEEDS_HELM
def test_the_chart_ships_the_generated_boards_as_they_are() -> None:
    """Each board is a ConfigMap of its own with the sidecar's label, and small enough for one.

    Only their links to runbooks lead to where these are served.
    """
    runbooks = f"http://kcm-exporter.{NAMESPACE}.svc:9640/runbooks"
    boards = {
        path.name: json.loads(path.read_text().replace(RUNBOOKS, runbooks))
        for path in CHART.glob("files/dashboards/*")
    }
    assert any(runbooks in json.dumps(board) for board in boards.values())
    assert boards
    shipped = {}
    for manifest in render(EVERYTHING):
        if manifest["metadata"].get("labels", {}).get("grafana_dashboard") == "1":
            ((name, text),) = manifest["data"].items()
            shipped[name.removeprefix("kcm-")] = json.loads(text)
            assert len(text) < 1 << 20
            assert manifest["metadata"]["namespace"] == "monitoring"
    assert shipped == boards


def _named(group: Manifest) -> tuple[str, list[str]]:
    return group["name"], [rule["alert"] for rule in group["rules"]]


@NEEDS_HELM
def test_the_chart_ships_the_generated_rules_as_they_are(tmp_path: Path) -> None:
    """The PrometheusRule holds the groups of the generated files, and Prometheus takes them.

    What differs in alerts, by what is installed, has tests of its own (`test_chart_rules`).
    """
    groups = [
        group
        for path in sorted(CHART.glob("files/rules/*.yaml"))
        for group in yaml.safe_load(path.read_text())["groups"]
    ]
    (rule,) = [each for each in render(EVERYTHING) if each["kind"] == "PrometheusRule"]
    shipped = rule["spec"]["groups"]
    assert [_named(group) for group in shipped] == [_named(group) for group in groups]
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_runs_the_release_that_it_lies_beside() -> None:
    """The chart's appVersion is the version of the Python package."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
