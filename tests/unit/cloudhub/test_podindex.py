"""Pods by node, whatever happens to them."""

from __future__ import annotations

from typing import Any

from cloudhub.mirror import Mirror
from cloudhub.podindex import PodsByNode
from kubeapi.core import Pod
from kubeapi.objects import WatchEvent, WatchEventType
from tests.support.kube import pod


def test_it_follows_binding_deletion_and_a_name_that_comes_back() -> None:
    nothing: Any = None
    mirror = Mirror(nothing, Pod)
    index = PodsByNode(mirror)

    def happens(kind: WatchEventType, changed: Pod) -> list[str]:
        mirror._take(WatchEvent(kind, changed))
        return [item.spec.node_name or "" for node in ("a", "b") for item in index.on(node)]

    assert happens(WatchEventType.ADDED, pod("p")) == []
    assert happens(WatchEventType.MODIFIED, pod("p", bound="a")) == ["a"]
    assert happens(WatchEventType.MODIFIED, pod("p", bound="a", status={"phase": "Running"})) == ["a"]
    assert index.on("a")[0].status.phase == "Running"
    assert happens(WatchEventType.MODIFIED, pod("p", bound="b")) == ["b"]
    assert happens(WatchEventType.DELETED, pod("p", bound="b")) == []
    assert index.nodes() == []
