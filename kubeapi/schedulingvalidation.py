"""Validation of what a pod says about where it may run (pkg/apis/core/validation: validateAffinity and after)."""

from __future__ import annotations

from collections.abc import Sequence

from kubeapi import labelselector, names
from kubeapi.core import PodSpec
from kubeapi.errors import Cause
from kubeapi.fields import duplicate, forbidden, invalid, not_supported, required
from kubeapi.labelselector import LabelSelector
from kubeapi.scheduling import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    TopologySpreadConstraint,
)

_ACTIONS = (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate(spec: PodSpec) -> list[Cause]:
    causes: list[Cause] = []
    if spec.affinity:
        if spec.affinity.node_affinity:
            causes += _node_affinity(spec.affinity.node_affinity, "spec.affinity.nodeAffinity")
        if spec.affinity.pod_affinity:
            causes += _pod_affinity(spec.affinity.pod_affinity, "spec.affinity.podAffinity")
        if spec.affinity.pod_anti_affinity:
            causes += _pod_affinity(spec.affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")
    causes += _spread(spec.topology_spread_constraints, "spec.topologySpreadConstraints")
    return [*causes, *_gates(spec.scheduling_gates, "spec.schedulingGates")]


# Nodes


def _node_affinity(affinity: NodeAffinity, path: str) -> list[Cause]:
    causes: list[Cause] = []
    selector = affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not selector.node_selector_terms:
            causes.append(required(where, "must have at least one node selector term"))
        for index, term in enumerate(selector.node_selector_terms):
            causes += _node_term(term, f"{where}[{index}]")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = f"{path}.{_PREFERRED}[{index}]"
        causes += _weight(preferred.weight, where)
        causes += _node_term(preferred.preference, f"{where}.preference")
    return causes


def _node_term(term: NodeSelectorTerm, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(term.match_expressions):
        causes += _node_requirement(item, f"{path}.matchExpressions[{index}]")
    for index, item in enumerate(term.match_fields):
        causes += _field_requirement(item, f"{path}.matchFields[{index}]")
    return causes


def _node_requirement(item: NodeSelectorRequirement, path: str) -> list[Cause]:
    causes: list[Cause] = []
    match item.operator:
        case "In" | "NotIn":
            if not item.values:
                causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if item.values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden(f"{path}.values", detail))
        case "Gt" | "Lt":
            if len(item.values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{path}.values", detail))
        case _:
            causes.append(invalid(f"{path}.operator", item.operator, "not a valid selector operator"))
    causes += [invalid(f"{path}.key", item.key, problem) for problem in names.qualified_name(item.key)]
    for index, value in enumerate(item.values):
        causes += [invalid(f"{path}.values[{index}]", value, problem) for problem in names.label_value(value)]
    return causes


def _field_requirement(item: NodeSelectorRequirement, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if item.operator not in ("In", "NotIn"):
        causes.append(invalid(f"{path}.operator", item.operator, "not a valid selector operator"))
    elif len(item.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{path}.values", detail))
    if item.key != "metadata.name":
        return [*causes, invalid(f"{path}.key", item.key, "not a valid field selector key")]
    for index, value in enumerate(item.values):
        causes += [invalid(f"{path}.values[{index}]", value, problem) for problem in names.dns_subdomain(value)]
    return causes


def _weight(weight: int, path: str) -> list[Cause]:
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


# Other pods


def _pod_affinity(affinity: PodAffinity, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        causes += _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = f"{path}.{_PREFERRED}[{index}]"
        causes += _weight(weighted.weight, where)
        causes += _pod_term(weighted.pod_affinity_term, f"{where}.podAffinityTerm")
    return causes


def _pod_term(term: PodAffinityTerm, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if term.label_selector is not None:
        causes += labelselector.validate(term.label_selector, f"{path}.labelSelector")
    if term.namespace_selector is not None:
        causes += labelselector.validate(term.namespace_selector, f"{path}.namespaceSelector")
    for name in term.namespaces:
        causes += [invalid(f"{path}.namespace", name, problem) for problem in names.dns_label(name)]
    causes += _label_keys(term.match_label_keys, term.label_selector, f"{path}.matchLabelKeys")
    causes += _label_keys(term.mismatch_label_keys, term.label_selector, f"{path}.mismatchLabelKeys")
    for index, key in enumerate(term.match_label_keys):
        if key in term.mismatch_label_keys:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid(f"{path}.matchLabelKeys[{index}]", key, detail))
    if not term.topology_key:
        return [*causes, required(f"{path}.topologyKey", "can not be empty")]
    return [
        *causes,
        *(invalid(f"{path}.topologyKey", term.topology_key, text) for text in names.qualified_name(term.topology_key)),
    ]


def _label_keys(keys: Sequence[str], selector: LabelSelector | None, path: str) -> list[Cause]:
    if not keys:
        return []
    if selector is None:
        return [forbidden(path, "must not be specified when labelSelector is not set")]
    causes: list[Cause] = []
    taken = {*selector.match_labels, *(item.key for item in selector.match_expressions)}
    for index, key in enumerate(keys):
        causes += [invalid(f"{path}[{index}]", key, problem) for problem in names.qualified_name(key)]
        if key in taken:
            causes.append(invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector"))
    return causes


# Spreading, gates


def _spread(constraints: Sequence[TopologySpreadConstraint], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(constraints):
        where = f"{path}[{index}]"
        causes += _constraint(item, where)
        pair = (item.topology_key, item.when_unsatisfiable)
        if pair in seen:
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return causes


def _constraint(item: TopologySpreadConstraint, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if item.max_skew <= 0:
        causes.append(invalid(f"{path}.maxSkew", item.max_skew, "must be greater than zero"))
    if not item.topology_key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        problems = names.qualified_name(item.topology_key)
        causes += [invalid(f"{path}.topologyKey", item.topology_key, problem) for problem in problems]
    if item.when_unsatisfiable not in _ACTIONS:
        causes.append(not_supported(f"{path}.whenUnsatisfiable", item.when_unsatisfiable, _ACTIONS))
    if item.min_domains is not None:
        if item.min_domains <= 0:
            causes.append(invalid(f"{path}.minDomains", item.min_domains, "must be greater than zero"))
        if item.when_unsatisfiable != DO_NOT_SCHEDULE:
            detail = f"can only use minDomains if whenUnsatisfiable={DO_NOT_SCHEDULE}, not {item.when_unsatisfiable}"
            causes.append(invalid(f"{path}.minDomains", item.min_domains, detail))
    for name, policy in (
        ("nodeAffinityPolicy", item.node_affinity_policy),
        ("nodeTaintsPolicy", item.node_taints_policy),
    ):
        if policy is not None and policy not in _POLICIES:
            causes.append(not_supported(f"{path}.{name}", policy, _POLICIES))
    causes += _label_keys(item.match_label_keys, item.label_selector, f"{path}.matchLabelKeys")
    if item.label_selector is not None:
        causes += labelselector.validate(item.label_selector, f"{path}.labelSelector")
    return causes


def _gates(gates: Sequence[PodSchedulingGate], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        if not gate.name:
            causes.append(required(f"{path}[{index}]"))
            continue
        causes += [invalid(f"{path}[{index}]", gate.name, problem) for problem in names.qualified_name(gate.name)]
        if gate.name in seen:
            causes.append(duplicate(f"{path}[{index}]", gate.name))
        seen.add(gate.name)
    return causes
