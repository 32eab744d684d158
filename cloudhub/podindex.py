"""Pods by the node they are bound to: kept up change by change, so that what concerns one node costs what is on it."""

from __future__ import annotations

from collections import defaultdict

from cloudhub.mirror import Identity, Mirror
from kubeapi.core import Pod


class PodsByNode:
    """Make it before the listeners of those who ask it: it must have heard of a change first."""

    def __init__(self, pods: Mirror[Pod]) -> None:
        self._pods = pods
        self._by_node: defaultdict[str, set[Identity]] = defaultdict(set)
        self._node_of: dict[Identity, str] = {}
        pods.listen(self._changed)

    def on(self, node: str) -> list[Pod]:
        """In order of namespace and name."""
        items = self._pods.items
        return [items[identity] for identity in sorted(self._by_node.get(node, ())) if identity in items]

    def nodes(self) -> list[str]:
        """That have pods, whether or not they exist."""
        return list(self._by_node)

    def _changed(self, pod: Pod) -> None:
        identity = (pod.metadata.namespace or "", pod.metadata.name)
        current = self._pods.items.get(identity)
        node = (current.spec.node_name or "") if current else ""
        before = self._node_of.get(identity, "")
        if node == before:
            return
        if before:
            self._by_node[before].discard(identity)
            if not self._by_node[before]:
                del self._by_node[before]
        if node:
            self._by_node[node].add(identity)
            self._node_of[identity] = node
        else:
            self._node_of.pop(identity, None)
