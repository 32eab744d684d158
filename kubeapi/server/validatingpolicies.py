"""The plug-in ValidatingAdmissionPolicy: finds the policies, bindings and parameters of a request, has their
expressions evaluated, and refuses, warns or notes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubeapi import labelselector, policydecisions
from kubeapi.admissionregistration import (
    IGNORE,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubeapi.clock import new_uid
from kubeapi.core import Namespace
from kubeapi.meta import KubeObject
from kubeapi.policydecisions import Denial
from kubeapi.requestmatching import of_binding, of_resources
from kubeapi.resource import ResourceType
from kubeapi.server import asking
from kubeapi.server.chain import Request
from kubeapi.server.evaluator import Evaluator
from kubeapi.server.plugins import known

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

_log = logging.getLogger(__name__)


class _Misconfigured(Exception):
    """A policy or binding cannot be used as it is written."""


@dataclass(frozen=True, slots=True)
class _Matched:
    policy: ValidatingAdmissionPolicy
    binding: ValidatingAdmissionPolicyBinding
    version: str

    def denial(self, message: str, reason: str = "Invalid") -> Denial:
        return Denial(self.policy.metadata.name, self.binding.metadata.name, message, reason)


class ValidatingPolicies:
    def __init__(self, objects: StoreObjects, evaluator: Evaluator) -> None:
        self._objects, self._evaluator = objects, evaluator

    async def validate(self, request: Request) -> None:
        policies = await known(self._objects, ValidatingAdmissionPolicy)
        if not policies or asking.is_fact(request):
            return
        namespace = await asking.namespace_of(self._objects, request)
        denials: list[Denial] = []
        for matched in await self._matched(policies, request, namespace):
            denials += await self._denials(matched, request, namespace)
        if denials:
            resource = request.resource
            raise policydecisions.refusal(denials[0], resource.plural, request.obj.metadata.name, resource.group)

    async def _matched(
        self, policies: Sequence[ValidatingAdmissionPolicy], request: Request, namespace: Namespace | None
    ) -> list[_Matched]:
        asked = asking.asked(self._objects, request, namespace)
        bindings = await known(self._objects, ValidatingAdmissionPolicyBinding)
        found = []
        for policy in policies:
            version = of_resources(policy.spec.match_constraints, asked)
            if version is None:
                continue
            for binding in bindings:
                if binding.spec.policy_name == policy.metadata.name and of_binding(binding.spec.match_resources, asked):
                    found.append(_Matched(policy, binding, version))
        return found

    async def _denials(self, matched: _Matched, request: Request, namespace: Namespace | None) -> list[Denial]:
        """What the binding wants refused. Its warnings and notes are given on the way."""
        spec = matched.policy.spec
        try:
            params = await self._params(matched, request)
        except _Misconfigured as error:
            return [] if spec.failure_policy == IGNORE else [matched.denial(f"failed to configure binding: {error}")]
        denials: list[Denial] = []
        for param in params:
            values = self._values(matched, request, namespace, param)
            outcomes = await self._evaluator.run(policydecisions.job(spec, values))
            found, notes = policydecisions.findings(spec, outcomes)
            for item in found:
                denials += self._acted(matched.denial(item.message, item.reason), matched, request)
            if notes:
                _log.info("audit: policy %s notes of %s: %s", matched.policy.metadata.name, _what(request), notes)
        return denials

    def _acted(self, denial: Denial, matched: _Matched, request: Request) -> list[Denial]:
        actions = matched.binding.spec.validation_actions
        if "Warn" in actions:
            request.caller.warnings.append(denial.warning)
        if "Audit" in actions:
            _log.info("audit: %s: %s", _what(request), denial.warning)
        return [denial] if "Deny" in actions else []

    def _values(
        self, matched: _Matched, request: Request, namespace: Namespace | None, param: KubeObject | None
    ) -> dict[str, Any]:
        own = namespace if request.resource.namespaced else None
        values = {
            "object": asking.shown(request, request.new, matched.version),
            "oldObject": asking.shown(request, request.old, matched.version),
            "request": asking.admission_request(request, matched.version, new_uid()),
            "namespaceObject": own.to_dict() if own else None,
        }
        if matched.policy.spec.param_kind is not None:
            values["params"] = param.to_dict() if param else None
        return values

    # Parameters

    async def _params(self, matched: _Matched, request: Request) -> Sequence[KubeObject | None]:
        """One evaluation for each. Raises _Misconfigured."""
        kind, ref = matched.policy.spec.param_kind, matched.binding.spec.param_ref
        if kind is None:
            return [None]
        resource = self._param_type(kind)
        if ref is None:
            return [None]
        namespace = self._param_namespace(resource, ref, request)
        page = await self._objects.page(resource, namespace, known=True)
        found = [entity.obj for entity in page.entities if _is_param(entity.obj, ref)]
        if not found and ref.parameter_not_found_action == "Deny":
            raise _Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    def _param_type(self, kind: ParamKind) -> ResourceType[Any]:
        for item in self._objects.registry:
            if (item.api_version, item.kind) == (kind.api_version, kind.kind):
                return item
        group_version = kind.api_version
        raise _Misconfigured(f"failed to find resource referenced by paramKind: '{group_version}, Kind={kind.kind}'")

    def _param_namespace(self, resource: ResourceType[Any], ref: ParamRef, request: Request) -> str | None:
        if not resource.namespaced:
            if ref.namespace:
                raise _Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return None
        namespace = ref.namespace or (request.namespace if request.resource.namespaced else "")
        if not namespace:
            raise _Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        return namespace


def _is_param(obj: KubeObject, ref: ParamRef) -> bool:
    if ref.name:
        return obj.metadata.name == ref.name
    return labelselector.matches(ref.selector, obj.metadata.labels)


def _what(request: Request) -> str:
    meta = request.obj.metadata
    place = f"{meta.namespace}/" if meta.namespace else ""
    return f"{request.operation} {request.resource.key} {place}{meta.name} by {request.caller.user.name}"
