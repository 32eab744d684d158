"""What is ours in a domain: its ownership record, kept as one element in Copepod's own XML namespace.

It is the only thing that makes a domain ours, and it is enough to adopt a VM, or to rebuild a lost metastore, offline.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from xml.etree import ElementTree as ET

from vmruntime.api import Owner, VmSpec
from vmruntime.checks import fixed_parts

NAMESPACE = "urn:copepod:vm:1"
PREFIX = "copepod"
ET.register_namespace(PREFIX, NAMESPACE)


@dataclass(frozen=True, slots=True)
class Record:
    owner: Owner
    image: str
    attempt: int
    vcpus_max: int
    vcpus_online: int
    """As last asked for: the guest falls back to what it booted with when it reboots itself."""
    memory_base_mib: int
    memory_max_mib: int
    fingerprint: str
    """Of everything that cannot change while the VM runs."""
    document: bytes
    started: bool = False
    """Written before the VM is started: a VM that was never started has not exited either."""
    stopping: bool = False
    """Written before it is asked to stop, so that its end is known as ours even by the next agent."""

    def to_element(self) -> ET.Element:
        root = ET.Element(
            f"{{{NAMESPACE}}}vm",
            {
                "installation": self.owner.installation,
                "image": self.image,
                "attempt": str(self.attempt),
                "fingerprint": self.fingerprint,
                "started": _flag(self.started),
                "stopping": _flag(self.stopping),
            },
        )
        owner = {"uid": self.owner.pod_uid, "namespace": self.owner.namespace, "name": self.owner.pod}
        ET.SubElement(root, f"{{{NAMESPACE}}}pod", {**owner, "container": self.owner.container})
        size = {"base": self.memory_base_mib, "maximum": self.memory_max_mib}
        ET.SubElement(root, f"{{{NAMESPACE}}}memory", {name: str(mib) for name, mib in size.items()}, unit="MiB")
        cpus = {"present": str(self.vcpus_max), "online": str(self.vcpus_online)}
        ET.SubElement(root, f"{{{NAMESPACE}}}vcpus", cpus)
        ET.SubElement(root, f"{{{NAMESPACE}}}document").text = b64encode(self.document).decode()
        return root

    def to_plain_xml(self) -> str:
        """Without a namespace, which is how `virDomainSetMetadata` wants it: it puts its own on every element."""
        root = self.to_element()
        for element in root.iter():
            element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
        return ET.tostring(root, encoding="unicode")


def record_of(spec: VmSpec) -> Record:
    return Record(
        owner=spec.owner,
        image=spec.image,
        attempt=spec.attempt,
        vcpus_max=spec.vcpus_max,
        vcpus_online=spec.vcpus_online,
        memory_base_mib=spec.memory_base_mib,
        memory_max_mib=spec.memory_max_mib,
        fingerprint=fingerprint(spec),
        document=spec.document,
    )


def fingerprint(spec: VmSpec) -> str:
    """Short, and equal for specs that the same running VM satisfies."""
    return sha256(repr(fixed_parts(spec)).encode()).hexdigest()[:16]


def read_record(domain: ET.Element) -> Record | None:
    """The record in a domain's XML; None where there is none, or none that this version understands."""
    root = domain.find(f"metadata/{{{NAMESPACE}}}vm")
    if root is None:
        return None
    pod, memory, vcpus = (root.find(f"{{{NAMESPACE}}}{tag}") for tag in ("pod", "memory", "vcpus"))
    if pod is None or memory is None or vcpus is None:
        return None
    try:
        return Record(
            owner=Owner(
                root.attrib["installation"],
                pod.attrib["uid"],
                pod.attrib["namespace"],
                pod.attrib["name"],
                pod.attrib["container"],
            ),
            image=root.attrib["image"],
            attempt=int(root.attrib["attempt"]),
            vcpus_max=int(vcpus.attrib["present"]),
            vcpus_online=int(vcpus.attrib["online"]),
            memory_base_mib=int(memory.attrib["base"]),
            memory_max_mib=int(memory.attrib["maximum"]),
            fingerprint=root.attrib["fingerprint"],
            document=b64decode(root.findtext(f"{{{NAMESPACE}}}document") or ""),
            started=root.attrib["started"] == "yes",
            stopping=root.attrib["stopping"] == "yes",
        )
    except (KeyError, ValueError):
        return None


def _flag(value: bool) -> str:
    return "yes" if value else "no"
