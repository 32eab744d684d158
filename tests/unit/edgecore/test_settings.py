"""The node's configuration file: defaults documented, mistakes named."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecore.settings import NodeSettings, Settings, load
from kubeapi.config import SettingsError

EXAMPLE = Path(__file__).parents[3] / "configs" / "edgecore.toml"


def test_the_example_shows_the_defaults() -> None:
    assert load(EXAMPLE) == Settings(node=NodeSettings(name="edge-1"))


def test_the_example_names_every_key() -> None:
    text = EXAMPLE.read_text()
    for name, field in Settings.model_fields.items():
        for key in getattr(field.annotation, "model_fields", None) or [name]:
            assert f"\n{key} = " in text or f"\n# {key} = " in text or f".{key}]" in text, key


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "node: is required"),
        ('[node]\nname = "Edge 1"', "node.name: String should match pattern"),
        ('[node]\nname = "a"\nmemory = "lots"', "node.memory: Value error, quantities must match"),
        ('[node]\nname = "a"\n[broker]\nprot = 1', "broker.prot: unknown key"),
        ('[node]\nname = "a"\n[runtime]\ndriver = "xen"', "runtime.driver: Input should be 'libvirt' or 'fake'"),
        ("node =", "is not valid TOML"),
    ],
)
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=str(path)) as raised:
        load(path)
    assert complaint in str(raised.value)


def test_a_missing_password_file_is_named(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"node": {"name": "a"}, "broker": {"password_file": str(tmp_path / "none")}},
    )
    with pytest.raises(SettingsError, match=r"broker.password_file: cannot read .*none"):
        settings.broker.password()
