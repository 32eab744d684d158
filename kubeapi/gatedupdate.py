"""How a pod behind scheduling gates may be narrowed before it is scheduled (KEP-3838; pkg/apis/core/validation:
validateNodeSelectorMutation, validateNodeAffinityMutation). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kubeapi.core import PodSpec
from kubeapi.errors import Cause
from kubeapi.fields import invalid
from kubeapi.scheduling import NodeAffinity, NodeSelectorTerm

_SELECTOR = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
_TERMS = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
_ADDITIONS = "only additions are allowed (no mutations or deletions)"


def validate(new: PodSpec, old: PodSpec) -> list[Cause]:
    """Nothing, for one that is not gated: there these fields may not change at all, which others say."""
    if not old.scheduling_gates:
        return []
    causes: list[Cause] = []
    if any(new.node_selector.get(key) != value for key, value in old.node_selector.items()):
        causes.append(invalid("spec.nodeSelector", new.node_selector, _SELECTOR))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    before, after = _terms(_node_affinity(old)), _terms(_node_affinity(new))
    if before and len(before) != len(after):
        return [*causes, invalid(path, [term.to_dict() for term in after], _TERMS)]
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if not _only_narrower(now, was):
            causes.append(invalid(f"{path}[{index}]", now.to_dict(), _ADDITIONS))
    return causes


def set_back(spec: PodSpec, old: PodSpec) -> None:
    """What a gated pod may change as `old` has it."""
    if not old.scheduling_gates:
        return
    spec.node_selector = old.node_selector
    was = _node_affinity(old)
    if _node_affinity(spec) == was:
        return
    if spec.affinity is None:
        spec.affinity = old.affinity.copied() if old.affinity else None
        if spec.affinity is not None:
            spec.affinity.pod_affinity = spec.affinity.pod_anti_affinity = None
    elif old.affinity is None and spec.affinity.pod_affinity is None and spec.affinity.pod_anti_affinity is None:
        spec.affinity = None
    else:
        spec.affinity.node_affinity = was


def _node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity else None


def _terms(affinity: NodeAffinity | None) -> Sequence[NodeSelectorTerm]:
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return selector.node_selector_terms if selector else ()


def _only_narrower(now: NodeSelectorTerm, was: NodeSelectorTerm) -> bool:
    """An empty term matches nothing: anything added to it would widen it."""
    empty = not was.match_expressions and not was.match_fields
    if empty:
        return not now.match_expressions and not now.match_fields
    kept = all(item in now.match_expressions for item in was.match_expressions)
    return kept and all(item in now.match_fields for item in was.match_fields)
