"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from kubeapi import cel, labelselector, names
from kubeapi.admissionregistration import (
    ALL,
    FAIL,
    GROUP,
    IGNORE,
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.fields import duplicate, in_range, invalid, not_supported, required
from kubeapi.kinds.common import ObjectStrategy, one_of
from kubeapi.labelselector import LabelSelector
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table

Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration

OPERATIONS = ("CONNECT", "CREATE", "DELETE", "UPDATE", ALL)
SCOPES = ("Cluster", "Namespaced", ALL)
CONDITION_VARIABLES = ("object", "oldObject", "request")
MAX_CONDITIONS = 64
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")


# Defaults


def default_rules(rules: Sequence[RuleWithOperations]) -> None:
    for rule in rules:
        rule.scope = rule.scope or ALL


def _default_webhook(hook: ValidatingWebhook) -> None:
    hook.failure_policy = hook.failure_policy or FAIL
    hook.match_policy = hook.match_policy or "Equivalent"
    hook.namespace_selector = hook.namespace_selector or LabelSelector()
    hook.object_selector = hook.object_selector or LabelSelector()
    hook.timeout_seconds = 10 if hook.timeout_seconds is None else hook.timeout_seconds
    if isinstance(hook, MutatingWebhook):
        hook.reinvocation_policy = hook.reinvocation_policy or "Never"
    service = hook.client_config.service
    if service and service.port is None:
        service.port = 443
    default_rules(hook.rules)


def _default(obj: Configuration) -> None:
    for hook in obj.webhooks:
        _default_webhook(hook)


# Validation


def _validate(obj: Configuration) -> Sequence[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, hook in enumerate(obj.webhooks):
        path = f"webhooks[{index}]"
        if hook.name in seen:
            causes.append(duplicate(f"{path}.name", hook.name))
        seen.add(hook.name)
        causes += _validate_webhook(hook, path)
    return causes


def _validate_webhook(hook: ValidatingWebhook, path: str) -> list[Cause]:
    causes = _qualified(hook.name, f"{path}.name")
    if "v1" not in hook.admission_review_versions:
        causes.append(_review_versions(hook.admission_review_versions, f"{path}.admissionReviewVersions"))
    causes += validate_rules(hook.rules, f"{path}.rules")
    causes += one_of(f"{path}.failurePolicy", hook.failure_policy, (FAIL, IGNORE))
    causes += one_of(f"{path}.matchPolicy", hook.match_policy, ("Equivalent", "Exact"))
    if hook.side_effects is None:
        causes.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}"))
    else:
        causes += one_of(f"{path}.sideEffects", hook.side_effects, _NO_SIDE_EFFECTS)
    seconds = hook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= 30:
        causes.append(invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    for name, selector in (("namespaceSelector", hook.namespace_selector), ("objectSelector", hook.object_selector)):
        causes += labelselector.validate(selector, f"{path}.{name}") if selector else []
    if isinstance(hook, MutatingWebhook):
        causes += one_of(f"{path}.reinvocationPolicy", hook.reinvocation_policy, ("Never", "IfNeeded"))
    causes += _validate_client(hook.client_config, f"{path}.clientConfig")
    return causes + validate_conditions(hook.match_conditions, f"{path}.matchConditions", CONDITION_VARIABLES)


def _review_versions(versions: Sequence[str], path: str) -> Cause:
    if not versions:
        return required(path, "must specify one of v1, v1beta1")
    return invalid(path, list(versions), "must include at least one of v1, v1beta1")


def _qualified(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [invalid(path, name, problem) for problem in names.dns_subdomain(name)]
    if not causes and len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(path, name, detail))
    return causes


def validate_rules(rules: Sequence[RuleWithOperations], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        for name, values in (
            ("apiGroups", rule.api_groups),
            ("apiVersions", rule.api_versions),
            ("resources", rule.resources),
            ("operations", rule.operations),
        ):
            if not values:
                causes.append(required(f"{where}.{name}"))
            elif ALL in values and len(values) > 1 and name != "resources":
                detail = "if '*' is present, must not specify other values"
                causes.append(invalid(f"{where}.{name}", values, detail))
        for number, operation in enumerate(rule.operations):
            causes += one_of(f"{where}.operations[{number}]", operation, OPERATIONS)
        if rule.scope not in SCOPES:
            causes.append(not_supported(f"{where}.scope", rule.scope, SCOPES))
    return causes


def validate_conditions(conditions: Sequence[MatchCondition], path: str, variables: Sequence[str]) -> list[Cause]:
    causes: list[Cause] = []
    if len(conditions) > MAX_CONDITIONS:
        causes.append(Cause("FieldValueTooMany", f"Too many: {len(conditions)}: must have at most 64 items", path))
    seen: set[str] = set()
    for index, item in enumerate(conditions[:MAX_CONDITIONS]):
        where = f"{path}[{index}]"
        if not item.name:
            causes.append(required(f"{where}.name"))
        if item.name in seen:
            causes.append(duplicate(f"{where}.name", item.name))
        seen.add(item.name)
        causes += compiled(item.expression, f"{where}.expression", variables, ("bool",))
    return causes


def compiled(expression: str, path: str, variables: Sequence[str], result: Sequence[str]) -> list[Cause]:
    """What is wrong with an expression."""
    if not expression.strip():
        return [required(path)]
    try:
        cel.compile(expression, variables, result)
    except cel.CompileError as error:
        return [invalid(path, expression, str(error))]
    return []


def _validate_client(config: WebhookClientConfig, path: str) -> list[Cause]:
    if (config.url is None) == (config.service is None):
        return [required(path, "exactly one of url or service is required")]
    causes = [] if config.url is None else _validate_url(config.url, f"{path}.url")
    if config.service is not None:
        causes += _validate_service(config.service, f"{path}.service")
    return causes + _validate_bundle(config.ca_bundle, f"{path}.caBundle")


def _validate_url(url: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    causes = []
    if parts.scheme != "https":
        causes.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        causes.append(invalid(path, parts.netloc, f"host must be specified{form}"))
    for name, value in (("user", parts.username), ("fragments", parts.fragment), ("query parameters", parts.query)):
        if value:
            causes.append(invalid(path, value, f"{name} not permitted in the URL{form}"))
    return causes


def _validate_service(service: ServiceReference, path: str) -> list[Cause]:
    causes = []
    if not service.name:
        causes.append(required(f"{path}.name", "service name is required"))
    if not service.namespace:
        causes.append(required(f"{path}.namespace", "service namespace is required"))
    if service.port is not None and not 1 <= service.port <= 65535:
        causes.append(invalid(f"{path}.port", service.port, f"port is not valid: {in_range(1, 65535)}"))
    if service.path and not service.path.startswith("/"):
        causes.append(invalid(f"{path}.path", service.path, "must start with a '/'"))
    return causes


def _validate_bundle(bundle: str | None, path: str) -> list[Cause]:
    if not bundle:
        return []
    try:
        ssl.create_default_context(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
    except (ValueError, binascii.Error, ssl.SSLError):
        return [invalid(path, bundle, "unable to load root certificates: unable to parse bytes as PEM block")]
    return []


# Declarations


def _cells(obj: Configuration, now: datetime) -> Sequence[Cell]:
    return (obj.metadata.name, len(obj.webhooks), age(obj.metadata.creation_timestamp, now))


_TABLE: Table[Any] = Table((NAME_COLUMN, Column("Webhooks", "integer"), AGE_COLUMN), _cells)
_STRATEGY: ObjectStrategy[Any] = ObjectStrategy(namespaced=False, validate=_validate, default=_default)

MUTATING_WEBHOOKS: ResourceType[MutatingWebhookConfiguration] = ResourceType(
    model=MutatingWebhookConfiguration,
    kind="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations",
    singular="mutatingwebhookconfiguration",
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    table=_TABLE,
    strategy=_STRATEGY,
)
VALIDATING_WEBHOOKS: ResourceType[ValidatingWebhookConfiguration] = ResourceType(
    model=ValidatingWebhookConfiguration,
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    singular="validatingwebhookconfiguration",
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    table=_TABLE,
    strategy=_STRATEGY,
)

KINDS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
