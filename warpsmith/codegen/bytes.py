"""Integers of a byte that registers hold: as they were loaded, or as they were computed."""

from __future__ import annotations

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.nodes import Element, Statement, Store
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.traversal import walk


def computed_bytes(body: tuple[Statement, ...]) -> frozenset[str] | None:
    """Names of the registers whose integers of a byte are results of operations, which have the
    sign in all of their bits; what is loaded is a part of a register, with other bytes beside it.
    None where a kernel does not multiply on tensor cores: there the instruction that converts works
    beside the others, and without it products of one row took up to 1.09 times (an H200).
    """
    if not any(isinstance(statement, Multiply) for statement in walk(body)):
        return None
    found: set[str] = set()
    for statement in walk(body):
        if isinstance(statement, Store) and statement.buffer.dtype.is_byte:
            value, local = statement.value, statement.buffer.memory is MemoryType.local
            copied = isinstance(value, Element) and value.buffer.name in found
            if local and (copied or isinstance(value, Apply)):
                found.add(statement.buffer.name)
    return frozenset(found)
