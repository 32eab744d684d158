"""What a real server refused, refused to real kubectl in the same words (tests/data/kubernetes/api)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectls import NEWEST, OLDER, kubectl
from tests.support.livehub import LiveHub
from tests.support.programs import Program, Ran

RECORDINGS = Path(__file__).parents[2] / "data" / "kubernetes" / "api"
PODS = "/api/v1/namespaces/demo/pods"

NOT_BY_KUBECTL = {
    "err_406": "it always accepts JSON",
    "err_415": "its patches have a type that the server knows",
}
"""Refusals that kubectl cannot provoke; tests/unit/server/test_recordings.py replays them."""


@dataclass(frozen=True, slots=True)
class Here:
    hub: LiveHub
    kubectl: Program

    def patch(self, bogus: Any) -> Ran:
        patch = json.dumps({"spec": {"containers": [{"name": "c1", **bogus}]}})
        return self.kubectl.run("patch", "pod", "b1", "--subresource=resize", "-p", patch)

    def post(self, path: str, body: str) -> Ran:
        return self.kubectl.run("create", "--raw", path, "-f", "-", stdin=body)

    def apply(self, manager: str, cpu: str, *more: str) -> Ran:
        container = {"name": "c1", "resources": {"requests": {"cpu": cpu}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b1"}, "spec": {"containers": [container]}}
        options = ("--server-side", "--subresource=resize", f"--field-manager={manager}", *more)
        return self.kubectl.run("apply", *options, "-f", "-", stdin=json.dumps(pod))

    def grow_old(self) -> int:
        """A revision that the store has forgotten since."""
        revision = int(self.kubectl.ok("get", "--raw", f"{PODS}?limit=1").split('"resourceVersion":"')[1].split('"')[0])
        for value in ("1", "2"):
            self.kubectl.ok("label", "pod", "b1", f"age={value}", "--overwrite")
        self.hub.forget_history()
        return revision


def _conflict(here: Here) -> Ran:
    here.apply("vpa", "110m", "--force-conflicts").ok()
    return here.apply("other", "120m")


def _delete_uid_mismatch(here: Here) -> Ran:
    options = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}})
    return here.kubectl.run("delete", "--raw", f"{PODS}/es", "-f", "-", stdin=options)


def _recorded_body(name: str) -> str:
    body = json.loads((RECORDINGS / f"{name}.json").read_text())["request"]["body"]
    return body if isinstance(body, str) else json.dumps(body)


def _continue_expired(here: Here) -> Ran:
    token = json.loads(here.kubectl.ok("get", "--raw", f"{PODS}?limit=1"))["metadata"]["continue"]
    here.grow_old()
    return here.kubectl.run("get", "--raw", f"{PODS}?limit=1&continue={token}")


def _strict(here: Here) -> Ran:
    """`kubectl edit` is the one that asks for strict validation of a patch. It shows the server's words in the file
    that it opens again, here to an editor that gives up."""
    add = r"sed -i 's/name: c1$/name: c1\n    bogus: 1/'"
    editor = f'edit() {{ grep "^# " "$1" >&2; grep -q bogus "$1" || {add} "$1"; }}; edit'
    return here.kubectl.run("edit", "pod", "b1", "--subresource=resize", KUBE_EDITOR=editor)


DRIVEN: dict[str, Callable[[Here], Ran]] = {
    "conflict_b1_ssa": _conflict,
    "delete_uid_mismatch": _delete_uid_mismatch,
    "err_404_path": lambda here: here.kubectl.run("get", "--raw", "/api/v1/bogus"),
    "err_404_pod": lambda here: here.kubectl.run("get", "pod", "none"),
    "err_405_post": lambda here: here.post(f"{PODS}/b1/resize", _recorded_body("err_405_post")),
    "err_409_exists": lambda here: here.post(PODS, _recorded_body("err_409_exists")),
    "err_422_create": lambda here: here.post(PODS, _recorded_body("err_422_create")),
    "err_bad_json": lambda here: here.post(PODS, "{not json"),
    "list_continue_expired_410": _continue_expired,
    "list_rv_future": lambda here: here.kubectl.run(
        "get", "--raw", f"{PODS}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan"
    ),
    "strict_unknown_field": _strict,
    "warn_unknown_field": lambda here: here.patch({"bogus": 1}),
    "watch_old_rv_410": lambda here: here.kubectl.run(
        "get", "--raw", f"{PODS}?watch=1&timeoutSeconds=3&resourceVersion={here.grow_old()}"
    ),
}
SUCCEEDS = {"warn_unknown_field", "watch_old_rv_410"}
"""A warning, and an error within a stream, fail no command."""
SLOW = {"list_rv_future"}
"""kubectl tries ten times, a second apart, as the answer asks it to."""


def recorded_refusals() -> set[str]:
    """Recordings in which the server refused, or warned of, something."""
    found = set()
    for path in RECORDINGS.glob("*.json"):
        recording = json.loads(path.read_text())
        failed = '"status": "Failure"' in json.dumps(recording["response"])
        if failed or "Warning" in recording["headers"]:
            found.add(path.stem)
    return found


def test_every_recorded_refusal_is_driven() -> None:
    assert recorded_refusals() == DRIVEN.keys() | NOT_BY_KUBECTL.keys()


@pytest.fixture(scope="module")
def pods(hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> None:
    program = kubectl(NEWEST, hub, tmp_path_factory.mktemp("home"), "demo")
    program.ok("create", "namespace", "demo")
    for name in ("b1", "es"):
        resources = {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"cpu": "2", "memory": "96Mi"}}
        container = {"name": "c1", "image": "copepod/micro:1", "resources": resources}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        program.ok("create", "-f", "-", stdin=json.dumps(pod))


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("version", [NEWEST, OLDER])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long, pytest.mark.timeout(600)] if name in SLOW else [])
        for name in sorted(DRIVEN)
    ],
)
def test_a_refusal_has_the_recorded_words(name: str, version: str, hub: LiveHub, tmp_path: Path) -> None:
    ran = DRIVEN[name](Here(hub, kubectl(version, hub, tmp_path / "home", "demo")))
    assert (ran.code == 0) == (name in SUCCEEDS), ran
    for words in recorded_words(name):
        assert re.search(words, " ".join((ran.out + ran.err).split())), f"{words}\n{ran.out}{ran.err}"


_NOT_FIXED = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), r"[-0-9a-f]{36}"),
    (re.compile(r"\d{3,8}"), r"\d+"),
)


def recorded_words(name: str) -> list[str]:
    """Patterns of what must be shown: of each cause where kubectl lists those, else of the message. Ids and revisions
    are those of here."""
    recording = json.loads((RECORDINGS / f"{name}.json").read_text())
    if warning := recording["headers"].get("Warning"):
        return [_pattern(warning.partition('"')[2].removesuffix('"').replace('\\"', '"'))]
    status = recording["response"]
    status = status.get("object", status)
    causes = status.get("details", {}).get("causes", ())
    if name == "strict_unknown_field":
        return [_pattern(causes[0]["message"].rpartition("strict decoding")[2])]
    if status["reason"] == "Invalid":
        return [_pattern(f"{cause['field']}: {cause['message']}") for cause in causes]
    return [_pattern(status["message"])]


def _pattern(text: str) -> str:
    pattern = re.escape(" ".join(text.split()))
    for fixed, instead in _NOT_FIXED:
        pattern = fixed.sub(lambda _, instead=instead: instead, pattern.replace(r"\-", "-"))
    return pattern
