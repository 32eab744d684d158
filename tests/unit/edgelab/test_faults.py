"""Link faults: scripts for nft."""

from __future__ import annotations

import pytest

from edgelab import faults
from edgelab.faults import FaultError, NftLink


def test_each_node_has_a_loopback_address_of_its_own() -> None:
    addresses = [faults.node_address(index) for index in range(10_000)]
    assert addresses[0] == "127.0.1.1"
    assert len(set(addresses)) == len(addresses)
    assert not any(address.endswith((".0", ".255")) for address in addresses)
    with pytest.raises(ValueError):
        faults.node_address(-1)


def test_both_directions_are_dropped_and_only_for_that_address_and_port() -> None:
    script = faults.cut_script("copepod_lab_7", "127.0.1.3", 1884)
    assert "ip saddr . tcp dport @cut counter drop" in script
    assert "ip daddr . tcp sport @cut counter drop" in script
    assert script.endswith("add element inet copepod_lab_7 cut { 127.0.1.3 . 1884 }\n")


def test_only_tables_of_dead_labs_are_left_over() -> None:
    ruleset = "table inet copepod_lab_7\ntable inet copepod_lab_8\ntable inet firewall\ntable ip copepod_lab_9\n"
    assert faults.leftovers(ruleset, frozenset({8})) == ["copepod_lab_7"]


async def test_without_root_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(FaultError, match="needs root"):
        await NftLink("copepod_lab_0", "127.0.1.1", 1883).cut()
