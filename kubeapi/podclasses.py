"""What its PriorityClass and RuntimeClass give a new pod (plugin/pkg/admission/{priority,runtimeclass}).

Pure. Words are those of the reference's plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubeapi.core import Pod, PodSpec
from kubeapi.errors import ApiError, forbidden
from kubeapi.policies import PriorityClass, RuntimeClass

_PREEMPTS = "PreemptLowerPriority"


def apply_priority(pod: Pod, classes: Sequence[PriorityClass]) -> None:
    """Resolve the name to a number, or take the cluster's default class. Raises ApiError 403."""
    spec = pod.spec
    if spec.priority_class_name:
        found = next((item for item in classes if item.metadata.name == spec.priority_class_name), None)
        if found is None:
            raise _refused(pod, f"no PriorityClass with name {spec.priority_class_name} was found")
    else:
        defaults = [item for item in classes if item.global_default]
        found = min(defaults, key=lambda item: item.value, default=None)
        spec.priority_class_name = found.metadata.name if found else spec.priority_class_name
    priority = found.value if found else 0
    policy = (found.preemption_policy if found else None) or _PREEMPTS
    if spec.priority is not None and spec.priority != priority:
        raise _refused(
            pod,
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name",
        )
    if spec.preemption_policy and spec.preemption_policy != policy:
        raise _refused(
            pod,
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec.priority, spec.preemption_policy = priority, policy


def keep_priority(new: PodSpec, old: PodSpec) -> None:
    """Admission gave them, so whoever replaces a pod by its manifest does not name them."""
    if new.priority is None:
        new.priority = old.priority
    new.preemption_policy = new.preemption_policy or old.preemption_policy


def apply_runtime(pod: Pod, runtime: RuntimeClass | None) -> None:
    """Overhead, and where such pods may run. `runtime` is the class that the pod names, None if there is none such.

    Raises ApiError 403.
    """
    spec = pod.spec
    if not spec.runtime_class_name:
        if spec.overhead:
            raise _refused(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    if runtime is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{spec.runtime_class_name}" not found')
    overhead = runtime.overhead.pod_fixed if runtime.overhead else {}
    if spec.overhead and spec.overhead != overhead:
        detail = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        if not overhead:
            detail = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _refused(pod, detail)
    spec.overhead = dict(overhead)
    if runtime.scheduling is None:
        return
    for key, value in runtime.scheduling.node_selector.items():
        if spec.node_selector.get(key, value) != value:
            detail = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}]"
            raise _refused(pod, f"pod rejected: {detail} = {spec.node_selector[key]}")
        spec.node_selector[key] = value
    spec.tolerations += [item for item in runtime.scheduling.tolerations if item not in spec.tolerations]


def _refused(pod: Pod, message: str) -> ApiError:
    return forbidden("pods", pod.metadata.name, message)
