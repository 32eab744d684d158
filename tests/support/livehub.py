"""A hub with real agents over pretended VMs, in a process of its own, for tests that drive clients which block.

`python -m tests.support.livehub DIRECTORY NODES` says where it serves in one line of JSON, does what it is told on
standard input (`forget`), and ends when that does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from tests.support.boxes import Box
from tests.support.hub import Lab, in_memory, lab, until

_ROOT = Path(__file__).parents[2]
_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LiveHub:
    kubeconfig: Path
    url: str
    process: subprocess.Popen[str]

    def forget_history(self) -> None:
        """Compact the store up to now: who wants an older revision is told 410."""
        self._tell("forget")

    def _tell(self, command: str) -> None:
        given, answers = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)
        given.write(command + "\n")
        given.flush()
        answer = answers.readline()
        assert answer == "done\n", f"{command}: {answer!r}"


@contextmanager
def live_hub(directory: Path, nodes: int = 2) -> Iterator[LiveHub]:
    """Its nodes are n1, n2, …, each with 8 CPUs and 16 GiB, Ready."""
    log = directory / "hub.log"
    command = [sys.executable, "-m", "tests.support.livehub", str(directory), str(nodes)]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            line = cast(IO[str], process.stdout).readline()
            assert line, f"the hub did not start: {log.read_text()}"
            found = json.loads(line)
            yield LiveHub(Path(found["kubeconfig"]), found["url"], process)
        finally:
            cast(IO[str], process.stdin).close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    said = log.read_text()
    assert (process.returncode, "Traceback" in said) == (0, False), said


async def _serve(directory: Path, nodes: int) -> None:
    network = in_memory()
    async with AsyncExitStack() as stack:
        # Patient with its nodes: under load a lease may be late, and what these tests compare must not tell.
        made = await stack.enter_async_context(lab(directory / "hub", network, lease_timeout=30.0))
        boxes = [Box(f"n{number + 1}", directory / f"n{number + 1}", network) for number in range(nodes)]
        for box in boxes:
            box.start()
            stack.push_async_callback(box.stop)
        for box in boxes:
            await until(partial(made.ready, box.name, "True"), f"{box.name} is Ready")
        found = {"kubeconfig": str(made.hub.kubeconfig), "url": f"https://127.0.0.1:{made.hub.port}"}
        print(json.dumps(found), flush=True)
        await _obey(made)


async def _obey(made: Lab) -> None:
    lines = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    try:
        while line := await lines.readline():
            if line == b"forget\n":
                store = made.hub.objects.store
                await store.compact(store.revision)
            print("done", flush=True)
    finally:
        transport.close()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
