"""Pod templates: defaults and validation, as of a pod but for its name."""

from __future__ import annotations

from collections.abc import Sequence

from kubeapi import defaults, labelselector, podvalidation
from kubeapi.core import Pod
from kubeapi.errors import Cause
from kubeapi.fields import forbidden, invalid, not_supported, required
from kubeapi.kinds.common import under
from kubeapi.labelselector import LabelSelector
from kubeapi.validation import validate_labels
from kubeapi.workloads import PodTemplateSpec


def default(template: PodTemplateSpec) -> None:
    # Pydantic keeps the instance: what is filled in is filled in in the template.
    defaults.default_pod(Pod.model_construct(spec=template.spec))


def validate(template: PodTemplateSpec, path: str) -> list[Cause]:
    causes = validate_labels(template.metadata.labels, f"{path}.labels")
    return [*causes, *under(path, podvalidation.validate_spec(template.spec))]


def validate_selected(
    template: PodTemplateSpec, selector: LabelSelector | None, path: str, kind: str, named: str
) -> list[Cause]:
    """Selector and template of a kind that keeps pods running. `kind` and `named`: as its messages have it."""
    causes: list[Cause] = []
    if selector is None:
        causes.append(required(f"{path}.selector"))
    else:
        causes += labelselector.validate(selector, f"{path}.selector")
        if selector.empty:
            detail = f"empty selector is invalid for {kind}"
            causes.append(invalid(f"{path}.selector", selector.to_dict(), detail))
        elif not labelselector.matches(selector, template.metadata.labels):
            detail = "`selector` does not match template `labels`"
            causes.append(invalid(f"{path}.template.metadata.labels", template.metadata.labels, detail))
    causes += validate(template, f"{path}.template")
    return [*causes, *_always_running(template, f"{path}.template", named)]


def _always_running(template: PodTemplateSpec, path: str, named: str) -> Sequence[Cause]:
    causes = []
    if template.spec.restart_policy != "Always":
        where = f"{path}.spec.restartPolicy"
        causes.append(not_supported(where, template.spec.restart_policy or "", ("Always",)))
    if template.spec.active_deadline_seconds is not None:
        where = f"{path}.spec.activeDeadlineSeconds"
        causes.append(forbidden(where, f"activeDeadlineSeconds in {named} is not Supported"))
    return causes
