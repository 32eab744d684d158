"""Removes a lab without a trace, and nothing that is not the lab's.

What belongs to it is read from its own state directory: process ids (checked against the command line, since ids are
used again), the installation ids of its nodes' stores (only domains that carry one of them are removed), the name of
its packet-drop table.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

from edgelab import disks, faults, nodestore, ownvms, state
from edgelab.nodestore import NoStore
from edgelab.process import Say
from edgelab.state import LabFacts, Layout, StateError


async def clean(root: Path, say: Say) -> None:
    """Cleaning what is not there is done already. Raises StateError while the lab runs."""
    layout = Layout(root)
    if not state.is_lab(layout):
        say(f"nothing to clean: {root} does not exist")
        return
    with state.locked(layout):
        for name in end_processes(layout):
            say(f"ended a leftover process: {name}")
        facts = _facts(layout, say)
        if facts is not None:
            if faults.can_cut():
                await faults.remove_table(faults.table_name(facts.lab_pid))
            if not facts.fake_vms:
                await _remove_vms(layout, say)
        await disks.unmount_below(root)
        shutil.rmtree(root)
    say(f"removed {root}")


def _facts(layout: Layout, say: Say) -> LabFacts | None:
    """A lab whose facts are unreadable is cleaned as a real one: better to look for VMs in vain."""
    try:
        return state.load(layout)
    except StateError:
        say(f"{layout.facts} is damaged; looking for VMs all the same")
        return LabFacts(fake_vms=False, nodes=1, api_port=0, broker_port=0)


def end_processes(layout: Layout) -> list[str]:
    """Kill what the pid files name, where it still is a process of this lab. Returns the names."""
    ended = []
    for pid_file in sorted(layout.pid_file("x").parent.glob("*.pid")):
        with contextlib.suppress(ValueError, OSError):
            descriptor = os.pidfd_open(int(pid_file.read_text()))
            try:
                if str(layout.root) in _command_line(int(pid_file.read_text())):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    ended.append(pid_file.stem)
            finally:
                os.close(descriptor)
    return ended


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


async def _remove_vms(layout: Layout, say: Say) -> None:
    for node in sorted(path for path in layout.nodes.glob("*") if path.is_dir()):
        try:
            installation = nodestore.installation(node)
        except NoStore:
            continue  # the id is written before the first VM is made
        await clean_installation(installation, say)


async def clean_installation(installation: str, say: Say) -> None:
    """Raises VmsLeft, HostServiceFailed, NotPrepared."""
    for vm in await ownvms.remove(installation, say):
        say(f"removed VM {vm}")
