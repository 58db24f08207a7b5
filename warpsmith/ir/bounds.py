"""Numbers that index expressions are never below, or never exceed."""

from __future__ import annotations

import math

from warpsmith.ir.scalar import Apply, Const, Expr, Symbol

LOOKUPS = ("group", "group_row", "group_end", "group_parts", "group_singles")
"""What memory says of parts of a grouped product's rows (`ir/groups.py`)."""


def lower_bound(expr: Expr) -> float:
    """A number that `expr` is never below; -inf when nothing is known."""
    if isinstance(expr, Const):
        return float(expr.value)
    if isinstance(expr, Symbol):
        return -math.inf if expr.low is None else expr.low
    if isinstance(expr, Apply):
        bounds = [lower_bound(arg) for arg in expr.args]
        if expr.op == "add":
            return sum(bounds)
        if expr.op in ("mul", "floordiv", "mod", "ceildiv") and min(bounds) >= 0:
            return math.prod(bounds) if expr.op == "mul" else 0
        if expr.op == "minimum":
            return min(bounds)
        if expr.op == "maximum":
            return max(bounds)
        if expr.op in LOOKUPS:
            return 0
    return -math.inf


_BOUNDED = ("add", "mul", "mod", "floordiv", "minimum", "maximum")
"""Operations whose upper bound may follow from those of their arguments."""


def upper_bound(expr: Expr) -> float:
    """A number that `expr` never exceeds; inf when nothing is known."""
    if isinstance(expr, Const):
        return float(expr.value)
    if isinstance(expr, Symbol):
        return upper_bound(expr.extent) - 1 if expr.extent is not None else math.inf
    if isinstance(expr, Apply) and expr.op in _BOUNDED:
        bounds = [upper_bound(arg) for arg in expr.args]
        if expr.op == "add":
            return sum(bounds)
        if expr.op == "mul" and min(map(lower_bound, expr.args)) >= 0:
            return math.inf if math.inf in bounds else math.prod(bounds)
        if expr.op == "mod":
            return min(bounds[0], bounds[1] - 1)
        if expr.op == "floordiv" and isinstance(expr.args[1], Const) and bounds[1] > 0:
            return bounds[0] if bounds[0] == math.inf else bounds[0] // bounds[1]
        if expr.op == "minimum":
            return min(bounds)
        if expr.op == "maximum":
            return max(bounds)
    return math.inf
