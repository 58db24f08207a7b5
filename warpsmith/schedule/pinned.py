"""Sizes that a schedule needs as constants: those of shared memory that holds whole dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.substitution import substitute


def shared_sizes(fusion: Fusion) -> set[Symbol]:
    """Sizes that the shared memory of a schedule depends on."""
    return {
        node
        for tensor in fusion.computed
        if tensor.memory is MemoryType.shared
        for axis in tensor.loop[tensor.compute_at :]
        if not axis.parallel.is_of_blocks
        for node in axis.extent.walk()
        if isinstance(node, Symbol)
    }


def pin(fusion: Fusion, sizes: Mapping[Symbol, int]) -> None:
    """Let sizes be numbers: calls with others are refused."""
    known: dict[Expr, Expr] = {symbol: integers.index(n) for symbol, n in sizes.items()}
    for axis in dict.fromkeys(axis for tensor in fusion.tensors for axis in tensor.every_axis):
        axis.extent = substitute(axis.extent, known)
    for operation in tuple(fusion.operations):
        values = {each.name: getattr(operation, each.name) for each in fields(operation)}
        changed = {name: _replaced(value, known) for name, value in values.items()}
        if any(changed[name] is not values[name] for name in values):
            fusion.replace(operation, replace(operation, **changed))


def _replaced(value: Any, known: dict[Expr, Expr]) -> Any:
    """A field of an operation, in which numbers stand for sizes."""
    if isinstance(value, Expr):
        return substitute(value, known)
    if not isinstance(value, tuple):
        return value
    found = tuple(_replaced(each, known) for each in value)
    return found if any(a is not b for a, b in zip(found, value, strict=True)) else value
