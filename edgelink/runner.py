"""The two shells around the state machines, for the daemons to run."""

from edgelink.hublink import HubLink
from edgelink.nodelink import NodeLink

__all__ = ["HubLink", "NodeLink"]
