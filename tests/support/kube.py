"""Short ways to write down the objects these tests are about."""

from __future__ import annotations

from typing import Any

from kubeapi.core import Node, Pod


def node(name: str = "n1", *, ready: str | None = "True", **more: Any) -> Node:
    """With 2 CPUs, 1Gi and 10 pods, unless `allocatable` says otherwise. `spec`, `labels`, `annotations` as given."""
    allocatable = more.pop("allocatable", {"cpu": "2", "memory": "1Gi", "pods": "10"})
    conditions = [{"type": "Ready", "status": ready, "reason": "AgentReady"}] if ready else []
    return Node.from_dict(
        {
            "metadata": {"name": name, "uid": f"uid-{name}"} | _metadata(more),
            "spec": more.pop("spec", {}),
            "status": {"allocatable": allocatable, "conditions": conditions},
        }
    )


def pod(name: str = "p1", *, cpu: str = "100m", memory: str = "64Mi", bound: str = "", **more: Any) -> Pod:
    spec = {
        "containers": [{"name": "vm", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        "nodeName": bound or None,
    }
    return Pod.from_dict(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"} | _metadata(more),
            "spec": spec | more.pop("spec", {}),
            "status": more.pop("status", {}),
        }
    )


def _metadata(more: dict[str, Any]) -> dict[str, Any]:
    return {key: more.pop(key) for key in ("labels", "annotations", "creationTimestamp") if key in more}
