"""Validation of a Job's policies (pkg/apis/batch/validation: validatePodFailurePolicy, validateSuccessPolicy)."""

from __future__ import annotations

import re

from kubeapi.errors import Cause
from kubeapi.fields import duplicate, in_range, invalid, not_supported, required
from kubeapi.jobpolicies import ACTIONS, FAIL_INDEX, OnExitCodes, PodFailurePolicyRule, SuccessPolicy
from kubeapi.kinds.common import non_negative
from kubeapi.workloads import JobSpec

_MOST_RULES, _MOST_CODES, _MOST_PATTERNS = 20, 255, 20
_INDEXES = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
_STATUSES = ("False", "True", "Unknown")


def validate(spec: JobSpec, path: str) -> list[Cause]:
    causes = _per_index(spec, path)
    if spec.pod_failure_policy is not None:
        causes += _failure_policy(spec, path)
    if spec.success_policy is not None:
        causes += _success_policy(spec, spec.success_policy, path)
    return causes


def _per_index(spec: JobSpec, path: str) -> list[Cause]:
    causes: list[Cause] = []
    indexed = spec.completion_mode == "Indexed"
    if spec.backoff_limit_per_index is not None and not indexed:
        detail = "requires indexed completion mode"
        causes.append(invalid(f"{path}.backoffLimitPerIndex", spec.backoff_limit_per_index, detail))
    if spec.max_failed_indexes is None:
        return causes
    if spec.backoff_limit_per_index is None:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.completions is not None and spec.max_failed_indexes > spec.completions:
        detail = "must be less than or equal to completions"
        causes.append(invalid(f"{path}.maxFailedIndexes", spec.max_failed_indexes, detail))
    return causes


def _failure_policy(spec: JobSpec, path: str) -> list[Cause]:
    causes: list[Cause] = []
    policy, template = spec.pod_failure_policy, spec.template.spec
    rules = policy.rules if policy else []
    if template.restart_policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(invalid(f"{path}.template.spec.restartPolicy", template.restart_policy or "", detail))
    where = f"{path}.podFailurePolicy.rules"
    if len(rules) > _MOST_RULES:
        detail = f"must have at most {_MOST_RULES} items"
        causes.append(Cause("FieldValueTooMany", f"Too many: {len(rules)}: {detail}", where))
    known = {item.name for item in (*template.containers, *template.init_containers)}
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{where}[{index}]", spec, known)
    if spec.pod_replacement_policy not in (None, "Failed"):
        causes.append(not_supported(f"{path}.podReplacementPolicy", spec.pod_replacement_policy, ("Failed",)))
    return causes


def _rule(rule: PodFailurePolicyRule, path: str, spec: JobSpec, known: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    if not rule.action:
        causes.append(required(f"{path}.action", f"valid values: {list(ACTIONS)}"))
    elif rule.action not in ACTIONS:
        causes.append(not_supported(f"{path}.action", rule.action, ACTIONS))
    elif rule.action == FAIL_INDEX and spec.backoff_limit_per_index is None:
        causes.append(invalid(f"{path}.action", rule.action, "requires the backoffLimitPerIndex to be set"))
    if rule.on_exit_codes is not None:
        causes += _exit_codes(rule.on_exit_codes, f"{path}.onExitCodes", known)
    for index, item in enumerate(rule.on_pod_conditions):
        where = f"{path}.onPodConditions[{index}]"
        if not item.type:
            causes.append(required(f"{where}.type"))
        if not item.status:
            causes.append(required(f"{where}.status", f"valid values: {list(_STATUSES)}"))
        elif item.status not in _STATUSES:
            causes.append(not_supported(f"{where}.status", item.status, _STATUSES))
    if rule.on_exit_codes is not None and rule.on_pod_conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        causes.append(invalid(path, rule.to_dict(), detail))
    elif rule.on_exit_codes is None and not rule.on_pod_conditions:
        causes.append(invalid(path, rule.to_dict(), "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _exit_codes(item: OnExitCodes, path: str, known: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    if item.operator not in ("In", "NotIn"):
        causes.append(not_supported(f"{path}.operator", item.operator, ("In", "NotIn")))
    if item.container_name is not None and item.container_name not in known:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", item.container_name, detail))
    where = f"{path}.values"
    if not item.values:
        causes.append(invalid(where, [], "at least one value is required"))
    if len(item.values) > _MOST_CODES:
        detail = f"must have at most {_MOST_CODES} items"
        causes.append(Cause("FieldValueTooMany", f"Too many: {len(item.values)}: {detail}", where))
    seen: set[int] = set()
    for index, value in enumerate(item.values):
        if value in seen:
            causes.append(duplicate(f"{where}[{index}]", value))
        seen.add(value)
        if item.operator == "In" and value == 0:
            causes.append(invalid(f"{where}[{index}]", value, "must not be 0 for the In operator"))
        if not -(2**31) <= value < 2**31:
            causes.append(invalid(f"{where}[{index}]", value, in_range(-(2**31), 2**31 - 1)))
    if item.values != sorted(item.values):
        causes.append(invalid(where, item.values, "must be ordered"))
    return causes


def _success_policy(spec: JobSpec, policy: SuccessPolicy, path: str) -> list[Cause]:
    where = f"{path}.successPolicy"
    if spec.completion_mode != "Indexed":
        return [invalid(where, policy.to_dict(), "requires indexed completion mode")]
    if not policy.rules:
        return [required(f"{where}.rules", "at least one rules must be specified when the successPolicy is specified")]
    causes: list[Cause] = []
    if len(policy.rules) > _MOST_PATTERNS:
        detail = f"must have at most {_MOST_PATTERNS} items"
        causes.append(Cause("FieldValueTooMany", f"Too many: {len(policy.rules)}: {detail}", f"{where}.rules"))
    for index, rule in enumerate(policy.rules):
        spot = f"{where}.rules[{index}]"
        if rule.succeeded_indexes is None and rule.succeeded_count is None:
            causes.append(required(spot, "at least one of succeededCount or succeededIndexes must be specified"))
        if rule.succeeded_indexes is not None:
            causes += _indexes(rule.succeeded_indexes, spec.completions or 0, f"{spot}.succeededIndexes")
        causes += non_negative(f"{spot}.succeededCount", rule.succeeded_count)
        if (rule.succeeded_count or 0) > (spec.completions or 0):
            detail = f"must be less than or equal to {spec.completions or 0} (the number of specified completions)"
            causes.append(invalid(f"{spot}.succeededCount", rule.succeeded_count, detail))
    return causes


def _indexes(text: str, completions: int, path: str) -> list[Cause]:
    if not _INDEXES.fullmatch(text):
        return [invalid(path, text, "error parsing succeededIndexes")]
    last = -1
    for part in text.split(","):
        first, _, end = part.partition("-")
        low, high = int(first), int(end or first)
        if low <= last or high < low or high >= completions:
            return [invalid(path, text, "error parsing succeededIndexes")]
        last = high
    return []
