"""Tiles of a dimension that are tiles of what it is made of: `i // (f * g)` is `i // f // g`.

A product may read a dimension that a reshape has made of another one and of a few elements of each,
or repeat what has one element for several. Tiles of both are one loop then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, Merge, Split, Transform
from warpsmith.ir.exprs import Matmul, Move
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Const, Expr
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Nested:
    """What divides dimensions by constants, in a program whose products ask for it.

    Attributes:
        splits: of any tensor.
        merges: of reshapes.
    """

    splits: tuple[Split, ...]
    merges: tuple[Merge, ...]

    @staticmethod
    def of(program: Program, transforms: Sequence[Transform]) -> Nested | None:
        """That of a program with these transforms; None where no product asks for it."""
        moves = [op for op in program.operations if isinstance(op, Move)]
        reshapes = [move for move in moves if move.kind == "reshape"]
        made = (t for move in reshapes for t in move.output.transforms)
        merges = tuple(t for t in made if isinstance(t, Merge) and _joins_parts(t))
        multiplies = any(isinstance(op, Matmul) for op in program.operations)
        if not multiplies or not (merges or any(move.repeats for move in moves)):
            return None
        splits = (t for t in transforms if isinstance(t, Split) and _divides(t))
        return Nested(tuple(splits), merges)

    def pairs(self, group: Callable[[IterDomain], int]) -> Iterator[tuple[IterDomain, IterDomain]]:
        """Axes that are one iteration, by what is known of others.

        Args:
            group: that of an axis, as far as any are joined.
        """
        outer = {(group(each.axis), each.factor): each.outer for each in self.splits}
        wholes: dict[int, list[tuple[int, Expr]]] = {}
        for each in self.splits:
            wholes.setdefault(group(each.outer), []).append((group(each.axis), each.factor))
        for merge in self.merges:
            whole = group(merge.axis), merge.inner.extent
            wholes.setdefault(group(merge.outer), []).append(whole)
        for each in self.splits:
            for axis, factor in wholes.get(group(each.axis), ()):
                same = outer.get((axis, integers.mul(factor, each.factor)))
                if same is not None:
                    yield same, each.outer


def _divides(split: Split) -> bool:
    """Whether an outer iteration has as many elements as a constant says, from the first on; of one
    each, it is made of itself, and who looks for what it was made of would not end.
    """
    several = isinstance(split.factor, Const) and split.factor != integers.ONE
    return several and split.inner_split and not (split.by_group or split.rows)


def _joins_parts(merge: Merge) -> bool:
    several = isinstance(merge.inner.extent, Const) and merge.inner.extent != integers.ONE
    return several and merge.band == 1
