"""Arktos' form of a pod: machine and mirror in step, whoever writes which of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi import virtualmachineform as form
from kubeapi.core import Container, Pod, ResourceRequirements, VirtualMachine, VirtualMachineStatus
from kubeapi.kinds.apps import DEPLOYMENTS
from kubeapi.kinds.batch import CRON_JOBS
from kubeapi.resources import PODS
from kubeapi.workloads import CronJob, Deployment

NOW = datetime(2026, 12, 1, tzinfo=UTC)
SIZE = {"limits": {"cpu": "250m", "memory": "96Mi"}}
BIGGER = {"requests": {"cpu": "700m", "memory": "96Mi"}, "limits": {"cpu": "700m", "memory": "96Mi"}}


def machine(**more: Any) -> dict[str, Any]:
    return {"name": "vm", "image": "copepod/micro:1", "resources": SIZE} | more


def pod(vm: dict[str, Any] | None = None, **spec: Any) -> Pod:
    given = {"virtualMachine": machine() if vm is None else vm} | spec
    made = Pod.from_dict({"metadata": {"name": "p", "namespace": "demo"}, "spec": given})
    PODS.strategy.default(made)
    PODS.strategy.prepare_create(made)
    return made


def refusals(made: Pod) -> list[str]:
    return [str(cause) for cause in PODS.strategy.validate_create(made)]


def written(old: Pod, change: dict[str, Any], subresource: str = "") -> tuple[Pod, list[str]]:
    """The pod after an update that gives these keys of the spec, and what is refused."""
    data = old.to_dict()
    data["spec"] = {key: value for key, value in (data["spec"] | change).items() if value is not None}
    new = Pod.from_dict(data)
    strategy = PODS.strategy
    strategy.align(subresource, new, old)
    strategy.default(new)
    if subresource:
        new = strategy.prepare_subresource(subresource, new, old)
        return new, [str(cause) for cause in strategy.validate_subresource(subresource, new, old)]
    strategy.prepare_update(new, old)
    return new, [str(cause) for cause in strategy.validate_update(new, old)]


def container(old: Pod, **change: Any) -> dict[str, Any]:
    return {"containers": [old.spec.containers[0].to_dict() | change]}


def vm(old: Pod, **change: Any) -> dict[str, Any]:
    assert old.spec.virtual_machine is not None
    return {"virtualMachine": old.spec.virtual_machine.to_dict() | change}


def sizes(made: Pod) -> tuple[Any, Any]:
    assert made.spec.virtual_machine is not None
    return made.spec.virtual_machine.resources, made.spec.containers[0].resources


# Creation


def test_a_machine_is_defaulted_and_mirrored_as_a_container() -> None:
    made = pod()
    assert refusals(made) == []
    assert made.spec.virtual_machine is not None
    said = made.spec.virtual_machine.to_dict()
    assert said == machine(
        imagePullPolicy="IfNotPresent",
        powerSpec="Running",
        shutdownBehavior="stop",
        resources={"limits": SIZE["limits"], "requests": SIZE["limits"]},
    )
    mirror = made.spec.containers[0].to_dict()
    assert {key: mirror[key] for key in ("name", "image", "imagePullPolicy", "resources")} == {
        key: said[key] for key in ("name", "image", "imagePullPolicy", "resources")
    }
    assert made.status.qos_class == "Guaranteed"


def test_a_container_may_be_given_with_it_and_say_what_a_machine_cannot() -> None:
    made = pod(machine(image=""), containers=[{"name": "vm", "image": "copepod/micro:2", "env": [{"name": "A"}]}])
    assert refusals(made) == []
    assert made.spec.virtual_machine is not None
    assert made.spec.virtual_machine.image == "copepod/micro:2"
    assert made.spec.containers[0].limits == SIZE["limits"]
    assert [variable.name for variable in made.spec.containers[0].env] == ["A"]


def test_what_contradicts_itself_is_refused() -> None:
    assert refusals(pod(containers=[{"name": "vm", "image": "other:1"}])) == [
        'spec.containers[0].image: Invalid value: "other:1": must be as spec.virtualMachine.image, which it mirrors'
    ]
    detail = "Forbidden: with `virtualMachine`, there is one container of the same name, which mirrors it, or none"
    assert refusals(pod(containers=[{"name": "c", "image": "other:1"}])) == [f"spec.containers: {detail}"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": ""}, "spec.virtualMachine.name: Required value"),
        ({"image": ""}, "spec.virtualMachine.image: Required value"),
        (
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            'spec.virtualMachine.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]},
            'spec.virtualMachine.resizePolicy[0]: Unsupported value: "disk": supported values: "cpu", "memory"',
        ),
        (
            {"volumeMounts": [{"name": "none", "mountPath": "/data"}]},
            'spec.virtualMachine.volumeMounts[0].name: Not found: "none"',
        ),
        (
            {"powerSpec": "On"},
            'spec.virtualMachine.powerSpec: Unsupported value: "On": supported values: '
            '"Running", "Paused", "Shutdown", "Suspended"',
        ),
        (
            {"shutdownBehavior": "halt"},
            'spec.virtualMachine.shutdownBehavior: Unsupported value: "halt": supported values: "stop", "terminate"',
        ),
        ({"userData": "#cloud-config"}, 'spec.virtualMachine.userData: Invalid value: "<omitted>": must be base64'),
        (
            {"userData": base64.b64encode(bytes(65536)).decode()},
            "spec.virtualMachine.userData: Too long: may not be more than 65535 bytes",
        ),
        (
            {"cloudInitUserDataScript": "x" * 65536},
            "spec.virtualMachine.cloudInitUserDataScript: Too long: may not be more than 65535 bytes",
        ),
        (
            {"publicKey": "nonsense"},
            'spec.virtualMachine.publicKey: Invalid value: "nonsense": must be one line: type and key, '
            "as in authorized_keys",
        ),
        ({"bootVolume": "none"}, 'spec.virtualMachine.bootVolume: Not found: "none"'),
    ],
)
def test_what_is_refused_and_how(wrong: dict[str, Any], told: str) -> None:
    assert told in refusals(pod(machine(**wrong)))


def test_its_columns_come_with_it() -> None:
    plain = Pod.from_dict({"metadata": {"name": "c"}, "spec": {"containers": [{"name": "c"}]}})
    made = pod()
    assert PODS.table.of([plain]) is PODS.table
    table = PODS.table.of([plain, made])
    assert [column.name for column in table.columns][-3:] == ["Power", "VM CPU", "VM Memory"]
    assert list(table.cells(plain, NOW))[-3:] == ["<none>"] * 3
    assert list(table.cells(made, NOW))[-3:] == ["<unknown>", "<none>/250m", "<none>/96Mi"]
    allocated = ResourceRequirements.from_dict(
        {"limits": {"cpu": "100m"}, "requests": {"cpu": "50m", "memory": "64Mi"}}
    )
    made.status.virtual_machine_status = VirtualMachineStatus(
        name="vm", power_state="running", allocated_resources=allocated
    )
    assert list(table.cells(made, NOW))[-3:] == ["running", "100m/250m", "64Mi/96Mi"]


# Updates


def test_a_patch_of_the_machine_resizes_both() -> None:
    old = pod()
    new, refused = written(old, vm(old, resources=BIGGER))
    assert refused == []
    assert sizes(new)[0] == sizes(new)[1]
    assert new.spec.containers[0].limits["cpu"] == "700m"
    assert new.metadata.generation == 2


def test_the_resize_subresource_changes_both_by_either() -> None:
    old = pod()
    for change in (container(old, resources=BIGGER), vm(old, resources=BIGGER)):
        new, refused = written(old, change, "resize")
        assert refused == []
        assert sizes(new)[0] == sizes(new)[1]
        assert new.spec.containers[0].limits["cpu"] == "700m"
    both = container(old, resources=BIGGER) | vm(old, resources={"limits": {"cpu": "2", "memory": "96Mi"}})
    _, refused = written(old, both, "resize")
    assert any("must be as spec.virtualMachine.resources, which it mirrors" in told for told in refused)


def test_a_machine_is_resized_by_the_rules_of_the_subresource() -> None:
    old = pod()
    _, refused = written(old, vm(old, resources={"limits": {"cpu": "1", "memory": "96Mi"}, "requests": {"cpu": "1m"}}))
    assert 'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing' in refused
    _, refused = written(old, vm(old, resources={"limits": {"cpu": "250m"}}))
    assert "spec.virtualMachine.resources.limits: Forbidden: resource limits cannot be removed" in refused
    _, refused = written(old, vm(old, resources={"limits": SIZE["limits"] | {"example.com/gpu": "1"}}))
    assert "spec: Forbidden: only cpu and memory resources are mutable" in refused


def test_an_ordinary_update_may_not_resize_the_container() -> None:
    old = pod()
    _, refused = written(old, container(old, resources=BIGGER))
    assert any("pod updates may not change fields other than" in told for told in refused)


def test_what_may_change_and_what_not() -> None:
    old = pod()
    for change in (container(old, image="copepod/micro:2"), vm(old, image="copepod/micro:2")):
        new, refused = written(old, change)
        assert refused == []
        assert new.spec.virtual_machine is not None
        assert new.spec.virtual_machine.image == new.spec.containers[0].image == "copepod/micro:2"
    _, refused = written(old, vm(old, powerSpec="Shutdown", shutdownBehavior="terminate"))
    assert refused == []
    _, refused = written(old, vm(old, bootVolume="disk") | {"volumes": [{"name": "disk", "emptyDir": {}}]})
    assert any("+ spec.virtualMachine.bootVolume" in told for told in refused)
    assert any("`spec.virtualMachine.resources`" in told for told in refused)
    _, refused = written(old, vm(old, name="other"))
    assert refused != []


def test_a_client_that_does_not_know_the_form_writes_back_what_it_read() -> None:
    old = pod(machine(userData=base64.b64encode(b"#cloud-config").decode()))
    same, refused = written(old, {"virtualMachine": None})
    assert (refused, same.spec) == ([], old.spec)
    changed, refused = written(old, {"virtualMachine": None} | container(old, image="copepod/micro:2"))
    assert refused == []
    assert changed.spec.virtual_machine is not None
    assert changed.spec.virtual_machine.image == "copepod/micro:2"
    resized, refused = written(old, {"virtualMachine": None} | container(old, resources=BIGGER), "resize")
    assert refused == []
    assert sizes(resized)[0] == sizes(resized)[1]


def test_a_manifest_as_it_was_written_replaces_without_a_change() -> None:
    old = pod()
    same, refused = written(old, {"virtualMachine": machine(), "containers": None})
    assert (refused, same.spec) == ([], old.spec)


def test_the_form_of_a_pod_is_kept() -> None:
    old = pod()
    _, refused = written(old, {"virtualMachine": None, "containers": [{"name": "c", "image": "i:1"}]})
    assert refused != []
    plain = Pod.from_dict({"metadata": old.metadata.to_dict(), "spec": {"containers": [{"name": "vm", "image": "i"}]}})
    PODS.strategy.default(plain)
    _, refused = written(plain, {"virtualMachine": {"name": "vm"}})
    assert any("pod updates may not change fields" in told for told in refused)


def test_what_admission_gives_to_the_mirror_the_machine_has_too() -> None:
    made = pod(machine(resources={}))
    before = form.form_of(made)
    mirror = made.spec.containers[0]
    assert mirror.resources is not None
    mirror.resources.limits["cpu"] = "1"
    mirror.image = "registry.example/copepod/micro:1"
    form.realign(made, before)
    assert made.spec.virtual_machine is not None
    assert made.spec.virtual_machine.resources == mirror.resources
    assert made.spec.virtual_machine.image == mirror.image
    assert refusals(made) == []


# Templates


def deployment(vm: dict[str, Any] | None, **spec: Any) -> Deployment:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": ({"virtualMachine": vm} if vm else {}) | spec}
    return Deployment.from_dict(
        {
            "metadata": {"name": "d", "namespace": "demo"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
    )


def updated(new: Deployment, old: Deployment) -> list[str]:
    DEPLOYMENTS.strategy.align("", new, old)
    DEPLOYMENTS.strategy.default(new)
    return [str(cause) for cause in DEPLOYMENTS.strategy.validate_update(new, old)]


def made_deployment() -> Deployment:
    old = deployment(machine())
    DEPLOYMENTS.strategy.default(old)
    assert list(DEPLOYMENTS.strategy.validate_create(old)) == []
    return old


def test_templates_are_mirrored_and_an_apply_of_the_machine_alone_changes_both() -> None:
    old = made_deployment()
    assert old.spec.template.spec.containers[0].image == "copepod/micro:1"
    new = Deployment.from_dict(old.to_dict())
    assert new.spec.template.spec.virtual_machine is not None
    new.spec.template.spec.virtual_machine.image = "copepod/micro:2"
    assert updated(new, old) == []
    assert new.spec.template.spec.containers[0].image == "copepod/micro:2"
    assert new.spec.template.spec.containers[0].limits == SIZE["limits"]


def test_defaulting_a_template_again_changes_nothing() -> None:
    old = made_deployment()
    new = Deployment.from_dict(old.to_dict())
    assert updated(new, old) == []
    assert new.to_dict() == old.to_dict(), "a Deployment that is written again starts no rollout"


def test_a_template_changes_its_form_with_another_container() -> None:
    old = made_deployment()
    new = deployment(None, containers=[{"name": "c", "image": "i:1"}])
    assert updated(new, old) == []
    assert new.spec.template.spec.virtual_machine is None
    back = deployment(machine())
    assert updated(back, new) == []
    assert back.spec.template.spec.containers[0].name == "vm"
    unknowing = deployment(None, containers=[old.spec.template.spec.containers[0].to_dict()])
    assert updated(unknowing, old) == []
    assert unknowing.to_dict() == old.to_dict()


def test_a_cron_job_s_template_too() -> None:
    spec = {"virtualMachine": machine(), "restartPolicy": "Never"}
    old = CronJob.from_dict(
        {
            "metadata": {"name": "c", "namespace": "demo"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}},
        }
    )
    CRON_JOBS.strategy.default(old)
    new = CronJob.from_dict(old.to_dict())
    new.spec.job_template.spec.template.spec.containers[0].image = "copepod/micro:2"
    CRON_JOBS.strategy.align("", new, old)
    after = new.spec.job_template.spec.template.spec
    assert after.virtual_machine is not None
    assert after.virtual_machine.image == "copepod/micro:2"


_NO_FORM: list[dict[str, Any]] = [{}, {"spec": None}, {"spec": {"template": "x"}}, {"spec": {"virtualMachine": {}}}]


def test_an_applied_machine_is_applied_to_its_mirror() -> None:
    config = {"spec": {"virtualMachine": {"name": "vm", "image": "a", "userData": "eA=="}}}
    mirror = {"name": "vm", "image": "a"}
    assert form.applied(config)["spec"]["containers"] == [mirror]
    assert "containers" not in config["spec"], "what was given stays as it is"
    template = {"spec": {"template": config}}
    assert form.applied(template)["spec"]["template"]["spec"]["containers"] == [mirror]
    cron = {"spec": {"jobTemplate": {"spec": {"template": config}}}}
    assert form.applied(cron)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] == [mirror]
    given = {"spec": config["spec"] | {"containers": [{"name": "vm", "tty": True}, {"name": "other"}]}}
    assert form.applied(given)["spec"]["containers"] == [mirror | {"tty": True}, {"name": "other"}]
    for other in _NO_FORM:
        assert form.applied(other) == other


# Properties

_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "250m", "96Mi", "0.5"]))
_SHARED = st.fixed_dictionaries(
    {"name": st.sampled_from(["", "vm", "other"])},
    optional={
        "image": st.sampled_from(["a:1", "b", "c@sha256:x"]),
        "imagePullPolicy": st.sampled_from(["Always", "Never"]),
        "resources": st.fixed_dictionaries({}, optional={"limits": _AMOUNTS, "requests": _AMOUNTS}),
        "resizePolicy": st.lists(st.just({"resourceName": "cpu", "restartPolicy": "NotRequired"}), max_size=1),
        "volumeMounts": st.lists(st.just({"name": "v", "mountPath": "/v"}), max_size=1),
    },
)


@given(_SHARED)
def test_mirroring_there_and_back_is_the_same(data: dict[str, Any]) -> None:
    one, vm = Container.from_dict(data), VirtualMachine.from_dict(data)
    assert form.mirrored(form.unmirrored(one)) == one
    assert form.unmirrored(form.mirrored(vm)) == vm


@given(_SHARED, st.lists(_SHARED, max_size=2))
def test_defaulting_is_idempotent_and_in_step_unless_contradicted(
    vm: dict[str, Any], containers: list[dict[str, Any]]
) -> None:
    made = pod(vm, containers=containers)
    again = Pod.from_dict(made.to_dict())
    PODS.strategy.default(again)
    assert again.spec == made.spec
    if not containers:
        assert form.differing(made.spec) == []


@given(_SHARED, _SHARED, st.booleans())
def test_whoever_changes_one_of_them_changes_both(first: dict[str, Any], then: dict[str, Any], by_mirror: bool) -> None:
    old = pod(first | {"name": "vm", "image": "a:1"})
    new = old.copied()
    if by_mirror:
        new.spec.containers[0] = Container.from_dict(then | {"name": "vm"})
    else:
        new.spec.virtual_machine = VirtualMachine.from_dict(then | {"name": "vm"})
    wish = form.unmirrored(new.spec.containers[0]) if by_mirror else new.spec.virtual_machine
    form.align(new.spec, old.spec)
    assert form.differing(new.spec) == []
    assert new.spec.virtual_machine is not None
    assert wish is not None
    assert form.mirrored(new.spec.virtual_machine) == form.mirrored(wish)
