"""Measure what open live pages cost the exporter: its server in a process of its own, and pages that poll it."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from bench import machine, scrape
from controller_model.records.views import encode_view, view_key
from exporter.serve.server import HttpServer
from pipeline.clock import clock_ms, steady_ms

SUMMARY = "200 live pages that poll a cluster of 10,000 partitions, quiet and with a change each second (1 minute)"

CLUSTER = "bench"
SIZE = {"topics": 1_000, "partitions": 10, "brokers": 100}
VIEWERS = 200
MEASURED_S = 20.0
_HEAD = b"HTTP/1.1 200"


def measure() -> dict[str, Any]:
    """Return the exporter's processor time as a part of one core, and how long answers took."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    child.start()
    try:
        port = ours.recv()
        rows = []
        for changes_per_s in (0, 1):
            ours.send(changes_per_s)
            rows.append(
                asyncio.run(_watched(port, child.pid or 0)) | {"changes_per_s": changes_per_s}
            )
    finally:
        child.kill()
        child.join()
    return {
        "scenario": "viewers",
        "viewers": VIEWERS,
        **SIZE,
        "rows": rows,
        "machine": machine.describe(),
    }


def _serve(pipe: Connection) -> None:
    """Serve the cluster, and change it as often as the pipe says."""
    shown, app = scrape.served(CLUSTER, **SIZE)
    with HttpServer(app, "127.0.0.1", 0) as server:
        pipe.send(server.port)
        changes_per_s = 0
        while True:
            if pipe.poll(1.0):
                changes_per_s = pipe.recv()
            shown.state.status = msgspec.structs.replace(
                shown.state.status, kafka_answered_at=steady_ms()
            )
            if changes_per_s:
                view = shown.views.clusters[CLUSTER].view
                at = msgspec.structs.replace(view.as_of, seq=view.as_of.seq + 1)
                shown.apply_record(
                    view_key(view),
                    encode_view(msgspec.structs.replace(view, as_of=at, folded_at=clock_ms())),
                )


async def _watched(port: int, pid: int) -> dict[str, Any]:
    took_ms: list[float] = []
    counts = {"answers": 0, "bytes": 0, "unchanged": 0}
    pages = [asyncio.create_task(_page(port, number, took_ms, counts)) for number in range(VIEWERS)]
    await asyncio.sleep(3)
    for each in counts:
        counts[each] = 0
    took_ms.clear()
    before, began = _cpu_s(pid), time.perf_counter()
    await asyncio.sleep(MEASURED_S)
    used = (_cpu_s(pid) - before) / (time.perf_counter() - began)
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)
    return {
        "cpu_percent_of_a_core": round(100 * used, 1),
        "p50_ms": round(machine.percentile(took_ms, 50), 2) if took_ms else None,
        "p99_ms": round(machine.percentile(took_ms, 99), 2) if took_ms else None,
        "memory_mib": machine.peak_memory_mib(pid),
        **{f"{name}_per_s": round(count / MEASURED_S) for name, count in counts.items()},
    }


def _cpu_s(pid: int) -> float:
    return machine.added(machine.usage(pid).values()).cpu_s


async def _page(port: int, number: int, took_ms: list[float], counts: dict[str, int]) -> None:
    """Poll as the page does: once a second, with the ETag of the answer before."""
    await asyncio.sleep(number / VIEWERS)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, local_addr=(f"127.0.1.{number % 50 + 1}", 0), limit=1 << 24
    )
    etag = b""
    while True:
        began = time.perf_counter()
        writer.write(
            b"GET /api/v1/page HTTP/1.1\r\nhost: 127.0.0.1\r\naccept-encoding: gzip\r\n"
            + (b"if-none-match: " + etag + b"\r\n" if etag else b"")
            + b"\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        size = int(fields.get(b"content-length", b"0")) if head.startswith(_HEAD) else 0
        await reader.readexactly(size)
        etag = fields.get(b"etag", b"")
        took_ms.append((time.perf_counter() - began) * 1000)
        counts["answers"] += 1
        counts["unchanged"] += not head.startswith(_HEAD)
        counts["bytes"] += len(head) + size
        await asyncio.sleep(max(0.0, 1 - (time.perf_counter() - began)))
