"""Random integers that kernels might compute from loop indices and places of cursors."""

from collections.abc import Sequence
from random import Random

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr

NUMBERS = ("add", "sub", "mul", "floordiv", "mod", "ceildiv", "xor", "where", "minimum", "maximum")
TRUTHS = ("lt", "le", "eq", "logical_and", "logical_or")


def random_number(random: Random, leaves: Sequence[Expr], depth: int) -> Expr:
    """An integer, which may be negative; divisors are positive constants, or one more than that."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(leaves) if random.random() < 0.75 else _constant(random)
    op = random.choice((*NUMBERS, "cast"))
    a = random_number(random, leaves, depth - 1)
    match op:
        case "cast":
            return Apply(op, (a,), DataType.Index)
        case "floordiv" | "mod" | "ceildiv":
            return Apply(op, (a, _divisor(random, leaves)), DataType.Index)
        case "where":
            condition = random_truth(random, leaves, depth - 1)
            return Apply(op, (condition, a, random_number(random, leaves, depth - 1)), a.dtype)
    return Apply(op, (a, random_number(random, leaves, depth - 1)), DataType.Index)


def random_truth(random: Random, leaves: Sequence[Expr], depth: int) -> Expr:
    """A comparison, or two of them joined; rarely a number, which holds unless it is 0."""
    op = random.choice((*TRUTHS, "lt", "lt"))
    if depth > 0 and op.startswith("logical"):
        sides = (random_truth(random, leaves, depth - 1), random_truth(random, leaves, depth - 1))
        return Apply(op, sides, DataType.Bool)
    if random.random() < 0.05:
        return random_number(random, leaves, depth)
    op = random.choice(("lt", "le", "eq"))
    a = random_number(random, leaves, max(depth - 1, 0))
    return Apply(op, (a, random_number(random, leaves, max(depth - 1, 0))), DataType.Bool)


def _constant(random: Random) -> Expr:
    return Const(random.choice((-7, -2, -1, 0, 1, 2, 3, 5, 8)))


def _divisor(random: Random, leaves: Sequence[Expr]) -> Expr:
    if random.random() < 0.8:
        return Const(random.choice((1, 2, 3, 4, 7)))
    return Apply("maximum", (random.choice(leaves), Const(1)), DataType.Index)
