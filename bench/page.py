"""Measure the cost of opening the live page and of its searches, requested over HTTP as a browser does."""

from __future__ import annotations

import gzip
import http.client
import json
import time
from typing import Any
from urllib.parse import urlencode

from bench import machine
from exporter.live.page_answers import PATH
from exporter.serve.server import HttpServer

OPENED = 20
SEARCHED = 20
_DEADLINE_S = 60


def measure(server: HttpServer, cluster: str, *, topic: str) -> dict[str, Any]:
    """Open the page and search all partitions; times in milliseconds.

    No search is answered from a cache: each requests a different number of rows.
    """
    searches = {
        "a topic's name": {"text": topic},
        "a condition": {"filter": "without-state"},
        "a broker": {"broker": "1"},
        "nothing": {},
    }
    opened = [_opened(server) for _ in range(OPENED)]
    return {
        "first picture": {**_times([each[0] for each in opened]), **opened[-1][1]},
        "searches": {name: _searched(server, cluster, asked) for name, asked in searches.items()},
    }


def _opened(server: HttpServer) -> tuple[float, dict[str, int]]:
    """Return the time until the first poll is answered, and the size in bytes."""
    began = time.perf_counter()
    client = http.client.HTTPConnection(server.host, server.port, timeout=_DEADLINE_S)
    client.request("GET", PATH, headers={"accept-encoding": "gzip"})
    taken = client.getresponse().read()
    took_ms = (time.perf_counter() - began) * 1000
    client.close()
    return took_ms, {"bytes": len(taken), "bytes_unpacked": len(gzip.decompress(taken))}


def _searched(server: HttpServer, cluster: str, asked: dict[str, str]) -> dict[str, Any]:
    client = http.client.HTTPConnection(server.host, server.port, timeout=_DEADLINE_S)
    took_ms, matched = [], 0
    for number in range(SEARCHED):
        query = urlencode({**asked, "limit": 50 + number})
        began = time.perf_counter()
        client.request("GET", f"/api/v1/clusters/{cluster}/search?{query}")
        body = client.getresponse().read()
        took_ms.append((time.perf_counter() - began) * 1000)
        matched = json.loads(body)["matched"]
    client.close()
    return {**_times(took_ms), "matched": matched}


def _times(took_ms: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(machine.percentile(took_ms, 50), 2),
        "p99_ms": round(machine.percentile(took_ms, 99), 2),
    }
