"""The recorded answers to resizes (S-71, S-72), for pods in Arktos' form and plain patches of their machine."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeapi import virtualmachineform
from kubeapi.admission import admit_limits, admit_resize
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.patch import apply_patch
from kubeapi.resources import PODS
from kubeapi.server.preparing import refuse
from tests.unit.kubeapi.test_resize_cases import CASES, LIMITS, NODES, _pod, _recorded

_OTHERWISE = frozenset(
    {
        "ok_b1_resize_ignores_label_and_image",  # an ordinary update does not ignore them
        "err_rc_change_resizepolicy",  # is no resize: "pod updates may not change fields other than"
    }
)
_GARBAGE = "err_b1_garbage_qty"
"""Its message repeats the patch."""


def _is_machine(case: dict[str, Any]) -> bool:
    before = case["before"]
    return (
        before is not None
        and len(before["containers"]) == 1
        and not before.get("initContainers")
        and bool(case["patch"]["spec"]["containers"])
        and case["case"] not in _OTHERWISE
    )


MACHINES = [case for case in CASES if _is_machine(case)]


def _machine(case: dict[str, Any]) -> Pod:
    pod = _pod(case)
    pod.spec.virtual_machine = virtualmachineform.unmirrored(pod.spec.containers[0])
    PODS.strategy.default(pod)
    return pod


def _patched(case: dict[str, Any], old: Pod) -> Pod:
    """What the server does with a PATCH of the pod itself."""
    (wish,) = case["patch"]["spec"]["containers"]
    new = apply_patch(old, case["contentType"], orjson.dumps({"spec": {"virtualMachine": wish}}))
    PODS.strategy.align("", new, old)
    PODS.strategy.default(new)
    PODS.strategy.prepare_update(new, old)
    refuse(PODS, new, PODS.strategy.validate_update(new, old))
    if virtualmachineform.resizes(new.spec, old.spec):
        admit_resize(new, old, NODES.get(old.spec.node_name or ""))
        if case["case"].startswith("err_lr"):
            admit_limits(new, [LIMITS])
    return new


@pytest.mark.parametrize("case", MACHINES, ids=[case["case"] for case in MACHINES])
def test_a_plain_patch_answers_as_the_resize_subresource(case: dict[str, Any]) -> None:
    old = _machine(case)
    before = old.to_json()
    if case["expectStatus"] == 200:
        new = _patched(case, old)
        assert _recorded(new) == case["after"]
        assert virtualmachineform.differing(new.spec) == []
        assert (new.to_json() == before) is case["unchanged"]
    else:
        with pytest.raises(ApiError) as caught:
            _patched(case, old)
        assert (caught.value.code, caught.value.reason) == (case["expectStatus"], case["expectReason"])
        if case["case"] != _GARBAGE:
            expected = case["expectMessage"].replace("spec.containers[0].", "spec.virtualMachine.")
            assert caught.value.message == expected
    assert old.to_json() == before, "the old pod is never touched"


def test_most_cases_are_cases_of_machines() -> None:
    assert len(MACHINES) == 30
