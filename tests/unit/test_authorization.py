"""Who may do what by the RBAC objects: bindings, subjects, rules, aggregation."""

from __future__ import annotations

import pytest

from kubeapi.authorization import Action, Policy, Who, decide, refusal, rules
from kubeapi.kinds.rbacdefaults import BINDINGS, ROLES
from kubeapi.meta import ObjectMeta
from kubeapi.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject

ANN = Who("ann", ("dev", "system:authenticated"))
LIST_PODS = Action("list", "pods", namespace="demo")


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=verbs.split(), api_groups=[group], resources=resources.split(), resource_names=names.split()
    )


def policy(granted: PolicyRule, subject: Subject, *, namespace: str = "demo") -> Policy:
    """Granted by a Role in `demo`, bound there; or by a ClusterRole, bound in the whole cluster."""
    if namespace:
        role = Role(metadata=ObjectMeta(name="r", namespace=namespace), rules=[granted])
        binding = RoleBinding(
            metadata=ObjectMeta(name="b", namespace=namespace),
            subjects=[subject],
            role_ref=RoleRef(kind="Role", name="r"),
        )
        return Policy(roles=[role], bindings=[binding])
    cluster_role = ClusterRole(metadata=ObjectMeta(name="r"), rules=[granted])
    cluster_binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="b"), subjects=[subject], role_ref=RoleRef(kind="ClusterRole", name="r")
    )
    return Policy(cluster_roles=[cluster_role], cluster_bindings=[cluster_binding])


@pytest.mark.parametrize(
    ("granted", "action", "allowed"),
    [
        (rule("list", "pods"), LIST_PODS, True),
        (rule("*", "*", "*"), LIST_PODS, True),
        (rule("get", "pods"), LIST_PODS, False),
        (rule("list", "pods", "apps"), LIST_PODS, False),
        (rule("list", "pods"), Action("list", "pods", namespace="other"), False),
        (rule("list", "pods"), Action("list", "pods"), False),
        (rule("get", "pods"), Action("get", "pods", subresource="log", namespace="demo"), False),
        (rule("get", "pods/log"), Action("get", "pods", subresource="log", namespace="demo"), True),
        (rule("get", "*/log"), Action("get", "pods", subresource="log", namespace="demo"), True),
        (rule("get", "*"), Action("get", "pods", subresource="log", namespace="demo"), True),
        (rule("get", "pods", names="a b"), Action("get", "pods", name="b", namespace="demo"), True),
        (rule("get", "pods", names="a b"), Action("get", "pods", name="c", namespace="demo"), False),
        (rule("list", "pods", names="a"), LIST_PODS, False),
    ],
)
def test_rules(granted: PolicyRule, action: Action, allowed: bool) -> None:
    assert decide(policy(granted, Subject(kind="User", name="ann")), ANN, action).allowed is allowed


@pytest.mark.parametrize(
    ("subject", "who", "allowed"),
    [
        (Subject(kind="User", name="ann"), ANN, True),
        (Subject(kind="User", name="bob"), ANN, False),
        (Subject(kind="Group", name="dev"), ANN, True),
        (Subject(kind="Group", name="ann"), ANN, False),
        (Subject(kind="ServiceAccount", name="x"), Who("system:serviceaccount:demo:x"), True),
        (Subject(kind="ServiceAccount", name="x", namespace="ns"), Who("system:serviceaccount:ns:x"), True),
        (Subject(kind="ServiceAccount", name="x", namespace="ns"), Who("system:serviceaccount:demo:x"), False),
    ],
)
def test_subjects(subject: Subject, who: Who, allowed: bool) -> None:
    assert decide(policy(rule("list", "pods"), subject), who, LIST_PODS).allowed is allowed


def test_a_cluster_binding_holds_in_every_namespace_and_outside_and_says_why() -> None:
    bound = policy(rule("list", "pods nodes"), Subject(kind="Group", name="dev"), namespace="")
    decision = decide(bound, ANN, LIST_PODS)
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"'
    assert decide(bound, ANN, Action("list", "nodes")).allowed


def test_urls_that_are_no_resources() -> None:
    granted = PolicyRule(verbs=["get"], non_resource_urls=["/healthz", "/logs/*"])
    bound = policy(granted, Subject(kind="User", name="ann"), namespace="")
    assert decide(bound, ANN, Action("get", path="/logs/a/b")).allowed
    assert decide(bound, ANN, Action("get", path="/healthz")).allowed
    assert not decide(bound, ANN, Action("get", path="/healthz/more")).allowed
    assert not decide(bound, ANN, Action("post", path="/healthz")).allowed


def test_masters_need_no_objects() -> None:
    masters = Who("x", ("system:masters",))
    assert decide(Policy(), masters, Action("delete", "nodes")).allowed
    assert [item.verbs for item in rules(Policy(), masters, "demo")] == [["*"], ["*"]]


def _bound_to(role: str) -> Policy:
    binding = RoleBinding(
        metadata=ObjectMeta(name="b", namespace="demo"),
        subjects=[Subject(kind="User", name="ann")],
        role_ref=RoleRef(kind="ClusterRole", name=role),
    )
    return Policy(cluster_roles=ROLES, cluster_bindings=BINDINGS, bindings=[binding])


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("view", ["get pods", "list configmaps"], ["get secrets", "create pods", "create rolebindings"]),
        ("edit", ["get pods", "create pods", "get secrets"], ["create rolebindings", "create resourcequotas"]),
        ("admin", ["get pods", "delete pods", "create rolebindings"], ["create resourcequotas", "delete nodes"]),
        ("cluster-admin", ["delete nodes", "escalate roles"], []),
    ],
)
def test_the_roles_that_every_cluster_has(role: str, allowed: list[str], refused: list[str]) -> None:
    """`admin` takes in `edit`, which takes in `view`."""

    def may(text: str) -> bool:
        verb, resource = text.split()
        group = "rbac.authorization.k8s.io" if "role" in resource else ""
        return decide(_bound_to(role), ANN, Action(verb, resource, group, namespace="demo")).allowed

    assert [text for text in allowed if not may(text)] == []
    assert [text for text in refused if may(text)] == []


def test_everybody_may_ask_about_himself_and_discover() -> None:
    everybody = Policy(cluster_roles=ROLES, cluster_bindings=BINDINGS)
    review = Action("create", "selfsubjectaccessreviews", "authorization.k8s.io")
    assert decide(everybody, ANN, review).allowed
    assert decide(everybody, ANN, Action("get", path="/apis/apps/v1")).allowed
    assert not decide(everybody, ANN, LIST_PODS).allowed


def test_a_circle_of_aggregation_ends() -> None:
    def circular(name: str) -> ClusterRole:
        selectors = [{"matchLabels": {"circle": "yes"}}]
        meta = ObjectMeta(name=name, labels={"circle": "yes"})
        return ClusterRole(metadata=meta, aggregation_rule={"clusterRoleSelectors": selectors})

    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="b"),
        subjects=[Subject(kind="User", name="ann")],
        role_ref=RoleRef(kind="ClusterRole", name="a"),
    )
    everything = Policy(cluster_roles=[circular("a"), circular("b")], cluster_bindings=[binding])
    assert not decide(everything, ANN, LIST_PODS).allowed


def test_the_words_of_a_refusal() -> None:
    text = 'User "ann" cannot list resource "pods" in API group "" in the namespace "demo"'
    assert refusal(ANN, LIST_PODS) == text
    at_large = 'User "ann" cannot get resource "nodes/status" in API group "" at the cluster scope'
    assert refusal(ANN, Action("get", "nodes", subresource="status")) == at_large
    assert refusal(ANN, Action("get", path="/logs")) == 'User "ann" cannot get path "/logs"'
