"""The targets that have names."""

from __future__ import annotations

from warpsmith.targets.blackwell import B200
from warpsmith.targets.hopper import H100, H200
from warpsmith.targets.target import Target

KNOWN = (H200, H100, B200)
"""The first is what is compiled for where there is no GPU; the first of a family stands for it
where machine code alone is known."""


def named(name: str) -> Target:
    """The target of a name that a user may give."""
    return next(target for target in KNOWN if target.name == name)
