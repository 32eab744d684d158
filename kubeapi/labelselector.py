"""metav1.LabelSelector: the selector in a spec (of workloads, budgets, policies), not the one in a query string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from kubeapi import names
from kubeapi.errors import Cause
from kubeapi.fields import forbidden, invalid, required
from kubeapi.meta import KubeModel


class LabelSelectorRequirement(KubeModel):
    key: str = ""
    operator: str = ""
    """`In`, `NotIn`, `Exists` or `DoesNotExist`."""
    values: list[str] = Field(default_factory=list)


class LabelSelector(KubeModel):
    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything; none at all matches nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_meets(item, labels) for item in selector.match_expressions)


def _meets(item: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(item.key)
    match item.operator:
        case "In":
            return value is not None and value in item.values
        case "NotIn":
            return value is None or value not in item.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def to_text(selector: LabelSelector | None) -> str:
    """As kubectl shows it and as a query's `labelSelector` (metav1.FormatLabelSelector)."""
    if selector is None:
        return "<none>"
    parts = [(key, f"{key}={value}") for key, value in selector.match_labels.items()]
    for item in selector.match_expressions:
        listed = ",".join(sorted(item.values))
        text = {
            "In": f"{item.key} in ({listed})",
            "NotIn": f"{item.key} notin ({listed})",
            "Exists": item.key,
            "DoesNotExist": f"!{item.key}",
        }
        parts.append((item.key, text.get(item.operator, "<error>")))
    return ",".join(text for _, text in sorted(parts)) or "<none>"


def validate(selector: LabelSelector, path: str) -> list[Cause]:
    """k8s.io/apimachinery/pkg/apis/meta/v1/validation.ValidateLabelSelector."""
    causes: list[Cause] = []
    for key, value in selector.match_labels.items():
        causes += [invalid(f"{path}.matchLabels", key, problem) for problem in names.qualified_name(key)]
        causes += [invalid(f"{path}.matchLabels", value, problem) for problem in names.label_value(value)]
    for index, item in enumerate(selector.match_expressions):
        causes += _requirement(item, f"{path}.matchExpressions[{index}]")
    return causes


def _requirement(item: LabelSelectorRequirement, path: str) -> Sequence[Cause]:
    causes: list[Cause] = []
    if item.operator in ("In", "NotIn"):
        if not item.values:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif item.operator in ("Exists", "DoesNotExist"):
        if item.values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{path}.values", detail))
    else:
        causes.append(invalid(f"{path}.operator", item.operator, "not a valid selector operator"))
    causes += [invalid(f"{path}.key", item.key, problem) for problem in names.qualified_name(item.key)]
    for index, value in enumerate(item.values):
        causes += [invalid(f"{path}.values[{index}]", value, problem) for problem in names.label_value(value)]
    return causes
