"""Evaluates expressions that strangers wrote, in a process of its own: the hub neither waits nor grows with them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

import orjson

from kubeapi import celjobs
from kubeapi.celjobs import Job, Outcome
from kubeapi.server.celworker import HEADER, SECONDS

_log = logging.getLogger(__name__)

_START_SECONDS = 20.0
"""For the process to begin and answer, on a machine that is busy with other things; its own alarm is the real limit."""
_MAX_JOB = 32 * 1024 * 1024
"""Bytes: some objects of the greatest size, and their parameters."""
_EXHAUSTED = "operation cancelled: actual cost limit exceeded"


class Evaluator:
    """One process, started when it is first needed, and again after an expression has ended it. One job at a time."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def run(self, job: Job) -> Sequence[Outcome]:
        """In the order of the job's expressions; of all of them that they took too much, where one did."""
        if not job.expressions:
            return []
        data = orjson.dumps(celjobs.to_json(job), option=orjson.OPT_NON_STR_KEYS)
        if len(data) > _MAX_JOB:
            return [Outcome(None, f"the values are more than {_MAX_JOB} bytes", True)] * len(job.expressions)
        async with self._turn:
            try:
                async with asyncio.timeout(_START_SECONDS + SECONDS):
                    answer = await self._exchange(data)
            except (OSError, EOFError, TimeoutError) as error:
                await self._end()
                _log.warning("expressions took more time or memory than they may (%r): %s", error, job.expressions)
                return [Outcome(None, _EXHAUSTED, True)] * len(job.expressions)
            except asyncio.CancelledError:
                await self._end()  # it would answer whom nobody waits for
                raise
        return [Outcome(**item) for item in orjson.loads(answer)]

    async def close(self) -> None:
        await self._end()

    async def _exchange(self, data: bytes) -> bytes:
        """Raises OSError, EOFError."""
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kubeapi.server.celworker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        assert process.stdin
        assert process.stdout
        process.stdin.write(HEADER.pack(len(data)) + data)
        await process.stdin.drain()
        size = HEADER.unpack(await process.stdout.readexactly(HEADER.size))[0]
        return await process.stdout.readexactly(size)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdin:
            process.stdin.close()
