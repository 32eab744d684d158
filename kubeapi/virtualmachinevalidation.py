"""Validation of `spec.virtualMachine`. What it shares with its mirror is validated as the container's."""

from __future__ import annotations

import base64
import binascii

from kubeapi import names
from kubeapi.core import PodSpec
from kubeapi.errors import Cause
from kubeapi.fields import forbidden, invalid, not_supported, too_long
from kubeapi.meta import KubeModel
from kubeapi.virtualmachine import POWER_SPECS, SHUTDOWN_BEHAVIORS, VirtualMachine
from kubeapi.virtualmachineform import WIRE, differing, mirror_of

MAX_USER_DATA = 65535
"""Bytes, decoded: Arktos' bound."""
_PATH = "spec.virtualMachine"
UPDATABLE = (
    "`spec.virtualMachine.image`",
    "`spec.virtualMachine.powerSpec`",
    "`spec.virtualMachine.resources`",
    "`spec.virtualMachine.shutdownBehavior`",
)


def validate(spec: PodSpec) -> list[Cause]:
    """Of a pod or template that has been defaulted; none where it is not of this form."""
    vm = spec.virtual_machine
    if vm is None:
        return []
    return [*_mirror(spec), *_choices(vm), *_data(vm), *_names(vm, spec)]


def _mirror(spec: PodSpec) -> list[Cause]:
    vm, mirror = spec.virtual_machine, mirror_of(spec)
    if vm is None or mirror is None:
        detail = "with `virtualMachine`, there is one container of the same name, which mirrors it, or none"
        return [forbidden("spec.containers", detail)]
    return [
        invalid(
            f"spec.containers[0].{WIRE[name]}",
            _plain(getattr(mirror, name)),
            f"must be as spec.virtualMachine.{WIRE[name]}, which it mirrors",
        )
        for name in differing(spec)
    ]


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, KubeModel) else value


def _choices(vm: VirtualMachine) -> list[Cause]:
    causes = []
    if vm.power_spec not in (None, *POWER_SPECS):
        causes.append(not_supported(f"{_PATH}.powerSpec", vm.power_spec, POWER_SPECS))
    if vm.shutdown_behavior not in (None, *SHUTDOWN_BEHAVIORS):
        causes.append(not_supported(f"{_PATH}.shutdownBehavior", vm.shutdown_behavior, SHUTDOWN_BEHAVIORS))
    return causes


def _data(vm: VirtualMachine) -> list[Cause]:
    causes = []
    if vm.user_data:
        try:
            size = len(base64.b64decode(vm.user_data, validate=True))
        except (binascii.Error, ValueError):
            causes.append(invalid(f"{_PATH}.userData", "<omitted>", "must be base64"))
        else:
            causes += [too_long(f"{_PATH}.userData", MAX_USER_DATA)] if size > MAX_USER_DATA else []
    if len((vm.cloud_init_user_data_script or "").encode()) > MAX_USER_DATA:
        causes.append(too_long(f"{_PATH}.cloudInitUserDataScript", MAX_USER_DATA))
    return causes


def _names(vm: VirtualMachine, spec: PodSpec) -> list[Cause]:
    causes = []
    if vm.public_key and (len(vm.public_key.splitlines()) != 1 or len(vm.public_key.split()) < 2):
        detail = "must be one line: type and key, as in authorized_keys"
        causes.append(invalid(f"{_PATH}.publicKey", vm.public_key, detail))
    if vm.key_pair_name:
        causes += [invalid(f"{_PATH}.keyPairName", vm.key_pair_name, m) for m in names.dns_subdomain(vm.key_pair_name)]
    if vm.boot_volume and vm.boot_volume not in [volume.get("name") for volume in spec.volumes]:
        causes.append(Cause("FieldValueNotFound", f'Not found: "{vm.boot_volume}"', f"{_PATH}.bootVolume"))
    return causes
