"""Which requests a webhook or a policy is asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubeapi.admissionregistration import MatchResources
from kubeapi.requestmatching import Asked, of_binding, of_resources

PODS = Asked("CREATE", "", "v1", "pods", versions=("v1",), namespace_labels={"env": "prod"}, labels=({"app": "a"},))


def rule(**more: Any) -> dict[str, Any]:
    return {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], **more}


def match(*rules: dict[str, Any], **more: Any) -> MatchResources:
    return MatchResources.from_dict({"resourceRules": list(rules), **more})


@pytest.mark.parametrize(
    ("given", "asked", "matches"),
    [
        (rule(), PODS, True),
        (rule(operations=["*"]), PODS, True),
        (rule(operations=["UPDATE", "DELETE"]), PODS, False),
        (rule(apiGroups=["apps"]), PODS, False),
        (rule(apiGroups=["*"], apiVersions=["*"], resources=["*"]), PODS, True),
        (rule(apiVersions=["v2"]), PODS, False),
        (rule(resources=["services"]), PODS, False),
        (rule(resources=["pods/status"]), PODS, False),
        (rule(), replace(PODS, subresource="status"), False),
        (rule(resources=["*"]), replace(PODS, subresource="status"), False),
        (rule(resources=["pods/*"]), replace(PODS, subresource="status"), True),
        (rule(resources=["*/status"]), replace(PODS, subresource="status"), True),
        (rule(resources=["*/*"]), PODS, True),
        (rule(scope="Namespaced"), PODS, True),
        (rule(scope="Cluster"), PODS, False),
        (rule(scope="Cluster"), replace(PODS, namespaced=False), True),
        (rule(resourceNames=["x"]), PODS, False),
        (rule(resourceNames=["x"]), replace(PODS, name="x"), True),
    ],
)
def test_rules(given: dict[str, Any], asked: Asked, matches: bool) -> None:
    assert (of_resources(match(given), asked) is not None) is matches


@pytest.mark.parametrize(
    ("selectors", "matches"),
    [
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"env": "test"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"namespaceSelector": {}, "objectSelector": {}}, True),
        ({"excludeResourceRules": [rule()]}, False),
        ({"excludeResourceRules": [rule(operations=["DELETE"])]}, True),
    ],
)
def test_selectors_and_exclusions(selectors: dict[str, Any], matches: bool) -> None:
    assert (of_resources(match(rule(), **selectors), PODS) is not None) is matches


def test_either_the_old_or_the_new_object_is_selected_and_cluster_scope_has_no_namespace() -> None:
    selecting = match(rule(), objectSelector={"matchLabels": {"app": "b"}})
    assert of_resources(selecting, replace(PODS, labels=({"app": "a"}, {"app": "b"}))) == "v1"
    elsewhere = match(rule(), namespaceSelector={"matchLabels": {"env": "test"}})
    assert of_resources(elsewhere, replace(PODS, namespaced=False, namespace_labels=None)) == "v1"


def test_another_version_of_the_same_thing_matches_unless_exactly_that_one_is_meant() -> None:
    old = replace(PODS, group="x.example", version="v1beta1", versions=("v1", "v1beta1"))
    given = rule(apiGroups=["x.example"])
    assert of_resources(match(given), old) == "v1"
    assert of_resources(match(given, matchPolicy="Exact"), old) is None


def test_a_binding_without_rules_restricts_by_its_selectors() -> None:
    assert of_binding(None, PODS)
    assert of_binding(match(), PODS)
    assert not of_binding(match(namespaceSelector={"matchLabels": {"env": "test"}}), PODS)
    assert not of_binding(match(rule(resources=["services"])), PODS)


def test_nobody_is_asked_about_what_configures_him() -> None:
    own = replace(PODS, group="admissionregistration.k8s.io", resource="validatingwebhookconfigurations")
    everything = match(rule(operations=["*"], apiGroups=["*"], apiVersions=["*"], resources=["*/*"]))
    assert of_resources(everything, own) is None
    assert not of_binding(None, own)
