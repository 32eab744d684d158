"""The real parts of a node: hypervisor, broker connection, clock and chance, from its settings."""

from __future__ import annotations

import logging
from pathlib import Path

from edgecore.agent import Parts
from edgecore.settings import Settings
from edgecore.usage import HostUse
from edgelink.mqtt import MqttOptions, MqttTransport, TlsOptions
from edgelink.pacing import Chance
from kubeapi.clock import SystemClock, new_uid
from vmruntime.api import Runtime
from vmruntime.connect import open_runtime
from vmruntime.fake import FakeHost

log = logging.getLogger(__name__)
_MIB = 1 << 20


def real_parts(settings: Settings, chance: Chance) -> Parts:
    """Raises SettingsError when the broker's password or TLS files cannot be used."""
    settings.broker.check_tls()
    return Parts(
        open_runtime=lambda installation: _runtime(settings, installation),
        transport=MqttTransport(_mqtt(settings), chance),
        clock=SystemClock(),
        new_id=new_uid,
        chance=chance,
        host_use=_host_use,
    )


def _host_use() -> HostUse:
    import psutil  # only whoever is asked for it pays for it

    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    busy = times.user + times.nice + times.system + times.irq + times.softirq
    return HostUse(busy, memory.total - memory.available)


def _runtime(settings: Settings, installation: str) -> Runtime:
    wanted = settings.runtime
    if wanted.driver == "fake":
        host = FakeHost(
            cpus=wanted.fake.cpus,
            memory_mib=wanted.fake.memory // _MIB,
            boot_delay=wanted.fake.boot_seconds,
            path=wanted.fake.file or settings.state_dir / "fake-vms.json",
        )
        return open_runtime("fake", installation=installation, fake_host=host)
    if wanted.prepare_host:
        from vmruntime.hostprep import prepare_host

        prepare_host(lambda line: log.info("host: %s", line))
    return open_runtime(
        "libvirt",
        installation=installation,
        image_root=wanted.images,
        uri=wanted.uri,
        allow_tcg=wanted.allow_emulation,
    )


def _mqtt(settings: Settings) -> MqttOptions:
    wanted = settings.broker
    tls = TlsOptions(_text(wanted.ca_file), _text(wanted.cert_file), _text(wanted.key_file)) if wanted.ca_file else None
    return MqttOptions(
        host=wanted.host,
        port=wanted.port,
        client_id=settings.node.name,
        username=wanted.username or (settings.node.name if wanted.password_file else None),
        password=wanted.password(),
        bind_address=wanted.bind_address,
        keepalive=wanted.keepalive,
        tls=tls,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
