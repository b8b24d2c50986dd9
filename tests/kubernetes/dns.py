"""A DNS server for the names of a cluster's services, as CoreDNS gives them: for pods of one node, over UDP, for IPv4.

CoreDNS itself would bring the clients of three clouds into the build.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx

from tests.kubernetes.api import Api

POLL_S = 0.5
_HEADER = struct.Struct(">HHHHHH")
_QUESTION = struct.Struct(">HH")
_RECORD = struct.Struct(">HHHIH")
_POINTER_TO_QUESTION = 0xC00C
_AUTHORITATIVE, _NO_SUCH_NAME = 0x8580, 3
_A, _IN, _TTL_S = 1, 1, 1
_SUFFIX = "svc.cluster.local"

Names = Mapping[str, tuple[str, ...]]


class Dns:
    """The server: it asks the API server for services and their endpoints again and again."""

    def __init__(self, api: Api, address: str) -> None:
        self._api = api
        self._names: Names = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))

    def start(self) -> None:
        """Serve until the process ends."""
        for run in (self._poll, self._serve):
            threading.Thread(target=run, daemon=True).start()

    def _poll(self) -> None:
        while True:
            try:
                services = self._api.items("/api/v1/services")
                slices = self._api.items("/apis/discovery.k8s.io/v1/endpointslices")
                self._names = names_of(services, slices)
            except (AssertionError, httpx.HTTPError):
                logging.getLogger(__name__).exception("the names stay as they were")
            time.sleep(POLL_S)

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4096)
            self._socket.sendto(answer(query, self._names), client)


def names_of(services: list[dict[str, Any]], slices: list[dict[str, Any]]) -> Names:
    """Return the addresses of each name: a service's own address, or those of a headless one's pods, also by their host names."""
    found: dict[str, tuple[str, ...]] = {}
    headless = {}
    for each in services:
        name = f"{each['metadata']['name']}.{each['metadata']['namespace']}.{_SUFFIX}"
        address = each["spec"].get("clusterIP")
        if address == "None":
            headless[name] = each["spec"].get("publishNotReadyAddresses", False)
            found[name] = ()
        elif address:
            found[name] = (address,)
    for each in slices:
        service = each["metadata"].get("labels", {}).get("kubernetes.io/service-name")
        name = f"{service}.{each['metadata']['namespace']}.{_SUFFIX}"
        for endpoint in each.get("endpoints") or () if name in headless else ():
            if headless[name] or endpoint["conditions"].get("ready", True):
                found[name] += tuple(endpoint["addresses"])
                if host := endpoint.get("hostname"):
                    found[f"{host}.{name}"] = tuple(endpoint["addresses"])
    return found


def answer(query: bytes, names: Names) -> bytes:
    r"""Return the answer to a query with one question.

    >>> query = bytes.fromhex("abcd01000001000000000000") + b"\x01a\x01b\x00\x00\x01\x00\x01"
    >>> answer(query, {"a.b": ("10.0.0.7",)}).hex()[-8:]
    '0a000007'
    >>> answer(query, {}).hex()[:8]
    'abcd8583'
    """
    labels, at = [], _HEADER.size
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    end = at + 1 + _QUESTION.size
    kind, _ = _QUESTION.unpack(query[at + 1 : end])
    addresses = names.get(".".join(labels).lower())
    flags = _AUTHORITATIVE | (_NO_SUCH_NAME if addresses is None else 0)
    given = (addresses or ()) if kind == _A else ()
    head = _HEADER.pack(int.from_bytes(query[:2], "big"), flags, 1, len(given), 0, 0)
    records = [
        _RECORD.pack(_POINTER_TO_QUESTION, _A, _IN, _TTL_S, 4) + socket.inet_aton(address)
        for address in given
    ]
    return b"".join([head, query[_HEADER.size : end], *records])
