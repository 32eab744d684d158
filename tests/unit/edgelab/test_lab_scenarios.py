"""Scenario files: the ready ones are whole, and what is wrong with another is said by step and name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from edgelab import scenario
from edgelab.__main__ import main
from edgelab.scenario import ScenarioError

HEAD = "name: mine\ntitle: mine\nnodes: 2\nsteps:\n"


def test_every_ready_scenario_reads_and_is_called_as_its_file() -> None:
    ready = scenario.ready()
    assert len(ready) >= 9
    assert all(name == found.name for name, found in ready.items())
    known = {line.split("|")[1].strip() for line in _catalogue() if line.startswith("| S-")}
    assert all(found.proves and set(found.proves) <= known for found in ready.values())


def _catalogue() -> list[str]:
    return (Path(__file__).parents[3] / "docs" / "scenarios.md").read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "is not YAML"),
        ("- a\n", "the document: Input should be a valid dictionary"),
        ("name: mine\ntitle: mine\nsteps: []\n", "steps: List should have at least 1 item"),
        (HEAD + "  - dance: 3\n", "step 1 dance: Extra inputs are not permitted"),
        (HEAD + "  - {}\n", "step 1: exactly one verb is wanted, not none"),
        (HEAD + "  - {rest: 1, cut: node-1}\n", "step 1: exactly one verb is wanted, not ['cut', 'rest']"),
        (HEAD + "  - rest: 1\n  - cut: node-3\n", "step 2: there is no node-3"),
        (HEAD + "  - delete: {pods: web-1}\n", "step 1: there is no web-1"),
        (HEAD + "  - create: {cpu: lots}\n", "step 1 create cpu"),
        (HEAD + "  - create: {count: 0}\n", "step 1 create count: Input should be greater than or equal to 1"),
        (HEAD + "  - kill: everything\n", "step 1 kill 0: Input should be 'broker', 'hub' or 'agents'"),
        (HEAD + "  - rest: -1\n", "step 1 rest: Input should be greater than or equal to 0"),
    ],
)
def test_a_file_that_is_no_scenario_is_wrong_usage_and_says_where(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        scenario.load(file)
    assert complaint in str(caught.value)
    result = CliRunner().invoke(main, ["lab", "run", str(file), "--fake-vms", "--state", str(tmp_path / "lab")])
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert not (tmp_path / "lab").exists()


def test_an_unknown_name_says_which_there_are() -> None:
    result = CliRunner().invoke(main, ["lab", "run", "nosuch", "--fake-vms"])
    assert result.exit_code == 2
    assert "there is no scenario nosuch; there are agents-die-offline, broker-forgets" in result.stderr


def test_fewer_nodes_than_a_scenario_speaks_of_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["lab", "run", "cut-and-heal", "--fake-vms", "--nodes", "1"])
    assert result.exit_code == 2
    assert "there is no node-2" in result.stderr


def test_the_list_is_one_line_a_scenario_on_stdout() -> None:
    result = CliRunner().invoke(main, ["lab", "list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == sorted(scenario.ready())


@pytest.mark.parametrize("listen", ["1884", "here:port", ":99999"])
def test_a_proxy_wants_an_address(listen: str) -> None:
    result = CliRunner().invoke(main, ["lab", "proxy", "--listen", listen, "--target", "127.0.0.1:1883"])
    assert result.exit_code == 2
    assert "--listen must be HOST:PORT" in result.stderr
