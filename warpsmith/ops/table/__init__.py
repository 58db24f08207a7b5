"""The one table of pointwise operations: type rule, meaning in NumPy, spelling in CUDA C++.

What a user names in `fd.ops`, what the evaluator computes and what a kernel says all come from one
entry, so they cannot drift apart. Families have files of their own; this is their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from warpsmith.ops.table.arithmetic import ARITHMETIC
from warpsmith.ops.table.choice import CHOICE
from warpsmith.ops.table.integer import INTEGER
from warpsmith.ops.table.logic import LOGIC
from warpsmith.ops.table.op import PointwiseOp, Rule, Spelling
from warpsmith.ops.table.random import DRAWS
from warpsmith.ops.table.rank import RANKS
from warpsmith.ops.table.transcendental import TRANSCENDENTAL

TABLE: Mapping[str, PointwiseOp] = MappingProxyType(
    {
        op.name: op
        for op in (*ARITHMETIC, *TRANSCENDENTAL, *INTEGER, *LOGIC, *CHOICE, *DRAWS, *RANKS)
    }
)

__all__ = ["TABLE", "PointwiseOp", "Rule", "Spelling"]
