"""What windows compute at the same places is computed once."""

import pytest

from warpsmith import DataType, FusionDefinition, ops
from warpsmith.ir import integers
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.reads import WINDOW, at
from warpsmith.ops.reading import read
from warpsmith.schedulers.equal import share_equal


@pytest.mark.parametrize(("kind", "kept"), [(WINDOW, 3), ("other", 4)])
def test_equal_operations_are_one_where_there_are_windows(kind: str, kept: int) -> None:
    """Zeros of two signs are no equal ones."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([8], True, DataType.Float)
        twice = [ops.exp(x), ops.exp(x), ops.mul(x, 0.0), ops.mul(x, -0.0)]
        window = read(kind, [(x, [at(0)], integers.TRUE)], x.root)
        for each in (window, *twice):
            fd.add_output(ops.neg(each))
    fusion = fd.fusion.draft()
    share_equal(fusion)
    left = [op.op for op in fusion.operations if isinstance(op, Pointwise)]
    assert len([op for op in left if op != "neg"]) == kept
    assert left.count("neg") == 5  # results are all there
