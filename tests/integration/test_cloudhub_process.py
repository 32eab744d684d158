"""The daemon as it is started in production: its own process, its exit codes, its supervisor's socket, real kubectl."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KUBECTL = shutil.which("kubectl", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
PATIENCE = 60


def configure(tmp_path: Path, text: str = "", *, port: int = 0) -> Path:
    """A hub without a broker (nothing listens on port 1)."""
    path = tmp_path / "hub.toml"
    path.write_text(f'state_dir = "{tmp_path}/state"\n{text}\n[api]\nport = {port}\n[broker]\nport = 1\n')
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cloudhub", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@contextmanager
def serving(config: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Until READY=1 has come, as systemd would wait for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        address = str(tmp_path / "notify")
        Path(address).unlink(missing_ok=True)
        supervisor.bind(address)
        supervisor.settimeout(PATIENCE)
        command = [sys.executable, "-m", "cloudhub", "--config", str(config)]
        environment = os.environ | {"NOTIFY_SOCKET": address}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            try:
                assert supervisor.recv(1000).startswith(b"READY=1")
                yield process
            finally:
                process.kill()


def kubectl(state: Path, *arguments: str) -> str:
    assert KUBECTL
    command = [KUBECTL, "--kubeconfig", str(state / "admin.kubeconfig"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def test_help_and_version() -> None:
    assert "--config" in run("--help").stdout
    assert run("--version").stdout.startswith("cloudhub, version ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 1", "colour: unknown key"),
        ("cluster = 3", "cluster: Input should be a valid string (got 3)"),
        ("[", "is not valid TOML"),
    ],
)
def test_a_bad_configuration_exits_2_naming_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    config = configure(tmp_path, text)
    result = run("--config", str(config))
    assert result.returncode == 2
    assert result.stderr.startswith(f"cloudhub: {config}: ")
    assert complaint in result.stderr
    assert not (tmp_path / "state").exists()


def test_a_missing_configuration_exits_2(tmp_path: Path) -> None:
    result = run("--config", str(tmp_path / "none.toml"))
    assert result.returncode == 2
    assert "none.toml: cannot be read: No such file" in result.stderr


def test_a_ca_file_that_cannot_be_read_exits_2_naming_it(tmp_path: Path) -> None:
    config = configure(tmp_path)
    config.write_text(config.read_text() + f'ca_file = "{tmp_path}/none"\n')
    result = run("--config", str(config))
    assert result.returncode == 2
    assert result.stderr.startswith(f"cloudhub: broker.ca_file: cannot read {tmp_path}/none")


def test_a_port_in_use_is_said_plainly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--config", str(configure(tmp_path, port=port)))
    assert result.returncode == 1
    assert f"cloudhub: cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unusable_state_directory_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    result = run("--config", str(configure(tmp_path)))
    assert result.returncode == 1
    assert f"cloudhub: cannot use {tmp_path}/state" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_no_store_is_said_plainly_and_kept(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hub.db").write_bytes(b"rubbish" * 1000)
    result = run("--config", str(configure(tmp_path)))
    assert result.returncode == 1
    assert "hub.db: file is not a database; it is left as it is" in result.stderr
    assert (tmp_path / "state" / "hub.db").read_bytes() == b"rubbish" * 1000


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_s80_without_a_broker_it_serves_and_what_it_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """S-80 (one hub): served without a broker; killed; started again: everything is there; SIGTERM ends it with 0."""
    config, state = configure(tmp_path), tmp_path / "state"
    with serving(config, tmp_path) as process:
        assert "default" in kubectl(state, "get", "namespaces")
        kubectl(state, "create", "configmap", "kept", "--from-literal=a=1")
        kubectl(state, "run", "waits", "--image=copepod/micro:latest")
        token = (state / "admin.token").read_text()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    with serving(config, tmp_path) as process:
        ready = json.loads((state / "ready.json").read_text())
        assert ready["kubeconfig"] == str(state / "admin.kubeconfig")
        assert f":{ready['port']}" in (state / "admin.kubeconfig").read_text()
        assert (state / "admin.token").read_text() == token
        assert kubectl(state, "get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "1"
        kubectl(state, "wait", "--for=condition=PodScheduled=False", "pod/waits", "--timeout=60s")
        assert "no nodes available to schedule pods" in kubectl(state, "describe", "pod", "waits")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert "no broker: cannot connect to 127.0.0.1:1" in log
        assert "Traceback" not in log


def test_as_many_connections_as_the_system_lets_it_have(tmp_path: Path) -> None:
    with serving(configure(tmp_path), tmp_path) as process:
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("daemon", ["cloudhub", "edgecore"])
def test_a_stop_that_comes_while_it_still_starts_is_obeyed(tmp_path: Path, daemon: str, number: signal.Signals) -> None:
    """At any moment of its start, from when its own code runs."""
    config = configure(tmp_path) if daemon == "cloudhub" else tmp_path / "node.toml"
    if daemon == "edgecore":
        config.write_text(
            f'state_dir = "{tmp_path}/state"\n[node]\nname = "a"\n[broker]\nport = 1\n[runtime]\ndriver = "fake"\n'
        )
    imported = f"import sys, {daemon}.__main__ as it; sys.argv[1:] = ['--config', {str(config)!r}]; print(flush=True)"
    for delay in (0.0, 0.1, 0.3, 0.6):
        command = [sys.executable, "-c", f"{imported}; it.main()"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            time.sleep(0.02 + delay)
            process.send_signal(number)
            try:
                _, said = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert process.returncode == 0, said
        assert "Traceback" not in said


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_everything_in_the_state_directory_is_private(tmp_path: Path) -> None:
    """The store holds Secrets, in WAL and lock files as well."""
    (tmp_path / "state").mkdir(mode=0o755)
    with serving(configure(tmp_path), tmp_path):
        modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "state").iterdir()}
    assert "hub.db" in modes
    assert set(modes.values()) == {0}
