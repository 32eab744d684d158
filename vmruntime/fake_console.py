"""The console of a pretended guest, for `FakeRuntime.attach`: a terminal that echoes, and a shell that reads it.

The shell is there where the VM's command reads the console (`stdin`, `tty`); it knows `echo …` and `exit N`, and ends
with its input. Elsewhere what is typed is only echoed, as by a terminal that nobody reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from vmruntime.fake_host import FakeHost, FakeVm
from vmruntime.process import Source, Terminal

END_OF_INPUT = b"\x04"


class FakeConsole:
    """See `vmruntime.process.GuestProcess`."""

    def __init__(self, host: FakeHost, vm: FakeVm) -> None:
        self._host, self._vm = host, vm
        self._seen = len(vm.console)
        self._closed = False
        self.code: int | None = None

    async def output(self) -> AsyncIterator[tuple[Source, bytes]]:
        while not self._closed:
            changed = self._host.console_changed
            fresh = bytes(self._vm.console[self._seen :])
            self._seen = len(self._vm.console)
            if fresh:
                yield Source.STDOUT, fresh
            elif not self._vm.running:
                self.code = 0
                return
            else:
                await changed.wait()

    async def write(self, data: bytes) -> None:
        for typed in data.replace(b"\r", b"\n").splitlines(keepends=True):
            if self._vm.running:
                self._type(typed)

    def _type(self, typed: bytes) -> None:
        vm = self._vm
        self._host.show(vm.spec.uuid, typed.replace(END_OF_INPUT, b"").replace(b"\n", b"\r\n"))
        if not (vm.spec.stdin or vm.spec.tty):
            return
        vm.typed += typed
        if not vm.typed.endswith((b"\n", END_OF_INPUT)):
            return
        line, ends, _ = vm.typed.partition(END_OF_INPUT)
        vm.typed = b""
        match line.decode(errors="replace").split():
            case ["echo", *words]:
                self._host.show(vm.spec.uuid, " ".join(words).encode() + b"\r\n")
            case ["exit", code] if code.isdigit():
                self._host.power_off(vm.spec.uuid, int(code))
            case _:
                pass
        if ends:
            self._host.power_off(vm.spec.uuid, 0)

    async def end_input(self) -> None:
        await self.write(END_OF_INPUT)

    async def resize(self, size: Terminal) -> None:
        """Nobody in there looks."""

    async def close(self) -> None:
        self._closed = True
