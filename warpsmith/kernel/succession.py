"""Statements about the kernels before and after this one in a stream.

A kernel is launched early if its blocks may start while the one before it still runs (programmatic
dependent launch). `Kernel.early` says so. Until it has awaited the kernel before it, it touches no
global memory, neither to read what that one writes nor to write what that one reads. What no kernel
of the call writes is `Kernel.settled`: it may be read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Address
from warpsmith.kernel.effects import Orders
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.traversal import expressions, read, scratch, walk, written
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class AwaitPrevious(Statement, orders=Orders.NOTHING):
    """`griddepcontrol.wait`: the kernel before this one is over, and what it wrote is there.

    Nothing is waited for where the launch came after its end.
    """

    collective: ClassVar[bool] = True
    words = "await the kernel before"


@dataclass(frozen=True, slots=True)
class AdmitNext(Statement, orders=Orders.NOTHING):
    """`griddepcontrol.launch_dependents`: a next kernel that is launched early may start.

    It does once all blocks of this one have come here, and wherever there is room for its blocks.
    """

    words = "admit the next kernel"


def touched_globally(statement: Statement, settled: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the buffers in global memory that a statement, or one inside it, reads or writes.

    Args:
        settled: of these only those that are written.
    """
    found: dict[str, None] = {}
    for each in walk((statement,)):
        reads = (buffer for buffer in read(each) if buffer.name not in settled)
        buffers = (*reads, *written(each), *scratch(each))
        found |= {b.name: None for b in buffers if b.memory is MemoryType.global_}
        nodes = (node for expr in expressions(each) for node in expr.walk())
        found |= {node.name: None for node in nodes if isinstance(node, Address)}
    return tuple(found)
