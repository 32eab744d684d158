"""Events as the hub lists them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from edgecore.events import NAME_MAX, Note, about_pod, enqueue
from kubeapi.core import Pod


def named(pod_name: str, notes: Sequence[tuple[str, str]]) -> list[str]:
    pod = Pod.model_validate({"metadata": {"name": pod_name, "namespace": "default", "uid": "u1"}, "spec": {}})
    return [
        orjson.loads(enqueue(about_pod(pod), Note(reason, "-"), "node-1", when, serial).value)["metadata"]["name"]
        for serial, (reason, when) in enumerate(notes, 1)
    ]


def test_s06_names_are_in_the_order_of_what_happened() -> None:
    """S-06: an event's time is a whole second; a crash and the restart after it may share it. Lists are by name."""
    second = "2026-12-01T04:50:33Z"
    names = named("shaken", [("Started", second), *[("Exited", second), ("Started", second)] * 20])
    names += named("shaken", [("Started", "2026-12-01T04:50:34Z")])
    assert names == sorted(names)
    assert len(set(names)) == len(names)


def test_the_same_event_has_the_same_name_and_a_long_one_fits() -> None:
    note = ("Started", "2026-12-01T04:50:33Z")
    assert named("a", [note]) == named("a", [note])
    (long,) = named("a" * 253, [note])
    assert len(long) == NAME_MAX
