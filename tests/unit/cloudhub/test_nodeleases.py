"""Leases in kube-node-lease: how often they are written, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloudhub.mirror import Mirror
from cloudhub.nodeleases import NAMESPACE, NodeLeases, due, period
from kubeapi.clock import SystemClock, new_uid
from kubeapi.core import Lease, Node
from kubeapi.errors import unavailable
from kubeapi.resources import REGISTRY
from kubeapi.server.namespaces import ensure_namespaces
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store
from tests.support.kube import node


def test_a_large_fleet_writes_no_more_than_a_medium_one() -> None:
    assert period(10) == 30
    assert period(600) == 30
    assert period(5000) == 250
    names = [f"n{index}" for index in range(5000)]
    assert len(due(5000, names, {}, now=0)) == 100  # in 5 seconds: 20 a second


def test_who_was_not_heard_of_is_not_renewed_and_who_waits_longest_is_first() -> None:
    renewed = {"early": 0.0, "late": 10.0, "silent": 0.0}
    assert due(3, {"early", "late"}, renewed, now=29) == []
    assert due(3, {"early", "late"}, renewed, now=31) == ["early"]
    assert due(3, {"early", "late"}, renewed, now=41) == ["early", "late"]
    assert due(3, {"late", "new"}, renewed, now=41) == ["new", "late"]


@pytest.fixture
async def objects(tmp_path: Path) -> AsyncIterator[StoreObjects]:
    store = await open_store(tmp_path / "store.db")
    objects = StoreObjects(store, REGISTRY, SystemClock(), new_uid)
    await ensure_namespaces(objects)
    yield objects
    await store.close()


async def test_a_lease_is_made_by_the_first_sign_of_life_and_renewed_by_later_ones(objects: StoreObjects) -> None:
    stored = await objects.create(node("n1"))
    nodes = Mirror(objects, Node)
    nodes.items = {("", "n1"): stored}
    leases = NodeLeases(objects, SystemClock(), nodes, lease_timeout=0.5)
    await leases.renew()
    assert (await objects.list(Lease, NAMESPACE)).items == ()
    leases.heard("n1")
    leases.heard("a-stranger")
    await leases.renew()
    (lease,) = (await objects.list(Lease, NAMESPACE)).items
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("n1", 1)
    assert lease.metadata.owner_references[0].uid == stored.metadata.uid

    restarted = NodeLeases(objects, SystemClock(), nodes, lease_timeout=0.5)
    restarted.heard("n1")
    await restarted.renew()
    await restarted.renew()
    (again,) = (await objects.list(Lease, NAMESPACE)).items
    assert (again.spec.renew_time or "") > (lease.spec.renew_time or "")


@pytest.mark.parametrize(
    "refusal", [unavailable("the store cannot be written: disk full"), ValueError("a fault of ours")]
)
async def test_s31_a_lease_that_cannot_be_stored_is_tried_again_and_ends_nothing(
    objects: StoreObjects, refusal: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S-31 at the hub: its disk is full for a while."""
    nodes = Mirror(objects, Node)
    nodes.items = {("", "n1"): await objects.create(node("n1"))}
    nodes.synced.set()
    leases = NodeLeases(objects, SystemClock(), nodes, lease_timeout=0.5)
    leases.heard("n1")
    create, refusals = objects.create, [refusal]

    async def refuse_once(obj: Lease) -> Lease:
        if refusals:
            raise refusals.pop()
        return await create(obj)

    monkeypatch.setattr(objects, "create", refuse_once)
    running = asyncio.create_task(leases.run())
    async with asyncio.timeout(30):
        while not (await objects.list(Lease, NAMESPACE)).items:
            assert not running.done()
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "node leases" in caplog.text
