"""The hub's API over loopback HTTP: lists, durable creates, a crowd of watchers; the server is a process of its own.

Rates of a server are told by its own CPU time (what one core could do), since the load comes from the same machine;
the peer is aiohttp that answers the same bytes. Creates are by the clock: they wait for the disk.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.apiserver import TOKEN
from bench.result import Result

PODS = "/api/v1/namespaces/default/pods"
LISTED, LISTS, LIST_CONNECTIONS = 100, 3000, 8
CREATES, WRITERS = 4000, 64
WATCHERS, CHANGES = 5000, 10


async def api() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="copepod-bench-") as directory:
        results = await _lists(Path(directory))
        results += await _creates("sqlite", str(Path(directory) / "creates.db"), Path(directory))
        with _postgres() as url:
            if url:
                results += await _creates("postgresql", url, Path(directory))
        results.append(await _watchers(str(Path(directory) / "watches.db")))
    return results


async def _lists(directory: Path) -> list[Result]:
    async with _server(str(directory / "lists.db")) as server:
        async with _connected(server.port, 1) as (client,):
            for number in range(LISTED):
                await client.ask("POST", PODS, _pod(f"pod-{number}"))
            body = await client.ask("GET", PODS)
        ours = await _cpu_each(server, "GET", PODS)
        one = await _cpu_each(server, "GET", f"{PODS}/pod-7")
    bare = [await _bare(directory, content) for content in (body, body[: len(body) // LISTED])]
    peer = "bare aiohttp, same bytes"
    return [
        Result("api_list_100_pods", 1 / ours, "/s of a core", 1 / bare[0], peer, f"{len(body)} B a list"),
        Result("api_list_100_pods_beyond_http", 1 / max(ours - bare[0], 1e-9), "/s of a core", note="without aiohttp"),
        Result("api_list_cpu", ours * 1e6, "µs", bare[0] * 1e6, peer),
        Result("api_get_cpu", one * 1e6, "µs", bare[1] * 1e6, peer),
    ]


async def _bare(directory: Path, content: bytes, method: str = "GET", body: bytes = b"") -> float:
    file = directory / "bare.json"
    file.write_bytes(content)
    async with _server("bare", str(file)) as server:
        return await _cpu_each(server, method, PODS, body)


async def _cpu_each(server: Server, method: str, path: str, body: bytes = b"") -> float:
    """Seconds of the server's CPU for one request, the best of three rounds (others use this machine, too)."""
    rounds = []
    async with _connected(server.port, LIST_CONNECTIONS) as clients:
        for _ in range(3):
            before = server.cpu()
            await _share(clients, LISTS, lambda client, _number: client.ask(method, path, body))
            rounds.append((server.cpu() - before) / LISTS)
    return min(rounds)


async def _creates(name: str, store: str, directory: Path) -> list[Result]:
    async with _server(store) as server, _connected(server.port, WRITERS) as clients:

        async def warm_up(client: Client, number: int) -> None:
            await client.ask("POST", PODS, _pod(f"first-{number}"))

        async def create(client: Client, number: int) -> None:
            await client.ask("POST", PODS, _pod(f"pod-{number}"))

        await _share(clients, WRITERS, warm_up)  # what is compiled and imported once
        cpu, began = server.cpu(), time.perf_counter()
        await _share(clients, CREATES, create)
        took, cpu = time.perf_counter() - began, (server.cpu() - cpu) / CREATES
        answer = await clients[0].ask("GET", f"{PODS}/pod-0")
    bare = await _bare(directory, answer, "POST", _pod("pod-1"))
    waited = f"the server had {cpu * CREATES / took * 100:.0f} % of a core"
    return [
        Result(f"api_create_{name}", CREATES / took, "/s", note=f"{WRITERS} clients; {waited}"),
        Result(f"api_create_{name}_core", 1 / cpu, "/s of a core", 1 / bare, "bare aiohttp, same bytes"),
        Result(f"api_create_{name}_cpu", cpu * 1e6, "µs", bare * 1e6, "bare aiohttp, same bytes"),
    ]


async def _watchers(store: str) -> Result:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    async with _server(store) as server, _connected(server.port, 1) as (writer,):
        crowd = [Watcher() for _ in range(WATCHERS)]
        for start in range(0, WATCHERS, 100):
            some = crowd[start : start + 100]
            await asyncio.gather(
                *(loop.create_connection(_always(watcher), "127.0.0.1", server.port) for watcher in some)
            )
            await asyncio.gather(*(watcher.begun.wait() for watcher in some))
        await writer.ask("POST", PODS, _pod("first"))  # what is compiled and imported once
        await asyncio.sleep(1)
        cpu = server.cpu()
        for number in range(CHANGES):
            for watcher in crowd:
                watcher.expect(f'"name":"pod-{number}"'.encode())
            began = loop.time()
            await writer.ask("POST", PODS, _pod(f"pod-{number}"))
            async with asyncio.timeout(30):
                delays += [await watcher.seen - began for watcher in crowd]
        cpu = (server.cpu() - cpu) / CHANGES / WATCHERS
        for watcher in crowd:
            watcher.close()
    delays.sort()
    half = delays[len(delays) // 2] * 1000
    note = f"{WATCHERS} watchers, {CHANGES} creations; p50 {half:.0f} ms; {cpu * 1e6:.0f} µs CPU an event and watcher"
    return Result("api_watch_p99", delays[len(delays) * 99 // 100] * 1000, "ms", note=note)


def _always(watcher: Watcher) -> Callable[[], Watcher]:
    return lambda: watcher


class Watcher(asyncio.Protocol):
    """One watch connection. `seen` is when what was expected came."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._text = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(_request("GET", f"{PODS}?watch=true&timeoutSeconds=300&resourceVersion=1"))

    def expect(self, text: bytes) -> None:
        self._text = text
        self.seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.begun.set()
        if self._text and self._text in data and not self.seen.done():
            self.seen.set_result(asyncio.get_running_loop().time())

    def close(self) -> None:
        self._transport.abort()


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    process: psutil.Process

    def cpu(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def _server(*arguments: str) -> AsyncIterator[Server]:
    command = [sys.executable, "-m", "bench.apiserver", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Server(int(await process.stdout.readline()), psutil.Process(process.pid))
    finally:
        process.kill()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Client:
    """One connection that is kept, one request at a time; it costs much less than what it measures."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        self.writer.write(_request(method, path, body))
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = await self.reader.readexactly(length)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.decode()}")
        return answer


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {TOKEN}\r\nAccept: application/json\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@asynccontextmanager
async def _connected(port: int, count: int) -> AsyncIterator[list[Client]]:
    clients = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.writer.close()


async def _share(clients: list[Client], count: int, work: Callable[[Client, int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def one(client: Client) -> None:
        for number in numbers:
            await work(client, number)

    await asyncio.gather(*map(one, clients))


@contextmanager
def _postgres() -> Iterator[str | None]:
    from tests.support import postgres

    if not postgres.installed():
        print(postgres.MISSING, file=sys.stderr)
        yield None
        return
    with postgres.running_postgres(durable=True) as running:
        yield running.fresh()


def _pod(name: str) -> bytes:
    resources = {"cpu": "100m", "memory": "96Mi"}
    container = {"name": "vm", "image": "copepod/micro", "resources": {"limits": resources, "requests": resources}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    return json.dumps(pod).encode()
