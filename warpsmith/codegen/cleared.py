"""Registers that must begin as zeros, as threads outside of the tensors load nothing into them.

What such a thread computes is thrown away, but what it computes from must be a value. NVCC takes a
register that nothing wrote to be whatever suits it, another number at each use; and where all lanes
would load the same, it supposes that they branch alike. Lanes of other leftovers then part for
good, and pass barriers one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.kernel.nodes import Declare, If, Statement, Store
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.traversal import children, expressions, read, reads_memory, walk, written

_Path = tuple[int, ...]

_NAMES = """
abs acos add addcmul asin bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor cast ceil clamp cosh divide_full eq erfc exp exp2 exp_near expm1
float_rank floor frac ge gt isfinite isinf isnan isneginf isposinf isreal kept_word le lerp
logical_and logical_not logical_or logical_right_shift lt maximum minimum mul ne nearest_int neg
philox_word relu round rsqrt sigmoid sigmoid_near sign signbit silu silu_near sinh sub threshold
times_parts trunc where widen_again
"""

STRAIGHT = frozenset(_NAMES.split())
"""Operations without a branch among their instructions, but for those of doubles."""


def cleared(body: tuple[Statement, ...]) -> frozenset[str]:
    """Names of the registers that are written under a condition, and also read without it, of a
    kernel that branches on numbers; no others are, as it costs an instruction each.

    But for those that begin with a constant, and sums of tensor cores, which begin by their first
    product, whatever they held.
    """
    if not any(_branches(expr) for statement in walk(body) for expr in expressions(statement)):
        return frozenset()
    found = _Found()
    found.walk(body, ())
    return frozenset(
        name
        for name, paths in found.writes.items()
        if name in found.open
        and any(not _holds(path, there) for path in paths for there in found.reads.get(name, ()))
    )


def _branches(expr: Expr) -> bool:
    """Whether it takes an operation of numbers in memory or registers that may branch on them."""
    return any(
        isinstance(node, Apply)
        and (node.op not in STRAIGHT or any(arg.dtype is DataType.Double for arg in node.args))
        and reads_memory(node)
        for node in expr.walk()
    )


def _holds(path: _Path, there: _Path) -> bool:
    """Whether all conditions of a path hold at a place, too."""
    return there[: len(path)] == path


class _Found:
    """Conditions around what writes and what reads each register, behind its declaration.

    Attributes:
        open: those that somewhere begin with anything but a constant that is stored in them under
            no condition. Several loops may declare one name.
    """

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.writes: dict[str, set[_Path]] = {}
        self.reads: dict[str, set[_Path]] = {}
        self._depths: dict[str, int] = {}
        self._fresh: set[str] = set()
        self._conditions = 0

    def walk(self, body: Iterable[Statement], path: _Path) -> None:
        for statement in body:
            if isinstance(statement, Declare):
                self._depths[statement.buffer.name] = len(path)
                self._fresh.add(statement.buffer.name)
            if not isinstance(statement, Multiply):
                names = [buffer.name for buffer in written(statement)]
                constant = isinstance(statement, Store) and isinstance(statement.value, Const)
                for name in self._fresh.intersection(names):
                    if not (constant and len(path) == self._depths[name]):
                        self.open.add(name)
                self._fresh.difference_update(names)
                self._note(self.writes, names, path)
            self._note(self.reads, (b.name for b in read(statement)), path)
            inner = path
            if isinstance(statement, If):
                self._conditions += 1
                inner = (*path, self._conditions)
            self.walk(children(statement), inner)

    def _note(self, into: dict[str, set[_Path]], names: Iterable[str], path: _Path) -> None:
        for name in names:
            if name in self._depths:
                into.setdefault(name, set()).add(path[self._depths[name] :])
