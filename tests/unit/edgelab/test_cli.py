"""The `copepod` command: help, versions, exit codes, and sentences instead of stack traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgelab.__main__ import main
from edgelab.hostservices import HostServiceFailed
from edgelab.state import LabFacts, Layout, load, save


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_it_says_its_version(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    assert result.output.startswith("copepod 0.")


@pytest.mark.parametrize(
    "command",
    [
        "",
        "up",
        "clean",
        "demo",
        "lab",
        "lab list",
        "lab run",
        "lab proxy",
        "image",
        "image build",
        "image list",
        "link",
        "link cut",
        "version",
    ],
)
def test_help_is_there_for_every_command(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_help_of_up_shows_examples() -> None:
    assert "copepod up --fake-vms --nodes 3" in run("up", "--help").output


@pytest.mark.parametrize(
    "arguments", [["up", "--api-port", "99999"], ["up", "--nodes", "0"], ["dance"], ["link", "cut"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("command", [["up"], ["demo"]])
def test_real_vms_without_root_are_refused_in_a_sentence(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = run(*command, "--state", str(tmp_path / "lab"))
    assert result.exit_code == 1
    assert "need root" in result.stderr
    assert "--fake-vms" in result.stderr
    assert not (tmp_path / "lab").exists()  # the advice can be followed: nothing there is real yet


def test_a_machine_without_libvirt_is_still_free_for_simulated_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)

    async def absent(_: object) -> None:
        raise HostServiceFailed("libvirtd is not installed")

    monkeypatch.setattr("edgelab.hostservices.ensure_libvirt", absent)
    result = run("up", "--state", str(tmp_path / "lab"))
    assert result.exit_code == 1
    assert "libvirtd is not installed" in result.stderr
    assert load(Layout(tmp_path / "lab")) is None


def test_cleaning_what_is_not_there_is_done_already(tmp_path: Path) -> None:
    result = run("clean", "--state", str(tmp_path / "none"))
    assert result.exit_code == 0
    assert "nothing to clean" in result.stderr


def test_a_directory_that_is_no_lab_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    result = run("clean", "--state", str(tmp_path))
    assert result.exit_code == 1
    assert (tmp_path / "thesis.tex").exists()


def test_clean_ends_what_the_lab_left_and_spares_reused_process_ids(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "lab")
    layout.root.mkdir()
    save(layout, LabFacts(fake_vms=True, nodes=1, api_port=1, broker_port=2))
    layout.pid_file("x").parent.mkdir()
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen([*argv, str(layout.root)], stdin=subprocess.PIPE) as ours,
        subprocess.Popen(argv, stdin=subprocess.PIPE) as stranger,
    ):
        layout.pid_file("ours").write_text(f"{ours.pid}\n")
        layout.pid_file("stranger").write_text(f"{stranger.pid}\n")
        result = run("clean", "--state", str(layout.root))
        assert result.exit_code == 0, result.stderr
        assert ours.wait(10) == -9
        assert stranger.poll() is None
        stranger.kill()
    assert not layout.root.exists()


def test_cutting_a_link_needs_a_lab(tmp_path: Path) -> None:
    result = run("link", "cut", "--state", str(tmp_path / "none"), "node-1")
    assert result.exit_code == 1
    assert "copepod up" in result.stderr
