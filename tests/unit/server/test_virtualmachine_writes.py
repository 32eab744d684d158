"""Whatever is written to a pod in Arktos' form, by whichever way: never a 500, and machine and mirror in step."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeapi import virtualmachineform
from kubeapi.core import LimitRange, Pod
from tests.unit.server.conftest import MERGE, Api, running_api
from tests.unit.server.test_hostile import APPLY, JSON_PATCH, PODS, STRATEGIC

_QUANTITIES = st.sampled_from(["1", "250m", "96Mi", "-1", "x", 1, None])
_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), _QUANTITIES, max_size=2)
_RESOURCES = st.dictionaries(st.sampled_from(["limits", "requests"]), _AMOUNTS, max_size=2)
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, "", "x", 1, True, [], {}, [{}], {"a": {}}])
_MOUNTS = st.lists(st.fixed_dictionaries({}, optional={"name": _ODD, "mountPath": _ODD, "$patch": _ODD}), max_size=2)
_NAMES = st.sampled_from(["vm", "vm", "vm", "other", ""])
_SHARED: dict[str, st.SearchStrategy[Any]] = {
    "name": _NAMES,
    "image": st.sampled_from(["a:1", "b:2", "", None]),
    "imagePullPolicy": st.sampled_from(["Always", "Never", "Often", None]),
    "resources": _RESOURCES | _ODD,
    "resizePolicy": st.lists(st.fixed_dictionaries({"resourceName": st.just("cpu")}), max_size=1) | _ODD,
    "volumeMounts": _MOUNTS | _ODD,
    "volumeDevices": _MOUNTS,
}
_MACHINE = st.fixed_dictionaries(
    {},
    optional=_SHARED
    | {
        "userData": st.sampled_from(["eA==", "é", "=", None]) | _ODD,
        "cloudInitUserDataScript": _ODD,
        "publicKey": st.sampled_from(["ssh-ed25519 A", "\n", " "]) | _ODD,
        "keyPairName": _ODD,
        "bootVolume": _ODD,
        "shutdownBehavior": st.sampled_from(["stop", "terminate"]) | _ODD,
        "powerSpec": st.sampled_from(["Running", "Shutdown"]) | _ODD,
    },
)
_CONTAINER = st.fixed_dictionaries({}, optional=_SHARED | {"env": st.just([{"name": "A"}]), "$patch": _ODD})
_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "virtualMachine": _MACHINE | _ODD,
        "containers": st.lists(_CONTAINER, max_size=2) | _ODD,
        "volumes": st.lists(st.fixed_dictionaries({}, optional={"name": _ODD}), max_size=1),
    },
)
_WRITE = st.tuples(
    st.sampled_from([MERGE, STRATEGIC, JSON_PATCH, APPLY, "PUT", "POST"]), st.sampled_from(["", "/resize"]), _SPEC
)
_BODY = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
_SIZE = {"limits": {"cpu": "250m", "memory": "96Mi"}}


async def _write(api: Api, how: str, subresource: str, spec: dict[str, Any]) -> None:
    path, body = f"{PODS}/web{subresource}", json.dumps(_BODY | {"spec": spec})
    if how == "POST":
        answer = await api.call("POST", PODS, body.replace("web", "new"))
    elif how == "PUT":
        answer = await api.call("PUT", path, body)
    elif how == JSON_PATCH:
        steps = [{"op": "replace", "path": f"/spec/{name}", "value": value} for name, value in spec.items()]
        answer = await api.call("PATCH", path, json.dumps(steps), content_type=how)
    else:
        query = "?fieldManager=x&force=true" if how == APPLY else ""
        answer = await api.call("PATCH", path + query, body, content_type=how)
    assert answer.status < 500, (how, spec, answer.body)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(_WRITE, min_size=1, max_size=4))
def test_machine_and_mirror_stay_in_step(writes: list[tuple[str, str, dict[str, Any]]]) -> None:
    async def run() -> None:
        async with running_api() as api:
            spec = {"virtualMachine": {"name": "vm", "image": "a:1", "resources": _SIZE}}
            await api.objects.create(
                Pod.from_dict(_BODY | {"metadata": {"name": "web", "namespace": "demo"}, "spec": spec})
            )
            for how, subresource, change in writes:
                await _write(api, how, subresource, change)
            for pod in (await api.objects.list(Pod, "demo")).items:
                assert virtualmachineform.differing(pod.spec) == [], (writes, pod.spec.to_dict())
                if pod.metadata.name == "web":
                    assert virtualmachineform.mirror_of(pod.spec) is not None, (writes, pod.spec.to_dict())

    asyncio.run(run())


async def test_what_a_limit_range_gives_to_containers_the_machine_has(api: Api) -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}]}
    await api.objects.create(LimitRange.from_dict({"metadata": {"name": "l", "namespace": "demo"}, "spec": limits}))
    answer = await api.call(
        "POST", PODS, json.dumps(_BODY | {"spec": {"virtualMachine": {"name": "vm", "image": "a:1"}}})
    )
    assert answer.status == 201
    given = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    spec = answer.body["spec"]
    assert spec["virtualMachine"]["resources"] == spec["containers"][0]["resources"] == given
