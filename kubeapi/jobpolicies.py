"""When a Job's failed pods count, and when enough has succeeded (batch/v1: podFailurePolicy, successPolicy). Types."""

from __future__ import annotations

from pydantic import Field

from kubeapi.meta import KubeModel

FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"
ACTIONS = (COUNT, FAIL_INDEX, FAIL_JOB, IGNORE)


class OnExitCodes(KubeModel):
    container_name: str | None = None
    operator: str = ""
    """`In` or `NotIn`."""
    values: list[int] = Field(default_factory=list)


class OnPodCondition(KubeModel):
    type: str = ""
    status: str = ""


class PodFailurePolicyRule(KubeModel):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] = Field(default_factory=list)


class PodFailurePolicy(KubeModel):
    """The first rule that matches decides."""

    rules: list[PodFailurePolicyRule] = Field(default_factory=list)


class SuccessPolicyRule(KubeModel):
    succeeded_indexes: str | None = None
    """As `0,2-4`."""
    succeeded_count: int | None = None


class SuccessPolicy(KubeModel):
    """Any rule is enough."""

    rules: list[SuccessPolicyRule] = Field(default_factory=list)
