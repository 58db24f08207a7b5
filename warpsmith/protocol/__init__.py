"""Synchronization as objects: what roles and rings promise each other, and whether they keep it."""

from warpsmith.protocol.block_numbers import check_numbers
from warpsmith.protocol.check import RingFacts, Verdict, check, check_any_sizes, check_blocks
from warpsmith.protocol.succession import check_start

__all__ = [
    "RingFacts",
    "Verdict",
    "check",
    "check_any_sizes",
    "check_blocks",
    "check_numbers",
    "check_start",
]
