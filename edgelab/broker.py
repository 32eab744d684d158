"""A private mosquitto for one lab: loopback only, one user for the hub and one for each node, nothing persistent.

The access rules are those a production broker needs too (configs/mosquitto.conf): a node may use its own topics only,
by the pattern `%u`, and the hub those of all nodes. A node whose credential leaks can impersonate no other (S-83).
"""

from __future__ import annotations

import base64
import hashlib
import os
import pwd
import random
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgelab.process import ChildFailed, ChildSpec
from metastore.files import write_whole

HUB_USER = "hub"
PBKDF2_ROUNDS = 1000
PAYLOAD_LIMIT = 1024 * 1024
"""Bytes. Above edgelink's chunk size, and small enough to bound what one client may make the broker hold."""
_PORTS = range(20_000, 32_768)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    directory: Path
    port: int
    cluster: str
    passwords: Mapping[str, str]
    """User name → password; `hub`, and each node by its name."""


def password_line(user: str, password: str, salt: bytes) -> str:
    """One line of mosquitto's password file, in its PBKDF2-HMAC-SHA512 form (`$7$`, mosquitto 2.0)."""
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, PBKDF2_ROUNDS)
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${PBKDF2_ROUNDS}${'$'.join(encoded)}"


def acl_text(cluster: str) -> str:
    """Who may use which topic (docs/adr/0002): the hub's lines, then the pattern that holds for every node."""
    return "\n".join(
        [
            f"user {HUB_USER}",
            f"topic write copepod/{cluster}/+/down",
            f"topic read copepod/{cluster}/+/up",
            f"topic read copepod/{cluster}/+/lease",
            f"topic readwrite copepod/{cluster}/+/stream/#",
            "",
            f"pattern read copepod/{cluster}/%u/down",
            f"pattern write copepod/{cluster}/%u/up",
            f"pattern write copepod/{cluster}/%u/lease",
            f"pattern readwrite copepod/{cluster}/%u/stream/#",
            "",
        ]
    )


def config_text(config: BrokerConfig, user: str) -> str:
    lines = [
        f"listener {config.port} 127.0.0.1",
        "allow_anonymous false",
        f"password_file {config.directory / 'passwords'}",
        f"acl_file {config.directory / 'acl'}",
        # Without it small messages wait for the peer's delayed acknowledgement (22 instead of 376 connects a second).
        "set_tcp_nodelay true",
        # Correctness leans on the two stores only; a broker that forgets everything is the harder test.
        "persistence false",
        f"message_size_limit {PAYLOAD_LIMIT}",
        "max_queued_messages 1000",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        # It would otherwise change its user when started by root, and with it lose its tie to the lab's life.
        f"user {user}",
    ]
    return "\n".join(lines) + "\n"


def prepare(config: BrokerConfig) -> Path:
    """Write the broker's files and return its configuration's path."""
    directory = config.directory
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = [password_line(user, secret, os.urandom(12)) for user, secret in sorted(config.passwords.items())]
    write_whole(directory / "passwords", "\n".join(lines) + "\n", mode=0o600)
    write_whole(directory / "acl", acl_text(config.cluster), mode=0o600)
    path = directory / "mosquitto.conf"
    write_whole(path, config_text(config, pwd.getpwuid(os.geteuid()).pw_name), mode=0o600)
    return path


def broker_spec(config: BrokerConfig, log: Path, pid_file: Path) -> ChildSpec:
    """Raises ChildFailed when mosquitto is not installed."""
    return ChildSpec(
        name="broker",
        argv=(find_mosquitto(), "-c", str(prepare(config))),
        log=log,
        pid_file=pid_file,
        ready=lambda: listening(config.port),
        ready_timeout=20,
        grace=5,
    )


def find_mosquitto() -> str:
    # Debian keeps it in /usr/sbin, which is not in every user's PATH.
    found = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise ChildFailed("mosquitto is not installed: apt-get install mosquitto (or `make setup`)")
    return found


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port(*but: int) -> int:
    """A TCP port nobody listens on now, and none of those that are spoken for.

    Of a range that Linux does not give to outgoing connections by default: those would take it before its server
    starts, or while a lab is down. Raises ChildFailed when none is left.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in but and port_is_free(port):
            return port
    raise ChildFailed(f"no TCP port from {_PORTS[0]} to {_PORTS[-1]} is free")


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
