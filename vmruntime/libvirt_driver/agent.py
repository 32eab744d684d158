"""Speaking with the guest's agent. Blocking: called in the connection's threads."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libvirt
import libvirt_qemu

from vmruntime.api import ExecResult, GuestUnavailable

ANSWER_SECONDS = 3
"""How long the agent may take for one answer. With CPU to run on it answers in milliseconds, or it is hung."""
_SLOW_ANSWER_SECONDS = 30
"""The same for a guest that is allowed the smallest CPU limit."""
_SLOW_BELOW_MILLICORES = 100
_POLL_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1)
_FACTS = ("/proc/sys/kernel/random/boot_id", "/sys/devices/system/cpu/online", "/proc/meminfo")


@dataclass(frozen=True, slots=True)
class GuestFacts:
    boot_id: str
    vcpus_online: int
    total_kib: int
    spare_kib: int
    """Free, or quickly freed: half of what caches hold counts. Not MemAvailable, which also leaves out
    reserves that the kernel keeps in proportion to its memory, and so would have a guest use more the more
    it is given."""


def patience(limit_millicores: int | None) -> int:
    """Seconds that the agent may take for one answer under that CPU limit: an answer costs some 10 ms of an emulated
    CPU, which at 10m are given out over a second, more on a busy host."""
    if limit_millicores is None or limit_millicores >= _SLOW_BELOW_MILLICORES:
        return ANSWER_SECONDS
    return min(_SLOW_ANSWER_SECONDS, ANSWER_SECONDS * _SLOW_BELOW_MILLICORES // limit_millicores)


def facts(domain: Any, answer_seconds: int = ANSWER_SECONDS) -> GuestFacts:
    """One program in the guest tells all. Raises GuestUnavailable (and libvirtError)."""
    answer = run(domain, ("cat", *_FACTS), timeout=answer_seconds, answer_seconds=answer_seconds)
    return parse_facts(answer.stdout.decode(errors="replace"))


def parse_facts(text: str) -> GuestFacts:
    lines = text.splitlines()
    numbers = {match[1]: int(match[2]) for match in re.finditer(r"^([\w()]+):\s+(\d+) kB", text, re.MULTILINE)}
    try:
        caches = numbers["Active(file)"] + numbers["Inactive(file)"] + numbers["SReclaimable"]
        return GuestFacts(lines[0], count_cpus(lines[1]), numbers["MemTotal"], numbers["MemFree"] + caches // 2)
    except (IndexError, KeyError, ValueError) as error:
        raise GuestUnavailable(f"the guest's agent answered without its facts: {text[:80]!r}") from error


def count_cpus(ranges: str) -> int:
    """`0-1,3` is three CPUs: the guest brings online whichever it likes."""
    count = 0
    for part in ranges.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def run(
    domain: Any,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float,
    answer_seconds: int = ANSWER_SECONDS,
) -> ExecResult:
    """Run a program to its end. One that is still running at the timeout is killed, and GuestUnavailable raised."""
    arguments: dict[str, object] = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
    if stdin:
        arguments["input-data"] = b64encode(stdin).decode()
    try:
        pid = _ask(domain, "guest-exec", arguments, answer_seconds)["pid"]
    except libvirt.libvirtError as error:
        if "Failed to execute child process" in str(error):
            return ExecResult(127, b"", f"{argv[0]}: not found or not executable\n".encode())
        raise
    waited, polls = 0.0, iter(_POLL_SECONDS)
    pause = threading.Event()
    while True:
        status = _ask(domain, "guest-exec-status", {"pid": pid}, answer_seconds)
        if status["exited"]:
            return _result(status)
        if waited >= timeout:
            _ask(domain, "guest-exec", {"path": "kill", "arg": ["-9", str(pid)]}, answer_seconds)
            raise GuestUnavailable(f"{argv[0]} had not ended in the guest after {timeout:g} s and was killed")
        step = next(polls, _POLL_SECONDS[-1])
        pause.wait(step)
        waited += step


def _ask(domain: Any, command: str, arguments: dict[str, object], answer_seconds: int) -> dict[str, Any]:
    request = json.dumps({"execute": command, "arguments": arguments})
    answer = json.loads(libvirt_qemu.qemuAgentCommand(domain, request, answer_seconds, 0))
    result: dict[str, Any] = answer["return"]
    return result


def _result(status: dict[str, Any]) -> ExecResult:
    code = status.get("exitcode", 128 + status.get("signal", 0))
    return ExecResult(code, b64decode(status.get("out-data", "")), b64decode(status.get("err-data", "")))


def begin(domain: Any, argv: Sequence[str], answer_seconds: int = ANSWER_SECONDS) -> int:
    """Start a program and leave it to itself; its process id. Raises GuestUnavailable (and libvirtError)."""
    answer = _ask(domain, "guest-exec", {"path": argv[0], "arg": list(argv[1:])}, answer_seconds)
    return int(answer["pid"])


def lives(domain: Any, pid: int, answer_seconds: int = ANSWER_SECONDS) -> bool:
    """Whether a program that was begun still runs. The agent forgets one that has ended when it has said so."""
    try:
        return not _ask(domain, "guest-exec-status", {"pid": pid}, answer_seconds)["exited"]
    except libvirt.libvirtError as error:
        if "Invalid parameter" in str(error):
            return False
        raise
