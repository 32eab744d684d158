"""The process in which expressions are evaluated: jobs come in on standard input, answers go out on standard output.

What an expression may take is bounded by the kernel: memory by a limit, time by an alarm. Either ends this process,
and the hub starts another.
"""

from __future__ import annotations

import resource
import signal
import struct
import sys
from dataclasses import asdict
from typing import BinaryIO

import orjson

from kubeapi import celjobs

MEMORY = 1024 * 1024 * 1024
"""Bytes of address space. The interpreter and the library have some 250 MB of it."""
SECONDS = 1.0
"""For one job. The reference stops by a count of steps that takes about 0.1 s."""
HEADER = struct.Struct("!I")


def main(source: BinaryIO, sink: BinaryIO) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the hub, which then closes our input
    while len(header := source.read(HEADER.size)) == HEADER.size:
        data = source.read(HEADER.unpack(header)[0])
        signal.setitimer(signal.ITIMER_REAL, SECONDS)  # nobody catches it: it ends the process
        outcomes = celjobs.run(celjobs.from_json(orjson.loads(data)))
        answer = orjson.dumps([asdict(item) for item in outcomes])
        signal.setitimer(signal.ITIMER_REAL, 0)
        sink.write(HEADER.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
