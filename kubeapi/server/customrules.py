"""The rules of custom resources' schemas (CEL), as a plug-in of admission: they are evaluated outside this process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kubeapi import errors, schemarules
from kubeapi.celjobs import Job, Outcome
from kubeapi.custom import CustomObject
from kubeapi.errors import Cause
from kubeapi.schemarules import Check
from kubeapi.schemavalues import MISSING
from kubeapi.server.chain import Request
from kubeapi.server.evaluator import Evaluator

_ERROR = " resulted in error: "
"""What the evaluator puts before the error itself."""


class CustomRules:
    """Implements chain.Validating."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    async def validate(self, request: Request) -> None:
        """Raises ApiError 422."""
        new, old, resource = request.new, request.old, request.resource
        if not isinstance(new, CustomObject) or not new.has_rules:
            return
        before = MISSING if old is None else old.to_dict()
        found = schemarules.checks(new.to_dict(), new.schema_of, "", before)
        causes: list[Cause] = []
        for _, group in groupby(found, key=lambda check: check.path):
            causes += await self._about_one_value(list(group))
        if causes:
            raise errors.invalid(resource.kind, new.metadata.name, causes, resource.group)

    async def _about_one_value(self, checks: Sequence[Check]) -> list[Cause]:
        """In one go: the rules, then what those that fail have to say."""
        values = {name: value for check in checks for name, value in check.values.items()}
        verdicts = await self._evaluator.run(Job(values, [check.rule for check in checks]))
        failed = [
            (check, verdict) for check, verdict in zip(checks, verdicts, strict=True) if verdict.value is not True
        ]
        spoken = [check for check, verdict in failed if check.message_expression and not verdict.error]
        said = await self._evaluator.run(Job(values, [check.message_expression for check in spoken])) if spoken else []
        messages = {id(check): _text(outcome) for check, outcome in zip(spoken, said, strict=True)}
        return [
            check.failure(verdict.error.rpartition(_ERROR)[2])
            if verdict.error
            else check.refusal(messages.get(id(check), ""))
            for check, verdict in failed
        ]


def _text(outcome: Outcome) -> str:
    """Empty where the message cannot be made: the plain one is told then."""
    text = outcome.value if isinstance(outcome.value, str) else ""
    return "" if "\n" in text else text.strip()
