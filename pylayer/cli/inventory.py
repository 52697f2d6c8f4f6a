"""What the store holds, under the names that people know."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .names import Names
from .output import printable

if TYPE_CHECKING:
    from ..common.identity import Identity
    from ..store.store import Store
    from .selection import Selection


#: Makers of devices, by the number that their devices report.
VENDORS = {
    0x1002: "AMD",
    0x1010: "Imagination",
    0x106B: "Apple",
    0x10DE: "NVIDIA",
    0x13B5: "Arm",
    0x14E4: "Broadcom",
    0x5143: "Qualcomm",
    0x8086: "Intel",
}


class Inventory:
    """All identities that a selection takes, and the bytes of the store that belong to no identity."""

    def __init__(self, store: Store, selection: Selection, names: Names) -> None:
        self.root = store.root
        self.names = names
        self.shelves = store.shelves(selection.takes_identity, names.learn)
        self.store_bytes = store.tree_bytes("store")[0]
        #: Bytes in the store's folder that belong to no identity.
        self.stray_bytes = self.store_bytes - sum(store.tree_bytes("store", name)[0] for name in store.identities())


@cache
def _names_here() -> dict[tuple[int, int], str]:
    """Returns the names of this machine's devices by their makers and numbers."""
    from .devices import present_facts

    return {(facts.vendor_id, facts.device_id): printable(facts.device_name) for facts in present_facts()[0]}


def numbered(fields: dict[str, Any]) -> str:
    """Returns what an identity's numbers say of its device."""
    vendor, device = (int(fields.get(key, 0)) for key in ("vendor_id", "device_id"))
    return f"{VENDORS.get(vendor, f'vendor {vendor:#06x}')} device {device:#06x}"


def describe(identity: Identity | None, name: str, names: Names) -> tuple[str, str]:
    """Returns device and driver of an identity, in words."""
    fields: dict[str, Any] = identity.fields if identity is not None else {}
    device = names.device(name)
    if not device and fields:
        device = _names_here().get((fields.get("vendor_id", 0), fields.get("device_id", 0))) or numbered(fields)
    driver = ", ".join(printable(str(fields[key])) for key in ("driver_name", "driver_info") if fields.get(key))
    extra = []
    abi = str(fields.get("abi", ""))
    if abi.startswith("32"):
        extra.append("32-bit")
    if fields.get("global_key"):
        extra.append("pipeline binaries")
    if extra:
        driver = f"{driver} ({', '.join(extra)})"
    return device or "unknown device", driver or names.driver(name) or "unknown driver"
