"""Integers of a byte that registers hold: as they were loaded, or as they were computed."""

from __future__ import annotations

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.nodes import Element, Statement, Store
from warpsmith.kernel.traversal import walk


def computed_bytes(body: tuple[Statement, ...]) -> frozenset[str]:
    """Names of the registers whose integers of a byte are results of operations, which have the
    sign in all of their bits; what is loaded is a part of a register, with other bytes beside it.
    """
    found: set[str] = set()
    for statement in walk(body):
        if isinstance(statement, Store) and statement.buffer.dtype is DataType.Int8:
            value, local = statement.value, statement.buffer.memory is MemoryType.local
            copied = isinstance(value, Element) and value.buffer.name in found
            if local and (copied or isinstance(value, Apply)):
                found.add(statement.buffer.name)
    return frozenset(found)
