"""Rows of a grouped product, split so that no part has rows of two groups.

Group `g` has the rows from `end(g - 1)` to `end(g)`, and one more group, the last, those behind
all of them. Parts of `size` rows are numbered group by group, none without rows between them; but
groups of one part stand among the others, as far from each other as there are of these: side by
side, all would read matrices of their own. How many parts there are memory alone says: at most
`rows // size + count + 1`, and the last of so many numbers have no rows.
"""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Address, Apply, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.values import dataclass


def parts_of(rows: Expr, size: Expr, groups: Expr) -> Expr:
    """How many parts all groups have."""
    return integers.add(integers.floordiv(rows, size), groups, 1)


@dataclass(frozen=True, slots=True)
class Groups:
    """Which rows each group has, as memory says it.

    Attributes:
        ends: name of the tensor that says it, and elements between those of it.
        count: of the groups, without the last.
        rows: of all groups, with the last.
    """

    ends: tuple[str, Expr]
    count: Expr
    rows: Expr

    def of_part(self, part: Expr, size: Expr) -> Expr:
        """The group of a part; the last one of a part without rows."""
        return Apply("group", (*self._known(), self.row(part, size)), DataType.Index)

    def row(self, part: Expr, size: Expr) -> Expr:
        """The first row of a part; of one without rows, behind all of them."""
        found = (size, self.parts(size), self.singles(size), part)
        return Apply("group_row", (*self._known(), *found), DataType.Index)

    def end(self, part: Expr, size: Expr) -> Expr:
        """Before which row the group of a part ends, at most behind all of them."""
        group = self.of_part(part, size)
        return Apply("group_end", (*self._known(), group), DataType.Index)

    def parts(self, size: Expr) -> Expr:
        """How many parts have rows: as many as `parts_of`, or fewer."""
        return Apply("group_parts", (*self._known(), size), DataType.Index)

    def singles(self, size: Expr) -> Expr:
        """How many groups have one part."""
        return Apply("group_singles", (*self._known(), size), DataType.Index)

    def _known(self) -> tuple[Expr, ...]:
        name, stride = self.ends
        return (Address(name), stride, self.count, self.rows)


def groups_of(ends: TensorView, count: Expr, rows: Expr) -> Groups:
    """What an input says of so many groups."""
    packed = ends.contiguity[0]
    stride = integers.ONE if packed else Symbol(f"{ends.name}_stride0", low=0)
    return Groups((ends.name, stride), count, rows)


def most_parts(expr: Apply) -> Expr:
    """As many parts as a call of `Groups.parts` may count."""
    _, _, count, rows, size = expr.args
    return parts_of(rows, size, count)


def looks_up(expr: Expr) -> bool:
    """Whether the value depends on what memory says of groups."""
    return any(isinstance(node, Address) for node in expr.walk())
