"""The order of admission: what is built in, webhooks one after the other, and who is asked once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubeapi.admissionregistration import MutatingWebhookConfiguration
from kubeapi.core import LimitRange, Pod
from tests.support.webhookserver import patch, webhook
from tests.unit.server.conftest import Api, pod


def _hook(name: str, client: dict[str, Any], policy: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    return {
        "name": f"{name}.example.com",
        "clientConfig": client,
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": policy,
    }


async def test_who_wants_it_is_asked_again_about_what_later_ones_changed(api: Api, tmp_path: Path) -> None:
    """The second webhook adds a container: the namespace's defaults are given to it, and the first sees it."""
    await api.objects.create(
        LimitRange.from_dict(
            {
                "metadata": {"name": "defaults", "namespace": "demo"},
                "spec": {"limits": [{"type": "Container", "default": {"memory": "128Mi"}}]},
            }
        )
    )
    async with webhook(tmp_path) as hook:
        sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "tiny"}}
        hook.respond["/second"] = lambda asked: patch(sidecar)
        hooks = [
            _hook("first", hook.client("/first"), "IfNeeded"),
            _hook("never", hook.client("/never"), "Never"),
            _hook("second", hook.client("/second"), "IfNeeded"),
        ]
        data = {"metadata": {"name": "hooks"}, "webhooks": hooks}
        await api.objects.create(MutatingWebhookConfiguration.from_dict(data))
        made = await api.objects.create(pod("one"))
        sizes = [len(item["object"]["spec"]["containers"]) for item in hook.asked]
        await api.objects.admission.close()
    assert sizes == [1, 1, 1, 2]
    assert [item.limits.get("memory") for item in made.spec.containers] == ["128Mi", "128Mi"]


async def test_a_webhook_does_not_put_another_object_in_its_place(api: Api, tmp_path: Path) -> None:
    async with webhook(tmp_path) as hook:
        hook.respond["/"] = lambda asked: patch(
            {"op": "replace", "path": "/metadata/name", "value": "other"},
            {"op": "replace", "path": "/metadata/uid", "value": "other"},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        )
        data = {"metadata": {"name": "hooks"}, "webhooks": [_hook("any", hook.client(), "Never")]}
        await api.objects.create(MutatingWebhookConfiguration.from_dict(data))
        made: Pod = await api.objects.create(pod("one"))
        await api.objects.admission.close()
    assert (made.metadata.name, made.metadata.labels) == ("one", {"a": "b"})
    assert made.metadata.uid not in ("other", None)
    assert await api.objects.get(Pod, "demo", "one")
