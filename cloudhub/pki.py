"""The hub's own certificate authority, server certificate, admin token and admin kubeconfig, as files.

Each file is made once and then only read, key before certificate, so that a start that was cut short is finished by
the next one. Validity is fixed rather than counted from today: a hub without a battery-backed clock must neither make
certificates that begin in the future nor refuse its own after a jump (S-12); what ends trust here is replacing the CA.
"""

from __future__ import annotations

import base64
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from metastore.files import write_whole

_NOT_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(2124, 12, 31, tzinfo=UTC)


class PkiError(Exception):
    """A file of the state directory cannot be read, written or used; the message names it."""


@dataclass(frozen=True, slots=True)
class Pki:
    ca: Path
    certificate: Path
    key: Path
    token: str
    """The cluster administrator's bearer token."""
    account_key: bytes
    """Signs service accounts' tokens."""


def ensure(directory: Path, names: Iterable[str]) -> Pki:
    """Load what is in `directory`, making what is missing. The server certificate is made anew when the `names`
    (host names, IP addresses) it covers are not those wanted. Raises PkiError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ca_key = _key(directory / "ca.key")
        ca = _authority(directory / "ca.crt", ca_key)
        key = _key(directory / "server.key")
        _server(directory / "server.crt", key, ca, ca_key, sorted(set(names)))
        token = _token(directory / "admin.token")
        account_key = _token(directory / "accounts.key").encode()
    except OSError as error:
        raise PkiError(f"cannot use {error.filename or directory}: {error.strerror or error}") from error
    return Pki(directory / "ca.crt", directory / "server.crt", directory / "server.key", token, account_key)


def write_kubeconfig(path: Path, pki: Pki, server: str, cluster: str) -> None:
    """An administrator's kubeconfig for `server` (an https URL), readable by its owner only. Raises PkiError."""
    authority = base64.b64encode(pki.ca.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": pki.token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "admin"}}],
        "current-context": cluster,
    }
    try:
        write_whole(path, yaml.safe_dump(document, sort_keys=False).encode(), mode=0o600)
    except OSError as error:
        raise PkiError(f"cannot write {path}: {error.strerror or error}") from error


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    if not path.exists():
        fresh = ec.generate_private_key(ec.SECP256R1())
        pem = fresh.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_whole(path, pem, mode=0o600)
        return fresh
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise PkiError(f"{path} is not a private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PkiError(f"{path} is not an elliptic-curve key")
    return key


def _load(path: Path, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise PkiError(f"{path} is not a certificate: {error}") from error
    if certificate.public_key() != key.public_key():
        raise PkiError(f"{path} does not belong to its key {path.with_suffix('.key')}")
    return certificate


def _authority(path: Path, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    if path.exists():
        return _load(path, key)
    name = _name("copepod-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    write_whole(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o600)
    return certificate


def _server(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    names: list[str],
) -> None:
    wanted = x509.SubjectAlternativeName([_alternative(name) for name in names])
    if path.exists():
        present = _load(path, key)
        found = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if found == wanted and present.issuer == ca.subject:
            return
    builder = (
        _builder(_name("cloudhub"), ca.subject, key)
        .add_extension(wanted, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    write_whole(path, builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), mode=0o600)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise PkiError(f"api.names: {name!r} is neither a host name nor an address") from error


def _token(path: Path) -> str:
    if not path.exists():
        write_whole(path, (secrets.token_urlsafe(32) + "\n").encode(), mode=0o600)
    token = path.read_text().strip()
    if not token:
        raise PkiError(f"{path} is empty: put a token into it, or remove it and a new one is made")
    return token
