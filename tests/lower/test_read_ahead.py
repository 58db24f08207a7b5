"""Vectors of what nobody writes are read while the kernel before is still running."""

import re

import ml_dtypes
import numpy as np

from warpsmith import DataType, FusionDefinition
from warpsmith.frontends.lowered import Compiled, lower_call
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import walk


def chain(width: int, rows: int) -> Compiled:
    """Two products of one row, which are sums of rows, one behind the other."""
    shapes = (1, width), (width, width), (rows, width)
    with FusionDefinition() as fd:
        x, first, second = (fd.define_tensor(list(s), True, DataType.BFloat16) for s in shapes)
        fd.add_output(fd.ops.linear(fd.ops.linear(x, first), second))
    random = np.random.default_rng(0)
    given = [random.standard_normal(s).astype(ml_dtypes.bfloat16) / 8 for s in shapes]
    return lower_call(fd.fusion, given).compile(target="h200")


def ahead(kernel: Kernel) -> set[str]:
    """Tensors of which vectors are read before the wait."""
    place = [isinstance(s, AwaitPrevious) for s in kernel.body].index(True)
    return {s.source.name for s in walk(kernel.body[:place]) if isinstance(s, CopyVector)}


def test_weights_of_the_first_iteration_are_read_before_the_wait() -> None:
    call = chain(512, 2048)
    _, second = call.kernels
    assert ahead(second.kernel) == {"T2"}
    assert second.kernel.settled == ("T2",)
    assert call.verify(schedules=2).verdict == "clean"
    code = re.findall(r"\b(LDG|STG|ACQBULK)\b", str(second.asm["sass"]))
    assert "LDG" in code[: code.index("ACQBULK")]
    assert "STG" not in code[: code.index("ACQBULK")]


def test_a_loop_that_may_have_no_iteration_waits() -> None:
    """Blocks share rows that are few: how many steps each has is known as the kernel runs."""
    second = chain(1024, 24).kernels[1].kernel
    assert ahead(second) == set()
    assert second.settled == ()
