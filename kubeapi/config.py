"""The daemons' settings files: TOML into a frozen pydantic model; every mistake is named with file, key and reason."""

from __future__ import annotations

import os
import ssl
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class SettingsError(Exception):
    """The configuration cannot be used; the message names file, key and reason."""


class Section(BaseModel):
    """A table of a settings file. Keys it does not declare are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=Section)


def load_settings(model: type[S], path: str | os.PathLike[str]) -> S:
    """Read and check a settings file. Raises SettingsError."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from error
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {line}" for line in _problems(error))) from error


def read_secret(key: str, file: Path | None) -> str | None:
    """The text of a secret's file, named in the settings as `key`. Raises SettingsError when it cannot be read."""
    if file is None:
        return None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{key}: cannot read {file}: {error}") from error


def check_tls_files(
    key: str, ca_file: Path | None, cert_file: Path | None = None, key_file: Path | None = None
) -> None:
    """Whether these PEM files, settings of table `key`, make a TLS client. Raises SettingsError naming them."""
    for name, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        read_secret(f"{key}.{name}", file)
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
    except (OSError, ValueError) as error:
        which = ", ".join(str(file) for file in (ca_file, cert_file, key_file) if file is not None)
        raise SettingsError(f"{key}: cannot use TLS with {which}: {error}") from error


def _problems(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{key}: is required")
        else:
            lines.append(f"{key}: {problem['msg']} (got {problem['input']!r})")
    return lines
