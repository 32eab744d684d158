"""A real mosquitto for tests: free port, no persistence, a password file, and each user confined to its own topics."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgelab.broker import free_port

BINARY = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")

_CONFIG = """
listener {port} 127.0.0.1
user {user}
set_tcp_nodelay true
persistence false
allow_anonymous false
password_file {directory}/passwords
acl_file {directory}/acl
log_dest file {directory}/log
"""

_ACL = """
user hub
topic readwrite copepod/#

pattern read copepod/+/%u/down
pattern read copepod/+/%u/stream/+/down
pattern write copepod/+/%u/up
pattern write copepod/+/%u/lease
pattern write copepod/+/%u/stream/+/up
"""


@dataclass
class Mosquitto:
    """Every user's password is `secret`."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert BINARY is not None
        self.process = subprocess.Popen([BINARY, "-c", str(self.directory / "mosquitto.conf")])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise TimeoutError(f"mosquitto did not come up; see {self.directory}/log")

    def kill(self) -> None:
        """As by kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def running_mosquitto(directory: Path, users: tuple[str, ...]) -> Iterator[Mosquitto]:
    port = free_port()
    (directory / "mosquitto.conf").write_text(_CONFIG.format(port=port, user=getpass.getuser(), directory=directory))
    (directory / "acl").write_text(_ACL)
    passwords = directory / "passwords"
    passwords.write_text("".join(f"{user}:secret\n" for user in users))
    subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True)
    broker = Mosquitto(directory, port)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
