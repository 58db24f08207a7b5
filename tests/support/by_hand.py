"""Kernels of a few statements, made by hand."""

from dataclasses import replace
from typing import Any

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Statement

_ONE = integers.ONE


def launch_of(x: Expr | int = 1, y: int = 1, *, blocks: int = 1) -> Launch:
    """Blocks along x, of so many threads along x and y."""
    return Launch(
        (integers.index(blocks), _ONE, _ONE), (integers.index(x), integers.index(y), _ONE)
    )


def kernel_of(*body: Statement, launch: Launch | None = None, **others: Any) -> Kernel:
    """A kernel of these statements: one thread, but for what is said, and nothing in memory."""
    plain = Kernel(
        name="k",
        parameters=(),
        scalars=(),
        shared=(),
        body=body,
        launch=launch or launch_of(),
        index_type=DataType.Int32,
    )
    return replace(plain, **others)
