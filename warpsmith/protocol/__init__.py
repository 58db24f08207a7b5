"""Synchronization as objects: what roles and rings promise each other, and whether they keep it."""

from warpsmith.protocol.check import RingFacts, Verdict, check, check_any_sizes, check_blocks

__all__ = ["RingFacts", "Verdict", "check", "check_any_sizes", "check_blocks"]
