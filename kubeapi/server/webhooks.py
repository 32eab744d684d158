"""The plug-ins that ask webhooks: MutatingAdmissionWebhook, one after the other; ValidatingAdmissionWebhook, all at
once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubeapi import errors, jsonpatch
from kubeapi.admissionregistration import (
    IGNORE,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from kubeapi.celjobs import Job
from kubeapi.clock import new_uid
from kubeapi.decode import DecodeError, build
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.requestmatching import of_webhook
from kubeapi.server import asking, reviews
from kubeapi.server.chain import Mutating, Request
from kubeapi.server.evaluator import Evaluator
from kubeapi.server.plugins import known
from kubeapi.server.reviews import Answer, BadAnswer
from kubeapi.server.webhookcalls import CallError, WebhookCaller

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    hook: ValidatingWebhook
    version: str
    """In which it wants the object."""


class _Webhooks:
    def __init__(self, objects: StoreObjects, calls: WebhookCaller, evaluator: Evaluator) -> None:
        self._objects, self._calls, self._evaluator = objects, calls, evaluator

    async def _chosen(self, request: Request, hooks: Sequence[ValidatingWebhook]) -> list[Chosen]:
        """Those that match, by their rules and selectors; their conditions are not looked at yet."""
        if not hooks or asking.is_fact(request):
            return []
        namespace = await asking.namespace_of(self._objects, request)
        asked = asking.asked(self._objects, request, namespace)
        found = ((hook, of_webhook(hook, asked)) for hook in hooks)
        return [Chosen(hook, version) for hook, version in found if version is not None]

    async def _ask(self, chosen: Chosen, request: Request, *, mutating: bool) -> Answer | None:
        """None: it was not asked (a condition is false), or could not be and may be ignored. Raises ApiError."""
        hook = chosen.hook
        try:
            shown = self._shown(chosen, request)
            if not await self._meets(hook, shown):
                return None
            if request.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
                raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
            try:
                data = await self._calls.call(hook, reviews.review(shown))
                answer = reviews.parse(data, shown["uid"], mutating=mutating)
            except (CallError, BadAnswer) as error:
                prefix = "failed to call webhook: " if isinstance(error, CallError) else ""
                raise reviews.failed(hook.name, f"{prefix}{error}") from error
        except ApiError as error:
            if hook.failure_policy != IGNORE or error.code == 400:
                raise
            _log.warning("webhook %s is passed over, as its failurePolicy says: %s", hook.name, error.message)
            return None
        request.caller.warnings.extend(answer.warnings)
        if not answer.allowed:
            named = {"group": request.resource.group, "kind": request.resource.plural}
            raise reviews.refusal(hook.name, answer, named | {"name": request.obj.metadata.name})
        return answer

    def _shown(self, chosen: Chosen, request: Request) -> dict[str, Any]:
        shown = asking.admission_request(request, chosen.version, new_uid())
        shown["object"] = asking.shown(request, request.new, chosen.version)
        shown["oldObject"] = asking.shown(request, request.old, chosen.version)
        return shown

    async def _meets(self, hook: ValidatingWebhook, shown: dict[str, Any]) -> bool:
        """Its match conditions. A false one counts before one that fails. Raises ApiError 500."""
        if not hook.match_conditions:
            return True
        values = {"object": shown["object"], "oldObject": shown["oldObject"]}
        values["request"] = {key: value for key, value in shown.items() if key not in values}
        outcomes = await self._evaluator.run(Job(values, [item.expression for item in hook.match_conditions]))
        if any(outcome.value is False for outcome in outcomes):
            return False
        problems = [outcome.error or "must evaluate to bool" for outcome in outcomes if outcome.value is not True]
        if problems:
            raise reviews.failed(hook.name, f"match conditions: {', '.join(problems)}")
        return True


class ValidatingWebhooks(_Webhooks):
    async def validate(self, request: Request) -> None:
        configurations = await known(self._objects, ValidatingWebhookConfiguration)
        hooks = [hook for item in configurations for hook in item.webhooks]
        chosen = await self._chosen(request, hooks)
        asking_all = (self._ask(item, request, mutating=False) for item in chosen)
        for answer in await asyncio.gather(*asking_all, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer  # the first, in the order of the configurations


class MutatingWebhooks(_Webhooks):
    """After a webhook has changed something, `before` (the plug-ins that come earlier) and those webhooks that want it
    are asked once more."""

    def __init__(self, objects: StoreObjects, calls: WebhookCaller, evaluator: Evaluator, before: Mutating) -> None:
        super().__init__(objects, calls, evaluator)
        self._before = before

    async def admit(self, request: Request) -> None:
        configurations = await known(self._objects, MutatingWebhookConfiguration)
        hooks = [hook for item in configurations for hook in item.webhooks]
        chosen = await self._chosen(request, hooks)
        if not chosen:
            return
        if request.new is not None:
            request.resource.strategy.default(request.new)
        changed = [await self._apply(item, request) for item in chosen]
        if not any(changed):
            return
        await self._before.admit(request)
        last = max(index for index, did in enumerate(changed) if did)
        for item in chosen[:last]:
            if isinstance(item.hook, MutatingWebhook) and item.hook.reinvocation_policy == "IfNeeded":
                await self._apply(item, request)

    async def _apply(self, chosen: Chosen, request: Request) -> bool:
        """Whether it changed something. Raises ApiError."""
        answer = await self._ask(chosen, request, mutating=True)
        if answer is None or not answer.patch or request.new is None:
            return False
        before = asking.shown(request, request.new, chosen.version)
        try:
            after = jsonpatch.json_patch(before, list(answer.patch))
            request.new = _rebuilt(request, request.new, after)
        except (jsonpatch.JsonPatchError, DecodeError) as error:
            if chosen.hook.failure_policy == IGNORE:
                _log.warning("webhook %s made a patch that does not fit: %s", chosen.hook.name, error)
                return False
            raise reviews.failed(chosen.hook.name, str(error)) from error
        return bool(after != before)


def _rebuilt(request: Request, new: KubeObject, data: Any) -> KubeObject:
    """With the identity that it had: a webhook changes objects, it does not put others in their place."""
    if not isinstance(data, dict):
        raise DecodeError("the patched object is no object")
    found: KubeObject = build(request.resource.model, data | {"apiVersion": request.resource.api_version})
    kept, given = new.metadata, found.metadata
    given.name, given.namespace, given.uid = kept.name, kept.namespace, kept.uid
    given.generate_name, given.resource_version = kept.generate_name, kept.resource_version
    given.creation_timestamp, given.managed_fields = kept.creation_timestamp, kept.managed_fields
    request.resource.strategy.default(found)
    return found
