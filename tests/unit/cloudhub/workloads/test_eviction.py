"""Who leaves a node, and who stays."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.workloads.eviction import driving, granted, patience
from kubeapi.core import Taint, Toleration
from kubeapi.validation import GIVE_UP_AFTER
from tests.support.kube import node

UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("key", "tolerations", "seconds"),
    [
        (UNREACHABLE, [], None),
        (UNREACHABLE, [{"key": UNREACHABLE, "operator": "Exists"}], None),
        (UNREACHABLE, [{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300}], 300.0),
        (
            UNREACHABLE,
            [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
            None,
        ),
        (UNREACHABLE, [{"operator": "Exists", "tolerationSeconds": 9}, {"operator": "Exists"}], 9.0),
        (UNREACHABLE, [{"operator": "Exists", "tolerationSeconds": -1}], 0.0),
        ("maintenance", [], 0.0),
        ("maintenance", [{"key": "maintenance", "operator": "Exists"}], None),
        ("maintenance", [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}], 60.0),
    ],
)
def test_patience(key: str, tolerations: list[dict[str, Any]], seconds: float | None) -> None:
    """S-84: silence alone evicts nobody who did not ask for it; a taint that people set does."""
    parsed = [Toleration.from_dict(item) for item in tolerations]
    assert patience(Taint(key=key, effect="NoExecute"), parsed) == seconds


@pytest.mark.parametrize(
    ("ready", "taints", "keys"),
    [
        ("True", [], []),
        ("Unknown", [], [UNREACHABLE]),
        ("False", [], ["node.kubernetes.io/not-ready"]),
        ("True", [{"key": "maintenance", "effect": "NoExecute"}], ["maintenance"]),
        ("True", [{"key": "gpu", "effect": "NoSchedule"}], []),
        ("Unknown", [{"key": UNREACHABLE, "effect": "NoSchedule"}], [UNREACHABLE]),
    ],
)
def test_what_drives_pods_away(ready: str, taints: list[dict[str, str]], keys: list[str]) -> None:
    assert [taint.key for taint in driving(node(ready=ready, spec={"taints": taints}))] == keys


@pytest.mark.parametrize(
    ("annotation", "tolerations", "seconds"),
    [
        ({}, [], None),
        ({GIVE_UP_AFTER: "300"}, [], 300.0),
        ({GIVE_UP_AFTER: "0"}, [], 0.0),
        ({GIVE_UP_AFTER: "300"}, [{"operator": "Exists"}], None),
        ({GIVE_UP_AFTER: "300"}, [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}], 7.0),
        ({GIVE_UP_AFTER: "300"}, [{"operator": "Exists", "effect": "NoSchedule"}], 300.0),
        ({GIVE_UP_AFTER: "soon"}, [], None),
    ],
)
def test_s84_a_node_may_say_how_long_its_silence_is_borne_and_a_pods_own_word_wins(
    annotation: dict[str, str], tolerations: list[dict[str, Any]], seconds: float | None
) -> None:
    """S-84: autonomy is configurable by node; a DaemonSet's pods, which tolerate for ever, stay."""
    silent = node(ready="Unknown")
    silent.metadata.annotations.update(annotation)
    [taint] = driving(silent)
    parsed = [Toleration.from_dict(item) for item in tolerations]
    assert patience(taint, parsed, granted(silent)) == seconds
