"""The protobuf messages that all kinds share: metadata, references, selectors."""

from __future__ import annotations

from kubeapi.server.protobuf import Field, Message, Scalar

S = Scalar.STRING

OWNER: Message = {
    1: Field("kind", S),
    3: Field("name", S),
    4: Field("uid", S),
    5: Field("apiVersion", S),
    6: Field("controller", Scalar.BOOL),
    7: Field("blockOwnerDeletion", Scalar.BOOL),
}

META: Message = {
    1: Field("name", S),
    2: Field("generateName", S),
    3: Field("namespace", S),
    5: Field("uid", S),
    6: Field("resourceVersion", S),
    7: Field("generation", Scalar.INT, omit=True),
    8: Field("creationTimestamp", Scalar.TIME),
    9: Field("deletionTimestamp", Scalar.TIME),
    10: Field("deletionGracePeriodSeconds", Scalar.INT),
    11: Field("labels", S, map=True),
    12: Field("annotations", S, map=True),
    13: Field("ownerReferences", OWNER, repeated=True),
    14: Field("finalizers", S, repeated=True),
}

OBJECT_REFERENCE: Message = {
    1: Field("kind", S),
    2: Field("namespace", S),
    3: Field("name", S),
    4: Field("uid", S),
    5: Field("apiVersion", S),
    6: Field("resourceVersion", S),
    7: Field("fieldPath", S),
}

SELECTOR: Message = {
    1: Field("matchLabels", S, map=True),
    2: Field(
        "matchExpressions",
        {1: Field("key", S), 2: Field("operator", S), 3: Field("values", S, repeated=True)},
        repeated=True,
    ),
}
