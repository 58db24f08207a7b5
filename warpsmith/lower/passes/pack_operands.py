"""Operands of products in registers become words of 32 bits, as the instruction reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Statement, Store
from warpsmith.kernel.products import MatrixRegisters, Multiply, PackRegisters
from warpsmith.kernel.traversal import map_bodies, read, walk, written
from warpsmith.values import dataclass

WORD = DataType.Int32

PAIRED_BYTES = 2
"""Of elements of which one instruction rounds two floats."""


def pack_operands(kernel: Kernel) -> Kernel:
    """Pack each operand that products read from registers, behind the last write to it.

    Before::

        T3: bfloat16[32];  for i: { T3[i] = f(T2[i]) };  for k: { T4 += registers T3[8 k ..] x T5 }

    After::

        T3_words: int32[16];  T3: bfloat16[32];  for i: { T3[i] = f(T2[i]) };  T3_words = T3 packed
        for k: { T4 += registers T3_words[4 k ..] x T5 }

    Where all that is written to elements of 16 bits is rounded from floats, they stay floats until
    they are packed: one instruction rounds both of a word.

    The words are declared where the role begins: products of an iteration may read them until the
    next one writes them.
    """
    if kernel.branches:
        return kernel.map_branches(lambda b: map_bodies(b, _scope))
    return kernel.with_body(_scope(kernel.body))


def _scope(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    held = dict.fromkeys(s.a.buffer for s in walk(body) if isinstance(s, Multiply) and _is_loose(s))
    for buffer in held:
        packing = _Packing.of(buffer, _floats(buffer, body))
        body = (Declare(packing.words), *packing.packed(body))
    return body


def _is_loose(product: Multiply) -> bool:
    return isinstance(product.a, MatrixRegisters) and product.a.buffer.dtype is not WORD


@dataclass(frozen=True, slots=True)
class _Packing:
    """A buffer of elements, and the words that they become."""

    elements: Buffer
    words: Buffer
    floats: Buffer | None

    @staticmethod
    def of(elements: Buffer, floats: Buffer | None) -> _Packing:
        size = integers.floordiv(integers.mul(elements.size, elements.dtype.size), WORD.size)
        words = replace(elements, name=f"{elements.name}_words", dtype=WORD, size=size)
        return _Packing(elements, words, floats)

    def packed(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements with the packing between those that write elements, and the products."""
        writing = [p for p, s in enumerate(body) if self._writes((s,))]
        reading = [p for p, s in enumerate(body) if self._reads((s,))]
        if not writing or not reading:
            raise InternalError(f"{self.elements.name} is an operand, and is not written before")
        last, first = writing[-1], reading[0]
        if last < first:
            behind = tuple(map(self._read_words, body[last + 1 :]))
            before, source = body[: last + 1], self.elements
            if self.floats is not None:
                before, source = tuple(map(self._written_as_floats, before)), self.floats
            return (*before, PackRegisters(self.words, source, self.elements.dtype), *behind)
        if last == first == reading[-1] and body[last].form.has_body:
            return (*body[:last], map_bodies(body[last], self.packed), *body[last + 1 :])
        raise InternalError(f"{self.elements.name} is an operand that is written between products")

    def _writes(self, statements: Sequence[Statement]) -> bool:
        return any(self.elements in written(s) for s in walk(tuple(statements)))

    def _reads(self, statements: Sequence[Statement]) -> bool:
        return any(
            isinstance(s, Multiply) and self.elements in read(s) for s in walk(tuple(statements))
        )

    def _written_as_floats(self, statement: Statement) -> Statement:
        assert self.floats is not None
        if isinstance(statement, Declare) and statement.buffer == self.elements:
            return replace(statement, buffer=self.floats)
        if isinstance(statement, Store) and statement.buffer == self.elements:
            value = _before_rounding(statement.value)
            assert value is not None
            return Store(self.floats, statement.index, value)
        return map_bodies(statement, lambda body: tuple(map(self._written_as_floats, body)))

    def _read_words(self, statement: Statement) -> Statement:
        if isinstance(statement, Multiply) and statement.a.buffer == self.elements:
            index = integers.floordiv(statement.a.index, WORD.size // self.elements.dtype.size)
            return replace(statement, a=replace(statement.a, buffer=self.words, index=index))
        return map_bodies(statement, lambda body: tuple(map(self._read_words, body)))


def _floats(elements: Buffer, body: tuple[Statement, ...]) -> Buffer | None:
    """The buffer of floats that elements can be until they are packed, if they can."""
    found = [s for s in walk(body) if elements in (*written(s), *read(s))]
    rounded = (
        isinstance(s, Store) and s.buffer == elements and _before_rounding(s.value) is not None
        for s in found
        if not isinstance(s, Multiply)
    )
    declared = any(isinstance(s, Declare) and s.buffer == elements for s in walk(body))
    if not (elements.dtype.size == PAIRED_BYTES and declared and all(rounded)):
        return None
    return replace(elements, dtype=DataType.Float)


def _before_rounding(value: Expr) -> Expr | None:
    """The float that is rounded to a value; None where it is no such."""
    if isinstance(value, Const):
        return Const(value.value, DataType.Float)
    if not (isinstance(value, Apply) and value.op == "cast"):
        return None
    (source,) = value.args
    if source.dtype is DataType.Float:
        return source
    return None if source.dtype is DataType.Double else Apply("cast", (source,), DataType.Float)
