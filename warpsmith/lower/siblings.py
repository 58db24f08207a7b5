"""Loops that the operations of one role share because their readers do.

What a role fills for another one is often not connected by any value: two loads, for instance. They
must still come in the order in which they are used. So the producer's loops are one as far as the
readers' are, and apart where those are.
"""

from __future__ import annotations

from itertools import combinations

from warpsmith.ir.derivation import Derivation
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.grouping import Siblings, shared_loops
from warpsmith.lower.rings import slice_start
from warpsmith.lower.roles import Roles


def siblings_of(buffers: Buffers, roles: Roles) -> Siblings:
    """The loops that fills of one role share, for every pair of them."""
    found: dict[tuple[Operation, Operation], int] = {}
    for role in reversed(roles.names):
        filled = [
            output
            for operation in roles.operations(role)
            for output in operation.outputs
            if roles.crosses(output)
        ]
        for a, b in combinations(filled, 2):
            assert a.definition is not None
            assert b.definition is not None
            found[a.definition, b.definition] = _shared(buffers, roles, a, b, found)
    return found


def in_order_of_use(roles: Roles, role: str) -> list[Operation]:
    """The operations of a role, loads in the order in which other roles come to need them."""
    positions = {
        reader: position
        for position, reader in enumerate(
            op for name in roles.names if name != role for op in roles.operations(name)
        )
    }

    def first_use(operation: Operation) -> int:
        readers = [
            positions[reader]
            for output in operation.outputs
            if roles.crosses(output)
            for found in roles.readers(output).values()
            for reader in found
        ]
        return min(readers, default=len(positions))

    operations = roles.operations(role)
    if all(operation.outputs[0].copied_by.is_tma for operation in operations):
        return sorted(operations, key=first_use)
    return operations


def _shared(buffers: Buffers, roles: Roles, a: TensorView, b: TensorView, known: Siblings) -> int:
    """Leading loops that are the same, and that all roles which read both share as well."""
    shared = _alike(buffers, a, b)
    readers = roles.readers(a), roles.readers(b)
    for role in readers[0].keys() & readers[1].keys():
        operations = roles.operations(role)
        shared = max(
            min(
                shared,
                _determined(buffers, a, reader, shared_loops(operations, reader, other, known)),
            )
            for reader in readers[0][role]
            for other in readers[1][role]
        )
    return shared


def _alike(buffers: Buffers, a: TensorView, b: TensorView) -> int:
    """Leading loops outside both stages that are the same iterations."""
    count = 0
    for x, y in zip(a.loop[: slice_start(a)], b.loop[: slice_start(b)], strict=False):
        if not buffers.domains.same(x, y) or x.parallel is not y.parallel:
            break
        count += 1
    return count


def _determined(buffers: Buffers, tensor: TensorView, reader: Operation, shared: int) -> int:
    """Leading loops of a tensor that a reader's first loops, so many, say."""
    group = buffers.domains.group
    known: dict[int, Expr] = {
        group(axis): Symbol(f"u{position}", low=0)
        for position, axis in enumerate(reader.outputs[0].loop[:shared])
    }
    derivation = Derivation(buffers.domains, known)
    count = 0
    for axis in tensor.loop:
        if not derivation.reaches(group(axis)):
            break
        count += 1
    return count
