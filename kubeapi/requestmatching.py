"""Which requests a webhook or a policy is asked about: rules, selectors, match policies (pure).

Rules: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeapi.admissionregistration import ALL, GROUP, MatchResources, RuleWithOperations, ValidatingWebhook
from kubeapi.labelselector import LabelSelector, matches

CLUSTER, NAMESPACED = "Cluster", "Namespaced"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request is, as far as rules and selectors look."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    name: str = ""
    namespaced: bool = True
    versions: Sequence[str] = ()
    """All that the resource is served in, this one included."""
    namespace_labels: Mapping[str, str] | None = None
    """Of the request's namespace, or of the namespace that it is about; None = it has to do with none."""
    labels: Sequence[Mapping[str, str]] = ()
    """Of the new object and the old."""

    @property
    def exempt(self) -> bool:
        """What decides about requests is not asked about itself: whoever locked himself out could not get in again."""
        return self.group == GROUP


def of_webhook(hook: ValidatingWebhook, asked: Asked) -> str | None:
    """The version in which the webhook is to be asked; None = it is not."""
    match = MatchResources(
        namespace_selector=hook.namespace_selector,
        object_selector=hook.object_selector,
        resource_rules=hook.rules,
        match_policy=hook.match_policy,
    )
    return of_resources(match, asked)


def of_resources(match: MatchResources | None, asked: Asked) -> str | None:
    """The version in which it matches; None = it does not. Nothing that restricts (no `match`) matches everything."""
    if asked.exempt:
        return None
    if match is None:
        return asked.version
    if not _selected(match, asked) or _version(match.exclude_resource_rules, match.match_policy, asked):
        return None
    return _version(match.resource_rules, match.match_policy, asked)


def of_binding(match: MatchResources | None, asked: Asked) -> bool:
    """A binding without rules restricts by its selectors only."""
    if match is None or match.resource_rules:
        return of_resources(match, asked) is not None
    excluded = _version(match.exclude_resource_rules, match.match_policy, asked)
    return not asked.exempt and _selected(match, asked) and not excluded


def _selected(match: MatchResources, asked: Asked) -> bool:
    namespaces, objects = match.namespace_selector, match.object_selector
    if asked.namespace_labels is not None and not _chosen(namespaces, [asked.namespace_labels]):
        return False
    return _chosen(objects, asked.labels)


def _chosen(selector: LabelSelector | None, labels: Sequence[Mapping[str, str]]) -> bool:
    return selector is None or selector.empty or any(matches(selector, item) for item in labels)


def _version(rules: Sequence[RuleWithOperations], policy: str | None, asked: Asked) -> str | None:
    """As asked, if a rule says so; with `Equivalent` in any other version that a rule does."""
    others = [] if policy == "Exact" else [item for item in asked.versions if item != asked.version]
    for version in (asked.version, *others):
        tried = replace(asked, version=version)
        if any(_applies(rule, tried) for rule in rules):
            return version
    return None


def _applies(rule: RuleWithOperations, asked: Asked) -> bool:
    scope = NAMESPACED if asked.namespaced else CLUSTER
    return (
        rule.scope in (None, ALL, scope)
        and _has(rule.operations, asked.operation)
        and _has(rule.api_groups, asked.group)
        and _has(rule.api_versions, asked.version)
        and any(_is_resource(item, asked) for item in rule.resources)
        and (not rule.resource_names or asked.name in rule.resource_names)
    )


def _has(values: Collection[str], value: str) -> bool:
    return ALL in values or value in values


def _is_resource(rule: str, asked: Asked) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*`, `*/*`, `*/status`."""
    resource, _, subresource = rule.partition("/")
    return resource in (ALL, asked.resource) and subresource in (asked.subresource, ALL)
