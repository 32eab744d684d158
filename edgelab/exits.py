"""The errors that end a command with one sentence instead of a stack trace."""

from __future__ import annotations

from edgelab.client import ApiUnavailable
from edgelab.faults import FaultError
from edgelab.hostservices import HostServiceFailed
from edgelab.images import ImagesDenied
from edgelab.kubectl import KubectlFailed, KubectlMissing
from edgelab.nodestore import NoStore
from edgelab.ownvms import VmsLeft
from edgelab.player import Refused
from edgelab.process import ChildFailed
from edgelab.realhost import NotPrepared
from edgelab.state import StateError
from edgelab.waiting import NotReached
from edgelab.world import FalseClaim
from metastore.api import StoreError
from vmruntime.api import VmError

EXPECTED = (
    ApiUnavailable,
    ChildFailed,
    FalseClaim,
    FaultError,
    HostServiceFailed,
    ImagesDenied,
    KubectlFailed,
    KubectlMissing,
    NoStore,
    NotPrepared,
    NotReached,
    Refused,
    StateError,
    StoreError,
    VmError,
    VmsLeft,
)
