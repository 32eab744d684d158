"""A pod's words about other pods, made ready to be asked: near whom it wants to be, and away from whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeapi.core import Pod
from kubeapi.labelselector import LabelSelector, LabelSelectorRequirement, matches
from kubeapi.scheduling import PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm

Spaces = Mapping[str, Mapping[str, str]]
"""Labels of each namespace."""


@dataclass(frozen=True, slots=True)
class Term:
    key: str
    """Of the node label whose values are the places."""
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int = 0

    def means(self, pod: Pod, spaces: Spaces) -> bool:
        namespace = pod.metadata.namespace or ""
        if not matches(self.selector, pod.metadata.labels):
            return False
        return namespace in self.namespaces or matches(self.namespace_selector, spaces.get(namespace, {}))


def needs(pod: Pod) -> tuple[Term, ...]:
    return _terms(pod, _required(pod.spec.affinity.pod_affinity if pod.spec.affinity else None))


def antipathies(pod: Pod) -> tuple[Term, ...]:
    return _terms(pod, _required(pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None))


def wishes(pod: Pod) -> tuple[Term, ...]:
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    liked, disliked = _preferred(affinity.pod_affinity), _preferred(affinity.pod_anti_affinity)
    return (
        *(_term(pod, item.pod_affinity_term, item.weight) for item in liked),
        *(_term(pod, item.pod_affinity_term, -item.weight) for item in disliked),
    )


def with_label_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], same: Iterable[str], other: Iterable[str] = ()
) -> LabelSelector | None:
    """The selector, and that the labels `same` (`other`) have (have not) the value they have here. A label that the
    pod does not have asks nothing."""
    added = [(key, "In") for key in same if key in labels] + [(key, "NotIn") for key in other if key in labels]
    if selector is None or not added:
        return selector
    expressions = [LabelSelectorRequirement(key=key, operator=how, values=[labels[key]]) for key, how in added]
    return selector.model_copy(update={"match_expressions": [*selector.match_expressions, *expressions]})


def _required(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _preferred(affinity: PodAffinity | None) -> Sequence[WeightedPodAffinityTerm]:
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def _terms(pod: Pod, items: Sequence[PodAffinityTerm]) -> tuple[Term, ...]:
    return tuple(_term(pod, item) for item in items)


def _term(pod: Pod, item: PodAffinityTerm, weight: int = 0) -> Term:
    """Without a word about namespaces the pod's own is meant."""
    own = () if item.namespaces or item.namespace_selector is not None else (pod.metadata.namespace or "",)
    labels = pod.metadata.labels
    selector = with_label_keys(item.label_selector, labels, item.match_label_keys, item.mismatch_label_keys)
    return Term(item.topology_key, selector, frozenset((*item.namespaces, *own)), item.namespace_selector, weight)
