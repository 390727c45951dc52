"""How much may be kept: a number of slots, a number of bytes, or no limit.

Free of torch: the doors read budgets before anything is loaded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eec.errors import UserError

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Budget:
    """At most this many slots (an episode takes one), or this many bytes on disk."""

    slots: int | None = None
    bytes: int | None = None

    @property
    def unlimited(self) -> bool:
        return self.slots is None and self.bytes is None


def parse_budget(text: str) -> Budget:
    """`5000` is slots, `5MB` bytes, `unlimited` neither."""
    said = text.strip().lower()
    if said == "unlimited":
        return Budget()
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)", said)
    if match and not match[2] and match[1].isdigit() and int(match[1]):
        return Budget(slots=int(match[1]))
    if match and match[2] in UNITS and (amount := int(float(match[1]) * UNITS[match[2]])):
        return Budget(bytes=amount)
    raise UserError(
        f"memory is {text!r}: use a number of slots such as 5000, bytes such as 5MB or 500kB, "
        "or unlimited"
    )


def balanced_shares(wanted: Mapping[int, int], slots: int) -> dict[int, int]:
    """An equal share of the slots for each class; what a class does not need goes round.

    Slots that cannot be divided evenly go to the classes that come first.
    """
    shares: dict[int, int] = {}
    left = slots
    # The least demanding first: whatever they leave is there for those who come after.
    for place, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        fair = math.ceil(left / (len(wanted) - place))
        shares[name] = min(wanted[name], fair)
        left -= shares[name]
    return shares


def paper_shares(
    held: Mapping[int, int], new: Collection[int], slots: int, least: int
) -> dict[int, int] | None:
    """Eq. 4: the new classes keep all they have, the old ones give way in proportion.

    None where it cannot hold: the new classes leave less than every old one needs.
    """
    arrived = sum(held[name] for name in held if name in new)
    before = sum(held.values()) - arrived
    if before + arrived <= slots:
        return dict(held)
    if arrived > slots:
        return None
    shares = {
        name: count if name in new else count * (slots - arrived) // before
        for name, count in held.items()
    }
    # A class that has less than the least is kept in full anyway.
    enough = all(share >= min(least, held[name]) for name, share in shares.items())
    return shares if enough else None
