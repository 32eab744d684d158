"""Files that the lab writes or ships: TOML, the broker's configuration, the example manifests."""

from __future__ import annotations

import base64
import hashlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cloudhub.settings import load
from edgecore.settings import load as load_node
from edgelab import broker, settings, toml
from edgelab.broker import BrokerConfig
from edgelab.client import ApiUnavailable, read_kubeconfig
from edgelab.fleet import load_fleet
from edgelab.state import LabFacts
from kubeapi.config import SettingsError

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "configs" / "examples"
FACTS = LabFacts(fake_vms=False, nodes=2, api_port=6443, broker_port=1884)


def test_toml_comes_back_as_it_was_written() -> None:
    table: toml.Table = {
        "text": 'a "quoted"\\ päth\n\x7f🦐', "yes": True, "many": 3, "some": 1.5, "list": ["a", "b"],
        "section": {"key": "value", "inner": {"deep": 1}},
    }  # fmt: skip
    assert tomllib.loads(toml.dumps(table)) == table


def test_the_hub_accepts_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "cloudhub.toml"
    file.write_text(toml.dumps(settings.hub_settings(tmp_path, FACTS, tmp_path / "password", 1886, lease=1.0)))
    loaded = load(file)
    assert (loaded.api.port, loaded.broker.port, loaded.broker.username) == (6443, 1886, "hub")
    assert loaded.nodes.lease_timeout == 5.0


@pytest.mark.parametrize("fake", [True, False])
def test_a_node_accepts_its_settings(tmp_path: Path, fake: bool) -> None:
    plan = settings.NodePlan(
        "node-2",
        tmp_path,
        tmp_path / "password",
        broker_port=1885,
        lease=1.0,
        fake_vms=tmp_path / "vms",
        memory_mib=4096,
    )
    file = tmp_path / "edgecore.toml"
    file.write_text(toml.dumps(settings.node_settings(plan, replace(FACTS, fake_vms=fake))))
    loaded = load_node(file)
    assert (loaded.node.name, loaded.node.memory, loaded.node.cpu) == ("node-2", 4096 << 20, None)
    assert (loaded.broker.port, loaded.broker.bind_address) == (1885, "127.0.1.2")
    assert loaded.runtime.driver == ("fake" if fake else "libvirt")
    assert loaded.runtime.fake.file == (tmp_path / "vms" if fake else None)


def test_a_fleet_finds_its_nodes(tmp_path: Path) -> None:
    plan = settings.NodePlan(
        "node-1",
        tmp_path,
        tmp_path / "password",
        broker_port=1885,
        lease=1.0,
        fake_vms=tmp_path / "vms",
        memory_mib=None,
    )
    node_file, fleet_file = tmp_path / "edgecore.toml", tmp_path / "fleet.toml"
    node_file.write_text(toml.dumps(settings.node_settings(plan, FACTS)))
    fleet_file.write_text(toml.dumps(settings.fleet_settings(tmp_path, [node_file])))
    fleet = load_fleet(fleet_file)
    assert [node.node.name for node in fleet.nodes] == ["node-1"]
    node_file.unlink()
    with pytest.raises(SettingsError, match=r"edgecore\.toml"):
        load_fleet(fleet_file)


def test_memory_is_divided_among_real_nodes_and_one_has_it_all() -> None:
    assert settings.memory_share(8000, 1) is None
    assert settings.memory_share(8000, 3) == 2666


def test_a_password_is_stored_as_mosquitto_checks_it() -> None:
    user, _, rest = broker.password_line("node-1", "secret", b"salt").partition(":")
    _, version, rounds, salt, digest = rest.split("$")
    assert (user, version) == ("node-1", "7")
    expected = hashlib.pbkdf2_hmac("sha512", b"secret", base64.b64decode(salt), int(rounds))
    assert base64.b64decode(digest) == expected


def test_broker_files_are_private_and_nothing_is_open_to_others(tmp_path: Path) -> None:
    config = broker.prepare(BrokerConfig(tmp_path / "b", 1884, "lab", {"hub": "h", "node-1": "n"}))
    text = config.read_text()
    assert "listener 1884 127.0.0.1" in text
    assert "allow_anonymous false" in text
    assert "persistence false" in text
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "b").iterdir()} == {0o600}
    assert "secret" not in (tmp_path / "b" / "passwords").read_text()


def test_the_production_access_rules_are_the_labs() -> None:
    shipped = (REPOSITORY / "configs" / "mosquitto.acl").read_text()
    rules = "\n".join(line for line in shipped.splitlines() if not line.startswith("#")) + "\n"
    assert rules == broker.acl_text("copepod")


def test_s83_a_node_may_use_its_own_topics_only() -> None:
    """S-83: every rule that is not the hub's holds the user's own name."""
    hub, _, nodes = broker.acl_text("lab").partition("\n\n")
    assert hub.startswith("user hub\n")
    assert nodes.splitlines()
    assert all(line.startswith("pattern ") and "/%u/" in line for line in nodes.splitlines())


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_one_pod_named_like_its_file(file: Path) -> None:
    (document,) = yaml.safe_load_all(file.read_text())
    assert (document["kind"], document["metadata"]["name"]) == ("Pod", file.stem)
    spec = document["spec"]
    assert [container["name"] for container in spec.get("containers", [spec.get("virtualMachine")])] == ["vm"]


def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("contexts: []\ncurrent-context: lab\n")
    with pytest.raises(ApiUnavailable, match="not a kubeconfig"):
        read_kubeconfig(file)
