"""What a lab remembers, and who may use its directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgelab import state
from edgelab.box import BoxConfig, settle
from edgelab.broker import free_port
from edgelab.clean import clean
from edgelab.process import ChildFailed
from edgelab.state import LabFacts, Layout, StateError

BEFORE = LabFacts(fake_vms=True, nodes=2, api_port=6443, broker_port=1884, passwords={"hub": "h"}, lab_pid=7)


def test_a_new_lab_is_as_asked() -> None:
    facts = settle(None, BoxConfig(Path("/s"), nodes=3, fake_vms=True, api_port=7000), lambda _: True)
    assert (facts.nodes, facts.fake_vms, facts.api_port, facts.broker_port) == (3, True, 7000, 0)
    assert facts.node_names == ("node-1", "node-2", "node-3")


def test_a_lab_that_was_resumes_as_it_was() -> None:
    assert settle(BEFORE, BoxConfig(Path("/s"), fake_vms=True), lambda _: True) == BEFORE


def test_ports_that_others_took_meanwhile_are_chosen_anew() -> None:
    facts = settle(BEFORE, BoxConfig(Path("/s"), fake_vms=True), lambda _: False)
    assert (facts.api_port, facts.broker_port) == (0, 0)


def test_a_port_asked_for_is_not_silently_another() -> None:
    with pytest.raises(StateError, match="7000 is in use"):
        settle(BEFORE, BoxConfig(Path("/s"), fake_vms=True, api_port=7000), lambda _: False)


def test_broker_and_api_have_ports_of_their_own() -> None:
    facts = settle(BEFORE, BoxConfig(Path("/s"), fake_vms=True, api_port=1884), lambda _: True)
    assert (facts.api_port, facts.broker_port) == (1884, 0)
    first = free_port()
    assert free_port(*range(20_000, first), *range(first + 1, 32_768)) == first
    with pytest.raises(ChildFailed, match="no TCP port"):
        free_port(*range(20_000, 32_768))


def test_simulated_and_real_nodes_are_not_mixed() -> None:
    with pytest.raises(StateError, match="--fake-vms"):
        settle(BEFORE, BoxConfig(Path("/s"), fake_vms=False), lambda _: True)


def test_secrets_are_made_once_and_for_new_nodes() -> None:
    facts = state.with_passwords(BEFORE)
    assert facts.passwords["hub"] == "h"
    assert set(facts.passwords) == {"hub", "node-1", "node-2"}
    assert state.with_passwords(facts) == facts


def test_facts_come_back_as_saved_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    state.save(layout, BEFORE)
    assert state.load(layout) == BEFORE
    assert layout.facts.stat().st_mode & 0o777 == 0o600


def test_damaged_facts_are_named(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text("{")
    with pytest.raises(StateError, match=r"lab\.json is not readable"):
        state.load(Layout(tmp_path))


HOLDER = """
import sys
from pathlib import Path
from edgelab import state
with state.locked(state.Layout(Path(sys.argv[1]))):
    print(flush=True)
    sys.stdin.read()
"""


def test_a_second_lab_in_one_directory_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StateError, match=rf"pid {holder.pid}\) is using"), state.locked(Layout(tmp_path)):
            pass
        holder.kill()
    with state.locked(Layout(tmp_path)):
        pass


def test_a_directory_that_is_no_lab_is_not_taken_for_one(tmp_path: Path) -> None:
    assert not state.is_lab(Layout(tmp_path / "none"))
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StateError, match="not touching it"):
        state.is_lab(Layout(tmp_path))


async def test_a_lab_that_ended_before_it_wrote_anything_can_be_removed(tmp_path: Path) -> None:
    """`up` on a port that is taken leaves no more than its lock: neither `clean` nor a demo may stumble over it."""
    root = tmp_path / "lab"
    state.make_root(Layout(root))
    with state.locked(Layout(root)):
        pass
    await clean(root, lambda _: None)
    assert not root.exists()
