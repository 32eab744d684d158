"""In which order clients prefer the versions of a group (apimachinery's CompareKubeAwareVersionStrings). Pure."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def priority(name: str) -> tuple[int, int, int, str]:
    """A sort key: v2, v1, v1beta2, v1beta1, v1alpha1, then other names by the alphabet."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return (len(_STAGES), 0, 0, name)
    major, stage, minor = match.groups()
    return (_STAGES[stage], -int(major), -int(minor or 0), name)
