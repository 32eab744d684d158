"""Objects over the store: concurrency, deletion, binding; what a controller relies on."""

from __future__ import annotations

import asyncio

import pytest

from kubeapi.core import ConfigMap, Namespace, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.objects import WatchEventType
from kubeapi.server.namespaces import NamespaceJanitor, ensure_namespaces
from metastore.api import OpenEntry
from tests.unit.server.conftest import MERGE, Api, pod


async def test_stale_updates_are_refused_and_blind_ones_are_not(api: Api) -> None:
    first = await api.objects.create(pod("web"))
    changed = first.copied()
    changed.metadata.labels = {"a": "b"}
    second = await api.objects.update(changed)
    assert int(second.metadata.resource_version or 0) > int(first.metadata.resource_version or 0)
    with pytest.raises(ApiError) as refused:
        await api.objects.update(changed)
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    changed.metadata.resource_version = None
    assert (await api.objects.update(changed)).metadata.resource_version == second.metadata.resource_version


async def test_concurrent_patches_all_take_effect(api: Api) -> None:
    await api.objects.create(pod("web"))
    path = "/api/v1/namespaces/demo/pods/web"
    answers = await asyncio.gather(
        *(api.call("PATCH", path, {"metadata": {"labels": {f"l{i}": "x"}}}, content_type=MERGE) for i in range(30))
    )
    assert {answer.status for answer in answers} == {200}
    assert len((await api.objects.get(Pod, "demo", "web")).metadata.labels) == 30


async def test_status_update_changes_status_only_and_spec_update_keeps_it(api: Api) -> None:
    created = await api.objects.create(pod("web"))
    wish = created.copied()
    wish.status.phase = "Running"
    wish.metadata.labels = {"not": "taken"}
    wish.spec.containers[0].image = "other"
    stored = await api.objects.update_status(wish)
    assert (stored.status.phase, stored.metadata.labels) == ("Running", {})
    assert stored.spec == created.spec
    stored.status.phase = "Failed"
    stored.spec.containers[0].image = "tiny:2"
    updated = await api.objects.update(stored)
    assert (updated.status.phase, updated.spec.containers[0].image) == ("Running", "tiny:2")
    assert updated.metadata.generation == 2
    other = updated.copied()
    other.metadata.uid = "another"
    with pytest.raises(ApiError) as refused:
        await api.objects.update_status(other)
    assert refused.value.code == 409


async def test_a_pod_is_bound_once(api: Api) -> None:
    await api.objects.create(pod("web"))
    await api.objects.bind("demo", "web", "n1")
    bound = await api.objects.get(Pod, "demo", "web")
    assert bound.spec.node_name == "n1"
    condition = bound.status.condition("PodScheduled")
    assert condition is not None
    assert condition.status == "True"
    with pytest.raises(ApiError) as refused:
        await api.objects.bind("demo", "web", "n2")
    assert refused.value.code == 409
    assert 'already assigned to node "n1"' in refused.value.message


async def test_s08_a_bound_pod_stays_until_its_node_confirms(api: Api) -> None:
    """S-08: deleted while the node is offline."""
    created = await api.objects.create(pod("web", nodeName="n1"))
    await api.objects.delete(Pod, "demo", "web")
    marked = await api.objects.get(Pod, "demo", "web")
    assert marked.metadata.deletion_timestamp == "2026-11-30T21:59:56Z"
    assert marked.metadata.deletion_grace_period_seconds == 30
    await api.objects.delete(Pod, "demo", "web")
    assert (await api.objects.get(Pod, "demo", "web")).metadata.resource_version == marked.metadata.resource_version
    with pytest.raises(ApiError) as refused:
        await api.objects.delete(Pod, "demo", "web", uid="another", grace_seconds=0)
    assert refused.value.code == 409
    await api.objects.delete(Pod, "demo", "web", uid=created.metadata.uid, grace_seconds=0)
    with pytest.raises(ApiError) as gone:
        await api.objects.get(Pod, "demo", "web")
    assert gone.value.code == 404


async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api) -> None:
    meta = ObjectMeta(name="cm", namespace="demo", finalizers=["example.com/hold"])
    await api.objects.create(ConfigMap(metadata=meta))
    await api.objects.delete(ConfigMap, "demo", "cm")
    held = await api.objects.get(ConfigMap, "demo", "cm")
    assert held.metadata.deletion_timestamp
    held.metadata.finalizers = []
    await api.objects.update(held)
    with pytest.raises(ApiError):
        await api.objects.get(ConfigMap, "demo", "cm")


async def test_names_are_generated(api: Api) -> None:
    wish = ConfigMap(metadata=ObjectMeta(generate_name="cm-", namespace="demo"))
    one, two = await api.objects.create(wish), await api.objects.create(wish)
    assert one.metadata.name != two.metadata.name
    assert all(item.metadata.name.startswith("cm-") and len(item.metadata.name) == 8 for item in (one, two))


async def test_dry_run_changes_nothing(api: Api) -> None:
    before = api.objects.store.revision
    answer = await api.call("POST", "/api/v1/namespaces/demo/pods?dryRun=All", pod("web").to_dict())
    assert answer.status == 201
    assert answer.body["status"]["phase"] == "Pending"
    await api.call("POST", "/api/v1/namespaces/demo/pods", pod("web").to_dict())
    path = "/api/v1/namespaces/demo/pods/web?dryRun=All"
    await api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await api.call("DELETE", path)
    again = await api.call("POST", "/api/v1/namespaces/demo/pods?dryRun=All", pod("web").to_dict())
    assert again.status == 409
    assert api.objects.store.revision == before + 1


async def test_delete_collection_takes_what_is_selected(api: Api) -> None:
    for name in ("a", "b"):
        await api.objects.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="demo", labels={"app": name})))
    answer = await api.call("DELETE", "/api/v1/namespaces/demo/configmaps?labelSelector=app%3Da")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    left = await api.objects.list(ConfigMap, "demo")
    assert [item.metadata.name for item in left.items] == ["b"]


async def test_watch_follows_from_a_list(api: Api) -> None:
    listing = await api.objects.list(Pod)
    created = await api.objects.create(pod("web"))
    await api.objects.bind("demo", "web", "n1")
    await api.objects.delete(Pod, "demo", "web", grace_seconds=0)
    seen = []
    async for event in api.objects.watch(Pod, listing.resource_version):
        seen.append((event.type, event.object.metadata.uid))
        if event.type is WatchEventType.DELETED:
            break
    kinds = (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED)
    assert seen == [(kind, created.metadata.uid) for kind in kinds]
    await api.objects.store.compact(api.objects.store.revision)
    with pytest.raises(ApiError) as gone:
        await anext(aiter(api.objects.watch(Pod, listing.resource_version)))
    assert gone.value.code == 410


async def test_what_is_returned_may_be_changed(api: Api) -> None:
    wish = pod("web", volumes=[{"name": "v", "emptyDir": {"medium": "x"}}], hostAliases=[{"ip": "1.2.3.4"}])
    await api.objects.create(wish)
    first = await api.objects.get(Pod, "demo", "web")
    first.spec.volumes[0]["emptyDir"]["medium"] = "changed"
    (first.spec.model_extra or {})["hostAliases"][0]["ip"] = "changed"
    second = await api.objects.get(Pod, "demo", "web")
    assert "changed" not in second.to_json().decode()


async def test_puts_can_join_another_commit(api: Api) -> None:
    found = await api.objects.create(pod("web"))
    found.status.message = "together"
    put = api.objects.encode_put(found, int(found.metadata.resource_version or 0))
    await api.objects.store.commit(put, OpenEntry("1", "pods/web", "start"))
    assert (await api.objects.get(Pod, "demo", "web")).status.message == "together"


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_some_namespaces_may_not_be_deleted(api: Api, name: str) -> None:
    await ensure_namespaces(api.objects)
    answer = await api.call("DELETE", f"/api/v1/namespaces/{name}")
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert (await api.objects.get(Namespace, "", name)).metadata.deletion_timestamp is None


async def test_a_missing_namespace_deletes_nothing(api: Api) -> None:
    """S-86: what is absent is not what was deleted."""
    orphan = pod("web", "nowhere")
    orphan.metadata.uid = "u"
    await api.put_as_is(orphan)
    assert await NamespaceJanitor(api.objects).sweep() == frozenset()
    assert await api.objects.get(Pod, "nowhere", "web")
    with pytest.raises(ApiError) as refused:
        await api.objects.create(pod("web", "nowhere"))
    assert refused.value.message == 'namespaces "nowhere" not found'


async def test_a_namespace_waits_for_what_it_holds(api: Api) -> None:
    await api.objects.create(pod("web", nodeName="n1"))
    await api.objects.delete(Namespace, None, "demo")
    janitor = NamespaceJanitor(api.objects)
    assert await janitor.sweep() == {"demo"}
    assert (await api.objects.get(Namespace, None, "demo")).status.phase == "Terminating"
    await api.objects.delete(Pod, "demo", "web", grace_seconds=0)
    await janitor.sweep()
    with pytest.raises(ApiError) as gone:
        await api.objects.get(Namespace, None, "demo")
    assert gone.value.code == 404
