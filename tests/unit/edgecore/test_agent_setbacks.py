"""An agent whose store cannot write goes on: the node's own report waits like everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecore.book import Book
from kubeapi.core import Node
from metastore.api import Unavailable
from tests.support.boxes import Box
from tests.support.hub import in_memory, lab, until


async def test_s31_a_report_that_cannot_be_stored_is_made_again_and_the_agent_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S-31: running VMs keep running, and nothing that was not stored is told."""
    stored, full = Book.report_node, True

    async def report_node(book: Book, node: Node) -> None:
        if full:
            raise Unavailable("the store cannot write: database or disk is full")
        await stored(book, node)

    monkeypatch.setattr(Book, "report_node", report_node)
    monkeypatch.setattr("edgecore.agent._NODE_INTERVAL", 0.2)
    network = in_memory()
    async with lab(tmp_path / "hub", network, lease_timeout=10) as world:
        box = Box("n1", tmp_path / "n1", network)
        box.start()
        try:
            waits = "the node's own status waits: the store cannot write: database or disk is full"
            await until(lambda: caplog.text.count(waits) >= 2, "it is tried again")
            assert box.agent is not None
            assert not box.agent.done()
            full = False
            await until(lambda: world.ready("n1", "True"), "the node is Ready once there is room")
            assert "Traceback" not in caplog.text
        finally:
            await box.stop()
