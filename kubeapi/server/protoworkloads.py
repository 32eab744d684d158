"""The protobuf messages of the kinds that `kubectl create` makes: workloads, services, policies, RBAC.

Pods are `Whole`: a template with a field that is not listed here is refused, not cut.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeapi.server.protobuf import Field, Message, Scalar, Whole
from kubeapi.server.protometa import META, SELECTOR, S

_INT, _BOOL, _QUANTITY, _EITHER = Scalar.INT, Scalar.BOOL, Scalar.QUANTITY, Scalar.INT_OR_STRING
_NAMED: Message = {1: Field("name", S)}
_KEY_IN: Message = Whole({1: Field("", _NAMED, inline=True), 2: Field("key", S), 3: Field("optional", _BOOL)})

_ENV_SOURCE: Message = Whole(
    {
        1: Field("fieldRef", {1: Field("apiVersion", S), 2: Field("fieldPath", S)}),
        2: Field(
            "resourceFieldRef", {1: Field("containerName", S), 2: Field("resource", S), 3: Field("divisor", _QUANTITY)}
        ),
        3: Field("configMapKeyRef", _KEY_IN),
        4: Field("secretKeyRef", _KEY_IN),
    }
)
_ALL_OF: Message = Whole({1: Field("", _NAMED, inline=True), 2: Field("optional", _BOOL)})
_RESOURCES: Message = Whole({1: Field("limits", _QUANTITY, map=True), 2: Field("requests", _QUANTITY, map=True)})
_CONTAINER: Message = Whole(
    {
        1: Field("name", S),
        2: Field("image", S),
        3: Field("command", S, repeated=True),
        4: Field("args", S, repeated=True),
        5: Field("workingDir", S),
        6: Field(
            "ports",
            {
                1: Field("name", S),
                2: Field("hostPort", _INT, omit=True),
                3: Field("containerPort", _INT),
                4: Field("protocol", S),
                5: Field("hostIP", S),
            },
            repeated=True,
        ),
        7: Field("env", {1: Field("name", S), 2: Field("value", S), 3: Field("valueFrom", _ENV_SOURCE)}, repeated=True),
        8: Field("resources", _RESOURCES),
        13: Field("terminationMessagePath", S),
        14: Field("imagePullPolicy", S),
        16: Field("stdin", _BOOL, omit=True),
        17: Field("stdinOnce", _BOOL, omit=True),
        18: Field("tty", _BOOL, omit=True),
        19: Field(
            "envFrom",
            {1: Field("prefix", S), 2: Field("configMapRef", _ALL_OF), 3: Field("secretRef", _ALL_OF)},
            repeated=True,
        ),
        20: Field("terminationMessagePolicy", S),
        23: Field("resizePolicy", {1: Field("resourceName", S), 2: Field("restartPolicy", S)}, repeated=True),
        24: Field("restartPolicy", S),
    }
)
_TOLERATION: Message = Whole(
    {
        1: Field("key", S),
        2: Field("operator", S),
        3: Field("value", S),
        4: Field("effect", S),
        5: Field("tolerationSeconds", _INT),
    }
)
_POD_SPEC: Message = Whole(
    {
        2: Field("containers", _CONTAINER, repeated=True),
        3: Field("restartPolicy", S),
        4: Field("terminationGracePeriodSeconds", _INT),
        5: Field("activeDeadlineSeconds", _INT),
        6: Field("dnsPolicy", S),
        7: Field("nodeSelector", S, map=True),
        8: Field("serviceAccountName", S),
        9: Field("serviceAccount", S),
        10: Field("nodeName", S),
        11: Field("hostNetwork", _BOOL, omit=True),
        12: Field("hostPID", _BOOL, omit=True),
        13: Field("hostIPC", _BOOL, omit=True),
        14: Field("securityContext", Whole()),
        15: Field("imagePullSecrets", _NAMED, repeated=True),
        16: Field("hostname", S),
        17: Field("subdomain", S),
        19: Field("schedulerName", S),
        20: Field("initContainers", _CONTAINER, repeated=True),
        21: Field("automountServiceAccountToken", _BOOL),
        22: Field("tolerations", _TOLERATION, repeated=True),
        24: Field("priorityClassName", S),
        25: Field("priority", _INT),
        29: Field("runtimeClassName", S),
        30: Field("enableServiceLinks", _BOOL),
        31: Field("preemptionPolicy", S),
        32: Field("overhead", _QUANTITY, map=True),
        40: Field("resources", _RESOURCES),
    }
)
_TEMPLATE: Message = {1: Field("metadata", META), 2: Field("spec", _POD_SPEC)}

_DEPLOYMENT_SPEC: Message = {
    1: Field("replicas", _INT),
    2: Field("selector", SELECTOR),
    3: Field("template", _TEMPLATE),
    4: Field(
        "strategy",
        {
            1: Field("type", S),
            2: Field("rollingUpdate", {1: Field("maxUnavailable", _EITHER), 2: Field("maxSurge", _EITHER)}),
        },
    ),
    5: Field("minReadySeconds", _INT, omit=True),
    6: Field("revisionHistoryLimit", _INT),
    7: Field("paused", _BOOL, omit=True),
    9: Field("progressDeadlineSeconds", _INT),
}
_JOB_SPEC: Message = Whole(
    {
        1: Field("parallelism", _INT),
        2: Field("completions", _INT),
        3: Field("activeDeadlineSeconds", _INT),
        4: Field("selector", SELECTOR),
        5: Field("manualSelector", _BOOL),
        6: Field("template", _TEMPLATE),
        7: Field("backoffLimit", _INT),
        8: Field("ttlSecondsAfterFinished", _INT),
        9: Field("completionMode", S),
        10: Field("suspend", _BOOL),
        12: Field("backoffLimitPerIndex", _INT),
        13: Field("maxFailedIndexes", _INT),
        14: Field("podReplacementPolicy", S),
        15: Field("managedBy", S),
    }
)
_CRON_JOB_SPEC: Message = {
    1: Field("schedule", S),
    2: Field("startingDeadlineSeconds", _INT),
    3: Field("concurrencyPolicy", S),
    4: Field("suspend", _BOOL),
    5: Field("jobTemplate", {1: Field("metadata", META), 2: Field("spec", _JOB_SPEC)}),
    6: Field("successfulJobsHistoryLimit", _INT),
    7: Field("failedJobsHistoryLimit", _INT),
    8: Field("timeZone", S),
}
_SERVICE_PORT: Message = {
    1: Field("name", S),
    2: Field("protocol", S),
    3: Field("port", _INT),
    4: Field("targetPort", _EITHER, omit=True),
    5: Field("nodePort", _INT, omit=True),
    6: Field("appProtocol", S),
}
_SERVICE_SPEC: Message = Whole(
    {
        1: Field("ports", _SERVICE_PORT, repeated=True),
        2: Field("selector", S, map=True),
        3: Field("clusterIP", S),
        4: Field("type", S),
        5: Field("externalIPs", S, repeated=True),
        7: Field("sessionAffinity", S),
        8: Field("loadBalancerIP", S),
        9: Field("loadBalancerSourceRanges", S, repeated=True),
        10: Field("externalName", S),
        11: Field("externalTrafficPolicy", S),
        12: Field("healthCheckNodePort", _INT, omit=True),
        13: Field("publishNotReadyAddresses", _BOOL, omit=True),
        17: Field("ipFamilyPolicy", S),
        18: Field("clusterIPs", S, repeated=True),
        19: Field("ipFamilies", S, repeated=True),
        20: Field("allocateLoadBalancerNodePorts", _BOOL),
        21: Field("loadBalancerClass", S),
        22: Field("internalTrafficPolicy", S),
        23: Field("trafficDistribution", S),
    }
)
_BACKEND: Message = {
    3: Field("resource", {1: Field("apiGroup", S), 2: Field("kind", S), 3: Field("name", S)}),
    4: Field(
        "service", {1: Field("name", S), 2: Field("port", {1: Field("name", S), 2: Field("number", _INT, omit=True)})}
    ),
}
_INGRESS_PATH: Message = {1: Field("path", S), 2: Field("backend", _BACKEND), 3: Field("pathType", S)}
_INGRESS_SPEC: Message = {
    1: Field("defaultBackend", _BACKEND),
    2: Field("tls", {1: Field("hosts", S, repeated=True), 2: Field("secretName", S)}, repeated=True),
    3: Field(
        "rules",
        {
            1: Field("host", S),
            2: Field("", {1: Field("http", {1: Field("paths", _INGRESS_PATH, repeated=True)})}, inline=True),
        },
        repeated=True,
    ),
    4: Field("ingressClassName", S),
}
_QUOTA_SPEC: Message = Whole({1: Field("hard", _QUANTITY, map=True), 2: Field("scopes", S, repeated=True)})
_BUDGET_SPEC: Message = {
    1: Field("minAvailable", _EITHER),
    2: Field("selector", SELECTOR),
    3: Field("maxUnavailable", _EITHER),
    4: Field("unhealthyPodEvictionPolicy", S),
}
_RULE: Message = {
    1: Field("verbs", S, repeated=True),
    2: Field("apiGroups", S, repeated=True),
    3: Field("resources", S, repeated=True),
    4: Field("resourceNames", S, repeated=True),
    5: Field("nonResourceURLs", S, repeated=True),
}
_ROLE: Message = {1: Field("metadata", META), 2: Field("rules", _RULE, repeated=True)}
_CLUSTER_ROLE: Message = {
    **_ROLE,
    3: Field("aggregationRule", {1: Field("clusterRoleSelectors", SELECTOR, repeated=True)}),
}
_SUBJECT: Message = {
    1: Field("kind", S),
    2: Field("apiGroup", S),
    3: Field("name", S),
    4: Field("namespace", S),
}
_BINDING: Message = {
    1: Field("metadata", META),
    2: Field("subjects", _SUBJECT, repeated=True),
    3: Field("roleRef", {1: Field("apiGroup", S), 2: Field("kind", S), 3: Field("name", S)}),
}
_TOKEN_SPEC: Message = {
    1: Field("audiences", S, repeated=True),
    3: Field(
        "boundObjectRef", {1: Field("kind", S), 2: Field("apiVersion", S), 3: Field("name", S), 4: Field("uid", S)}
    ),
    4: Field("expirationSeconds", _INT),
}
_METRIC: Message = Whole(
    {
        1: Field("type", S),
        4: Field(
            "resource",
            {
                1: Field("name", S),
                2: Field(
                    "target",
                    {
                        1: Field("type", S),
                        2: Field("value", _QUANTITY),
                        3: Field("averageValue", _QUANTITY),
                        4: Field("averageUtilization", _INT),
                    },
                ),
            },
        ),
    }
)
_AUTOSCALER_SPEC: Message = Whole(
    {
        1: Field("scaleTargetRef", {1: Field("kind", S), 2: Field("name", S), 3: Field("apiVersion", S)}),
        2: Field("minReplicas", _INT),
        3: Field("maxReplicas", _INT),
        4: Field("metrics", _METRIC, repeated=True),
    }
)


def _with(spec: Message) -> Message:
    """A kind with a spec; its status is not read at creation."""
    return {1: Field("metadata", META), 2: Field("spec", spec)}


WORKLOADS: Mapping[tuple[str, str], Message] = {
    ("apps/v1", "Deployment"): _with(_DEPLOYMENT_SPEC),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _with(_AUTOSCALER_SPEC),
    ("batch/v1", "Job"): _with(_JOB_SPEC),
    ("batch/v1", "CronJob"): _with(_CRON_JOB_SPEC),
    ("v1", "Service"): _with(_SERVICE_SPEC),
    ("networking.k8s.io/v1", "Ingress"): _with(_INGRESS_SPEC),
    ("v1", "ResourceQuota"): _with(_QUOTA_SPEC),
    ("policy/v1", "PodDisruptionBudget"): _with(_BUDGET_SPEC),
    ("scheduling.k8s.io/v1", "PriorityClass"): {
        1: Field("metadata", META),
        2: Field("value", _INT),
        3: Field("globalDefault", _BOOL, omit=True),
        4: Field("description", S),
        5: Field("preemptionPolicy", S),
    },
    ("rbac.authorization.k8s.io/v1", "Role"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): _CLUSTER_ROLE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("authentication.k8s.io/v1", "TokenRequest"): _with(_TOKEN_SPEC),
}
