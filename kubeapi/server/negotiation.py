"""What form an answer takes: plain JSON, a Table, or metadata only, from the Accept header (pure).

We answer in JSON and YAML. A client that lists protobuf first always lists JSON as well, and gets that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Form(Enum):
    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class Representation:
    form: Form = Form.OBJECT
    version: str = "v1"
    """Of meta.k8s.io, for the forms that belong to it."""
    yaml: bool = False

    @property
    def meta_only(self) -> bool:
        return self.form in (Form.METADATA, Form.METADATA_LIST)


@dataclass(frozen=True, slots=True)
class _MediaRange:
    type: str
    parameters: tuple[tuple[str, str], ...]

    def parameter(self, name: str) -> str:
        return dict(self.parameters).get(name, "")


def ranges(accept: str) -> list[_MediaRange]:
    """The media ranges by falling quality; equal ones stay in the client's order (RFC 9110, 12.5.1)."""
    weighted: list[tuple[float, _MediaRange]] = []
    for part in accept.split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        pairs = tuple((k.strip(), v.strip()) for k, _, v in (piece.partition("=") for piece in rest) if k)
        quality = _quality(dict(pairs).get("q", "1"))
        if kind and quality > 0:
            weighted.append((quality, _MediaRange(kind.lower(), tuple(p for p in pairs if p[0] != "q"))))
    return [media for _, media in sorted(weighted, key=lambda pair: -pair[0])]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(256)
def choose(accept: str | None) -> Representation | None:
    """The first form asked for that we can give; None where there is none (406). Clients send few different ones."""
    if not accept or not accept.strip():
        return Representation()
    for media in ranges(accept):
        yaml = media.type == "application/yaml"
        if not yaml and media.type not in ("application/json", "application/*", "*/*"):
            continue
        wanted = media.parameter("as")
        if not wanted:
            return Representation(yaml=yaml)
        known = {form.value for form in Form if form is not Form.OBJECT}
        if media.parameter("g") == "meta.k8s.io" and wanted in known and media.parameter("v") in ("v1", "v1beta1"):
            return Representation(Form(wanted), media.parameter("v"), yaml)
    return None


def discovery_version(accept: str | None) -> str | None:
    """The version of apidiscovery.k8s.io asked for, None for the legacy form."""
    for media in ranges(accept or ""):
        if media.parameter("as") == "APIGroupDiscoveryList" and media.parameter("g") == "apidiscovery.k8s.io":
            version = media.parameter("v")
            if version in ("v2", "v2beta1"):
                return version
        elif media.type in ("application/json", "application/*", "*/*") and not media.parameters:
            return None
    return None
