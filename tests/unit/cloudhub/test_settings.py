"""The hub's configuration file: defaults documented, mistakes named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cloudhub.settings import BrokerSettings, Settings, load
from kubeapi.config import SettingsError

EXAMPLE = Path(__file__).parents[3] / "configs" / "cloudhub.toml"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hub.toml"
    path.write_text(text)
    return path


def test_the_example_shows_the_defaults() -> None:
    assert load(EXAMPLE) == Settings()


def test_the_example_names_every_key() -> None:
    text = EXAMPLE.read_text()
    for name, field in Settings.model_fields.items():
        nested = getattr(field.annotation, "model_fields", None)
        for key in nested or [name]:
            assert f"\n{key} = " in text or f"\n# {key} = " in text, key
    tomllib.loads(text)


def test_an_empty_file_is_enough(tmp_path: Path) -> None:
    assert load(write(tmp_path, "")) == Settings()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 1", "colour: unknown key"),
        ("[api]\nprot = 1", "api.prot: unknown key"),
        ("[api]\nport = 70000", "api.port: Input should be less than or equal to 65535 (got 70000)"),
        ("[nodes]\nlease_timeout = 0", "nodes.lease_timeout: Input should be greater than 0 (got 0)"),
        ('[store]\nurl = "mysql://db/hub"', "store.url: String should match pattern"),
        ('cluster = "no/slashes"', "cluster: String should match pattern"),
        ('log_level = "chatty"', "log_level: Input should be 'debug', 'info', 'warning' or 'error'"),
        ("port =", "is not valid TOML"),
    ],
)
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, "a = 1\nb = 2"))
    assert str(caught.value).count("unknown key") == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read: No such file"):
        load(tmp_path / "absent.toml")


def test_the_broker_password_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    assert BrokerSettings(password_file=tmp_path / "password").password() == "secret"
    assert BrokerSettings().password() is None
    with pytest.raises(SettingsError, match=r"broker\.password_file: cannot read"):
        BrokerSettings(password_file=tmp_path / "none").password()
