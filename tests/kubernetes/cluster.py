"""A Kubernetes of one node, in the namespaces of the process that starts it (`python -m tests.kubernetes` makes them).

Mounts, network and processes are its own: nothing in it reaches another network, what it writes below /var and /run is in its
folder, and all of it ends with that process. Tokens of a file stand in for certificates, and the API server's self-signed
certificate for an authority.

What belongs to the whole machine stays as it is: the kubelet insists on three settings of the kernel and gets files that
hold its values; scores of the OOM killer are not lowered, which root may not do everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.kubernetes.api import Api, is_ready
from tests.kubernetes.dns import Dns
from tests.kubernetes.go_programs import CONTROL_PLANE, ETCD, KUBE_ROUTER, NODE
from tests.support.waiting import wait_until
from tools.programs import ensure_kubectl

ADDRESS = "172.30.0.1"
"""Of the node, and of the API server."""
PODS, SERVICES = "10.244.0.0/24", "10.96.0.0/16"
NODE_NAME = "node-1"
PAUSE = "localhost/kcm-test-pause:1"
"""The image of each pod's first container, which holds the pod's namespaces."""
CNI_PLUGINS = Path("/usr/lib/cni")
START_S = 120.0
COMMAND_TIMEOUT_S = 600.0
"""Of a helm that waits on a machine that does much else."""
IMPORT_TIMEOUT_S = 600.0
_ETCD_URL = "http://127.0.0.1:2379"
_PEER_URL = "http://127.0.0.1:2380"
_KUBELET_WANTS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
}
_USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
}
"""Name of a configuration -> user and group of its token."""
_SERVERS_S = 60.0


class Cluster:
    """The processes of a cluster. Its folder has a short path, because sockets lie in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for each in ("log", "pki", "tunables"):
            (folder / each).mkdir()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._kubectl = ensure_kubectl()
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(self._file("admin.conf")),
            **{f"HELM_{each}_HOME": str(folder / "helm") for each in ("CACHE", "CONFIG", "DATA")},
        }
        self._mount()
        self.api: Api

    def start_control_plane(self) -> None:
        """Start etcd, the API server, its controllers and the scheduler: objects are judged, and no pod runs."""
        self._connect()
        tokens = self._write_configurations()
        self._make_keys()
        self._start(
            "etcd", ETCD.program("etcd"), "--data-dir", self._file("etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", _ETCD_URL, "--advertise-client-urls", _ETCD_URL,
            "--listen-peer-urls", _PEER_URL, "--initial-advertise-peer-urls", _PEER_URL,
            "--initial-cluster", f"default={_PEER_URL}",
        )  # fmt: skip
        certificate = self._file("pki/apiserver.crt")
        self._start(
            "kube-apiserver", CONTROL_PLANE.program("kube-apiserver"), "--etcd-servers", _ETCD_URL,
            "--bind-address", ADDRESS, "--advertise-address", ADDRESS, "--secure-port", "6443",
            "--cert-dir", certificate.parent, "--token-auth-file", self._file("tokens.csv"),
            "--authorization-mode", "Node,RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", self._file("pki/accounts.pub"),
            "--service-account-signing-key-file", self._file("pki/accounts.key"),
            "--service-cluster-ip-range", SERVICES, "--kubelet-preferred-address-types", "InternalIP",
            "--enable-admission-plugins", "NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true", "--profiling=false",
        )  # fmt: skip
        self._await("kube-apiserver", certificate.is_file)
        self.api = Api(f"https://{ADDRESS}:6443", certificate, tokens["admin"])
        self._await("kube-apiserver", self._answers)
        common = ("--leader-elect=false", "--profiling=false", "--cert-dir")
        self._start(
            "kube-controller-manager", CONTROL_PLANE.program("kube-controller-manager"),
            "--kubeconfig", self._file("controller-manager.conf"), "--use-service-account-credentials=true",
            "--service-account-private-key-file", self._file("pki/accounts.key"), "--root-ca-file", certificate,
            *common, self._file("pki/controller-manager"),
        )  # fmt: skip
        self._start(
            "kube-scheduler", CONTROL_PLANE.program("kube-scheduler"),
            "--kubeconfig", self._file("scheduler.conf"), *common, self._file("pki/scheduler"),
        )  # fmt: skip

    def start_node(self, images: Path, archive: Path | None) -> None:
        """Start what runs pods, with the images of a containerd's folder and those of an archive."""
        self._start_containerd(images, "")
        self._remove_old_containers()
        if archive is not None:
            self._ctr("images", "import", str(archive))
            archive.unlink()
        process = self._processes.pop("containerd")
        process.terminate()
        process.wait(_SERVERS_S)
        self._start_containerd(images, self._cri())
        Dns(self.api, ADDRESS).start()
        self._file("resolv.conf").write_text(f"nameserver {ADDRESS}\n")
        self._start(
            "kubelet", NODE.program("kubelet"), "--config", self._kubelet_configuration(),
            "--kubeconfig", self._file("kubelet.conf"), "--root-dir", self._file("kubelet"),
            "--node-ip", ADDRESS, "--hostname-override", NODE_NAME, "--cert-dir", self._file("pki/kubelet"),
            "--runtime-cgroups", "/",
        )  # fmt: skip
        self._start(
            "kube-proxy", NODE.program("kube-proxy"), "--kubeconfig", self._file("proxy.conf"),
            "--hostname-override", NODE_NAME, "--proxy-mode", "iptables", "--cluster-cidr", PODS,
            "--conntrack-max-per-core", "0", "--oom-score-adj", "0", "--nodeport-addresses", "127.0.0.0/8",
        )  # fmt: skip
        self._await("kubelet", lambda: any(map(is_ready, self.api.items("/api/v1/nodes"))))
        # It ends where it finds no node of its name.
        self._start(
            "kube-router", KUBE_ROUTER.program("kube-router"), "--kubeconfig", self._file("admin.conf"),
            "--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--run-loadbalancer=false",
            "--enable-cni=false", "--hostname-override", NODE_NAME, "--service-cluster-ip-range", SERVICES,
        )  # fmt: skip

    def kubectl(
        self, *arguments: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; one that fails is an AssertionError."""
        return self._command(str(self._kubectl), *arguments, stdin=stdin, check=check)

    def helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run helm; one that fails is an AssertionError."""
        return self._command(str(self._kubectl.with_name("helm")), *arguments)

    def log(self, name: str, lines: int) -> str:
        """Return the end of what a process wrote."""
        written = self._file(f"log/{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(written[-lines:])

    def _command(
        self, *command: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, text=True,
            errors="replace", check=False, timeout=COMMAND_TIMEOUT_S,
        )  # fmt: skip
        if check:
            name = Path(command[0]).name
            assert done.returncode == 0, (
                f"{name} {' '.join(command[1:6])}: {done.stdout}{done.stderr}"
            )
        return done

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _start(self, name: str, *command: object) -> None:
        with self._file(f"log/{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(each) for each in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "KUBECONFIG": ""}, cwd=self.folder,
            )  # fmt: skip

    def _await(self, name: str, holds: Any) -> None:
        """Wait until a process does what it was started for; say what it wrote if it does not."""

        def seen() -> bool:
            for each, process in self._processes.items():
                assert process.poll() is None, (
                    f"{each} ended with {process.returncode}:\n{self.log(each, 10)}"
                )
            return bool(holds())

        try:
            wait_until(seen, deadline_s=START_S)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}\n{self.log(name, 10)}") from error

    def _answers(self) -> bool:
        try:
            return self.api.ask("GET", "/readyz").is_success
        except httpx.HTTPError:
            return False

    def _mount(self) -> None:
        """Put what daemons write, and what they would change of the machine, into the cluster's folder."""
        _tool("mount", "--make-rshared", "/")
        for each in ("upper", "work"):
            self._file(f"var/{each}").mkdir(parents=True)
        layers = (
            f"lowerdir=/var,upperdir={self._file('var/upper')},workdir={self._file('var/work')}"
        )
        _tool("mount", "-t", "overlay", "overlay", "-o", layers, "/var")
        _tool("mount", "-t", "tmpfs", "tmpfs", "/run")
        for name, value in _KUBELET_WANTS.items():
            file = self._file(f"tunables/{name.replace('/', '.')}")
            file.write_text(f"{value}\n")
            _tool("mount", "--bind", file, f"/proc/sys/{name}")
        if Path("/sys/fs/cgroup/unified").is_mount():
            # Beside version 1, libcontainer and crun refuse a version 2.
            _tool("umount", "/sys/fs/cgroup/unified")

    def _connect(self) -> None:
        """Make the node's network: an interface that leads nowhere, and a route, which services' addresses need before they are translated."""
        _tool("ip", "link", "set", "lo", "up")
        _tool("ip", "link", "add", "node0", "type", "bridge")
        _tool("ip", "addr", "add", f"{ADDRESS}/24", "dev", "node0")
        _tool("ip", "link", "set", "node0", "up")
        _tool("ip", "route", "add", "default", "dev", "node0")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _write_configurations(self) -> Mapping[str, str]:
        """Write a configuration with a token for each user; return the tokens."""
        tokens = {name: uuid.uuid4().hex for name in _USERS}
        lines = []
        for name, (user, group) in _USERS.items():
            lines.append(f'{tokens[name]},{user},{name},"{group}"\n')
            server = {
                "server": f"https://{ADDRESS}:6443",
                "certificate-authority": str(self._file("pki/apiserver.crt")),
            }
            configuration = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": server}],
                "users": [{"name": name, "user": {"token": tokens[name]}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
                "current-context": "test",
            }
            self._file(f"{name}.conf").write_text(json.dumps(configuration))
        self._file("tokens.csv").write_text("".join(lines))
        return tokens

    def _make_keys(self) -> None:
        """Make the keys that sign the tokens of accounts."""
        key = self._file("pki/accounts.key")
        _tool("openssl", "genrsa", "-out", key, "2048")
        _tool("openssl", "rsa", "-in", key, "-pubout", "-out", key.with_suffix(".pub"))

    def _start_containerd(self, images: Path, cri: str) -> None:
        disabled = "" if cri else 'disabled_plugins = ["io.containerd.grpc.v1.cri"]'
        self._file("containerd.toml").write_text(
            f"""version = 2
root = "{images}"
state = "{self._file("containerd")}"
{disabled}
[grpc]
  address = "{self._file("cd.sock")}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self._file("opt")}"
{cri}"""
        )
        self._start("containerd", "containerd", "--config", self._file("containerd.toml"))
        self._await("containerd", lambda: self._ctr("version", check=False).returncode == 0)

    def _cri(self) -> str:
        """Return containerd's configuration of the part that the kubelet talks to, and write that of the pods' network."""
        networks = self._file("cni")
        networks.mkdir()
        ranges = {
            "type": "host-local",
            "dataDir": str(self._file("ipam")),
            "ranges": [[{"subnet": PODS}]],
        }
        bridge = {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {**ranges, "routes": [{"dst": "0.0.0.0/0"}]},
        }
        (networks / "pods.conflist").write_text(
            json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})
        )
        return f"""
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{networks}"
"""

    def _remove_old_containers(self) -> None:
        """Remove those of an earlier run, which was killed with its cluster."""
        if old := self._ctr("containers", "list", "--quiet").stdout.split():
            self._ctr("containers", "rm", *old)

    def _ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        socket = ("--address", str(self._file("cd.sock")), "--namespace", "k8s.io")
        return self._command("ctr", *socket, *arguments, check=check)

    def _kubelet_configuration(self) -> Path:
        (self._file("pki") / "kubelet").mkdir()
        path = self._file("kubelet.yaml")
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                    "authorization": {"mode": "AlwaysAllow"},
                    "address": ADDRESS,
                    "cgroupDriver": "cgroupfs",
                    "failCgroupV1": False,
                    "clusterDNS": [ADDRESS],
                    "clusterDomain": "cluster.local",
                    "containerRuntimeEndpoint": f"unix://{self._file('cd.sock')}",
                    "resolvConf": str(self._file("resolv.conf")),
                    "failSwapOn": False,
                    "oomScoreAdj": 0,
                    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                    "imageGCHighThresholdPercent": 99,
                    "imageGCLowThresholdPercent": 98,
                    "syncFrequency": "10s",
                }
            )
        )  # fmt: skip
        return path


def _tool(*command: object) -> None:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command[:4]))}: {done.stderr.strip()}"
