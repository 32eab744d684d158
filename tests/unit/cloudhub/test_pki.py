"""Certificates, token and kubeconfig: made once, private, finished after a start that was cut short."""

from __future__ import annotations

import base64
import ssl
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from cloudhub.pki import PkiError, ensure, write_kubeconfig

NAMES = ["localhost", "127.0.0.1", "hub.example"]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_made_once_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "pki"
    first = ensure(directory, NAMES)
    before = contents(directory)
    assert ensure(directory, reversed(NAMES)) == first
    assert contents(directory) == before
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_the_certificate_covers_the_names_and_is_trusted_by_the_ca(tmp_path: Path) -> None:
    pki = ensure(tmp_path, NAMES)
    certificate = x509.load_pem_x509_certificate(pki.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example", "localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.ca.read_bytes()))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pki.certificate, pki.key)


def test_s12_validity_does_not_depend_on_the_clock_at_first_start(tmp_path: Path) -> None:
    """S-12: made with a dead clock, still valid when the clock is right (and the reverse)."""
    certificate = x509.load_pem_x509_certificate(ensure(tmp_path, NAMES).certificate.read_bytes())
    assert certificate.not_valid_before_utc.year == 2000
    assert certificate.not_valid_after_utc.year == 2124


def test_other_names_make_another_certificate_from_the_same_ca(tmp_path: Path) -> None:
    pki = ensure(tmp_path, NAMES)
    ca, certificate = pki.ca.read_bytes(), pki.certificate.read_bytes()
    again = ensure(tmp_path, [*NAMES, "10.0.0.7"])
    assert again.ca.read_bytes() == ca
    assert again.certificate.read_bytes() != certificate
    assert again.token == pki.token


@pytest.mark.parametrize("lost", ["ca.crt", "server.crt", "server.key", "admin.token"])
def test_a_start_cut_short_is_finished_by_the_next(tmp_path: Path, lost: str) -> None:
    ensure(tmp_path, NAMES)
    if lost == "server.key":
        (tmp_path / "server.crt").unlink()
    (tmp_path / lost).unlink()
    pki = ensure(tmp_path, NAMES)
    certificate = x509.load_pem_x509_certificate(pki.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.ca.read_bytes()))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("ca.key", "rubbish", "is not a private key"),
        ("ca.crt", "rubbish", "is not a certificate"),
        ("admin.token", "\n", "is empty"),
    ],
)
def test_damaged_files_are_named_not_replaced(tmp_path: Path, name: str, content: str, complaint: str) -> None:
    ensure(tmp_path, NAMES)
    (tmp_path / name).write_text(content)
    with pytest.raises(PkiError, match=f"{name}.* {complaint}"):
        ensure(tmp_path, NAMES)
    assert (tmp_path / name).read_text() == content


def test_a_certificate_of_another_key_is_refused(tmp_path: Path) -> None:
    ensure(tmp_path / "a", NAMES)
    ensure(tmp_path / "b", NAMES)
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(PkiError, match=r"ca\.crt does not belong to its key"):
        ensure(tmp_path / "a", NAMES)


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PkiError, match=f"cannot use {tmp_path}/file"):
        ensure(tmp_path / "file", NAMES)


def test_the_kubeconfig_has_all_that_a_client_needs(tmp_path: Path) -> None:
    pki = ensure(tmp_path, NAMES)
    path = tmp_path / "admin.kubeconfig"
    write_kubeconfig(path, pki, "https://127.0.0.1:6443", "lab")
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == pki.ca.read_bytes()
    assert document["users"][0]["user"]["token"] == pki.token
    assert document["current-context"] == "lab"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
