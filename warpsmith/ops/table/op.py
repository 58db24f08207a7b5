"""What a pointwise operation is: its type rule, its meaning on arrays, its spelling in CUDA C++."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import wraps

import numpy as np

from warpsmith.errors import InternalError
from warpsmith.ir.dtypes import DataType
from warpsmith.values import dataclass

Meaning = Callable[..., np.ndarray]

FLOATS = (DataType.Double, DataType.Float)
INTEGERS = (DataType.Int, DataType.Int32)
NUMBERS = (*FLOATS, *INTEGERS)
COMPUTED = (*NUMBERS, DataType.Bool)

# A name or a number needs no parentheses, whatever stands around it.
_ATOM = re.compile(r"[A-Za-z_]\w*|\d[\w.]*")


class Rule(Enum):
    """How the operands' types give the type that is computed in, and the result's type."""

    SAME = "promoted"  # operands are promoted by PyTorch's rules; the result has that type
    FLOAT = "floating"  # as SAME, but integers and bools are computed in, and give, Float
    COMPARE = "compared"  # operands are promoted, the result is Bool
    LOGICAL = "logical"  # operands are converted to Bool, the result is Bool
    INTEGER = "integral"  # as SAME, and only integers and bools are allowed
    CLASSIFY = "classified"  # the operand keeps its type, the result is Bool
    RANK = "ranked"  # the operand keeps its type, the result is Int
    DRAW = "drawn"  # operands are integers or bools, converted to Int; the result is Float
    DECIDE = "decided"  # as DRAW, and the result is Bool

    @property
    def draws(self) -> bool:
        return self in (Rule.DRAW, Rule.DECIDE)


@dataclass(frozen=True, slots=True)
class Spelling:
    """C++ text of an operation in each type that it can be computed in.

    `{0}` stands for the first argument. Each argument stands exactly once in a text, so that any
    expression may be an argument without being computed twice; `wrap` adds its parentheses.
    """

    texts: tuple[tuple[DataType, str], ...]

    @property
    def dtypes(self) -> tuple[DataType, ...]:
        """The types that the operation can be computed in."""
        return tuple(dtype for dtype, _ in self.texts)

    @property
    def arity(self) -> int:
        """How many arguments there are."""
        return self.texts[0][1].count("{")

    def __call__(self, dtype: DataType, args: tuple[str, ...]) -> str:
        """The expression for arguments of type `dtype`. Index is spelled as Int."""
        wanted = DataType.Int if dtype is DataType.Index else dtype
        for known, text in self.texts:
            if known is wanted:
                return text.format(*(wrap(arg) for arg in args))
        raise InternalError(f"{dtype} is not among {self.dtypes}, which can be computed in")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseOp:
    """An operation that computes each element of its result from one element of each operand.

    Args:
        name: the name under `fd.ops`.
        rule: how types are found.
        numpy: the meaning on arrays that have been converted to the compute type (Double, Float,
            Int, Int32 or Bool); it never warns or raises because of values.
        cuda: the expression in the compute type, of arguments that are C++ expressions of it.
        pieces: names of the prelude pieces that the CUDA text needs.
        conditions: number of leading operands that are Bool whatever the others are, and that do
            not take part in the promotion.
        halves: False when rounding a result that was computed in Float to a narrower type would
            change the meaning, so that such operands have to be refused.
        doc: one sentence for users.
    """

    name: str
    rule: Rule
    numpy: Meaning
    cuda: Spelling
    pieces: tuple[str, ...] = ()
    conditions: int = 0
    halves: bool = True
    doc: str

    @property
    def arity(self) -> int:
        """How many operands there are."""
        return self.cuda.arity

    def compute_dtype(self, dtype: DataType) -> DataType:
        """The type that operands of the promoted type `dtype` are computed in."""
        if self.rule is Rule.LOGICAL:
            return DataType.Bool
        if self.rule is Rule.FLOAT and not dtype.is_float:
            return DataType.Float
        if self.rule.draws:
            return DataType.Int
        return DataType.Int if dtype is DataType.Index else dtype.compute

    def result_dtype(self, dtype: DataType) -> DataType:
        """The type of the result for operands of the promoted type `dtype`."""
        if self.rule in (Rule.LOGICAL, Rule.COMPARE, Rule.CLASSIFY, Rule.DECIDE):
            return DataType.Bool
        if self.rule is Rule.RANK:
            return DataType.Int
        if self.rule is Rule.DRAW or (self.rule is Rule.FLOAT and not dtype.is_float):
            return DataType.Float
        return dtype

    def supports(self, dtype: DataType) -> bool:
        """Whether operands may have the promoted type `dtype`."""
        if (dtype.is_narrow and not self.halves) or (self.rule.draws and dtype.is_float):
            return False
        return self.compute_dtype(dtype) in self.cuda.dtypes


def operation(
    name: str,
    numpy: Meaning,
    cuda: Spelling,
    doc: str,
    pieces: tuple[str, ...] = (),
    *,
    rule: Rule = Rule.SAME,
    conditions: int = 0,
    halves: bool = True,
) -> PointwiseOp:
    """An entry of the table, by Rule.SAME unless another one is given, whose meaning is quiet."""
    return PointwiseOp(
        name=name,
        rule=rule,
        numpy=quiet(numpy),
        cuda=cuda,
        pieces=pieces,
        conditions=conditions,
        halves=halves,
        doc=doc,
    )


def wrap(text: str) -> str:
    """`text` as an operand of any operator: in parentheses unless it is a name or a number."""
    return text if _ATOM.fullmatch(text) else f"({text})"


def spelled(text: str, *dtypes: DataType) -> Spelling:
    """One text for all of `dtypes`."""
    return Spelling(tuple((dtype, text) for dtype in dtypes))


def library(name: str) -> Spelling:
    """A function of the C library of one argument, whose float form ends in `f`."""
    return Spelling(((DataType.Double, f"{name}({{0}})"), (DataType.Float, f"{name}f({{0}})")))


def library2(name: str) -> Spelling:
    """A function of the C library of two arguments, whose float form ends in `f`."""
    return Spelling(
        ((DataType.Double, f"{name}({{0}}, {{1}})"), (DataType.Float, f"{name}f({{0}}, {{1}})"))
    )


def joined(*spellings: Spelling) -> Spelling:
    """Spellings of different types as one."""
    return Spelling(tuple(entry for spelling in spellings for entry in spelling.texts))


def quiet(meaning: Meaning) -> Meaning:
    """`meaning` without NumPy's warnings: infinities and NaNs are results like any other."""

    @wraps(meaning)
    def silent(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(meaning(*arrays))

    return silent
