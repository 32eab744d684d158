"""The protobuf messages that kubectl sends: field numbers as in Kubernetes' `generated.proto` files."""

from __future__ import annotations

from collections.abc import Mapping

from kubeapi.server.protobuf import Field, Message, Scalar
from kubeapi.server.protometa import META, OBJECT_REFERENCE, S
from kubeapi.server.protoworkloads import WORKLOADS

_DELETE_OPTIONS: Message = {
    1: Field("gracePeriodSeconds", Scalar.INT),
    2: Field("preconditions", {1: Field("uid", S), 2: Field("resourceVersion", S)}),
    3: Field("orphanDependents", Scalar.BOOL),
    4: Field("propagationPolicy", S),
    5: Field("dryRun", S, repeated=True),
}

_RESOURCE_ATTRIBUTES: Message = {
    1: Field("namespace", S),
    2: Field("verb", S),
    3: Field("group", S),
    4: Field("version", S),
    5: Field("resource", S),
    6: Field("subresource", S),
    7: Field("name", S),
}

_ACCESS_SPEC: Message = {
    1: Field("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: Field("nonResourceAttributes", {1: Field("path", S), 2: Field("verb", S)}),
}

MESSAGES: Mapping[tuple[str, str], Message] = {
    ("v1", "Namespace"): {
        1: Field("metadata", META),
        2: Field("spec", {1: Field("finalizers", S, repeated=True)}),
        3: Field("status", {1: Field("phase", S)}),
    },
    ("v1", "ConfigMap"): {
        1: Field("metadata", META),
        2: Field("data", S, map=True),
        3: Field("binaryData", Scalar.BYTES, map=True),
        4: Field("immutable", Scalar.BOOL),
    },
    ("v1", "Secret"): {
        1: Field("metadata", META),
        2: Field("data", Scalar.BYTES, map=True),
        3: Field("type", S),
        4: Field("stringData", S, map=True),
        5: Field("immutable", Scalar.BOOL),
    },
    ("v1", "ServiceAccount"): {
        1: Field("metadata", META),
        2: Field("secrets", OBJECT_REFERENCE, repeated=True),
        3: Field("imagePullSecrets", {1: Field("name", S)}, repeated=True),
        4: Field("automountServiceAccountToken", Scalar.BOOL),
    },
    ("v1", "Binding"): {1: Field("metadata", META), 2: Field("target", OBJECT_REFERENCE)},
    ("v1", "DeleteOptions"): _DELETE_OPTIONS,
    ("policy/v1", "Eviction"): {
        1: Field("metadata", META),
        2: Field("deleteOptions", _DELETE_OPTIONS),
    },
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        1: Field("metadata", META),
        2: Field("spec", _ACCESS_SPEC),
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: Field("metadata", META),
        2: Field("spec", {1: Field("namespace", S)}),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: Field("metadata", META)},
    **WORKLOADS,
}
