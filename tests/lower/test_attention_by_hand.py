"""Attention forward by hand, with an online softmax: right, clean and proved."""

from typing import Any

import pytest

from tests.support.lowering import lowered
from tests.support.online_attention import online_attention
from tests.support.register_products import attention_operands, softmax_excess
from warpsmith import knobs
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For
from warpsmith.kernel.products import MatrixRegisters, Multiply
from warpsmith.kernel.traversal import walk


@pytest.mark.few(2)
@pytest.mark.parametrize(("m", "tiles"), [(200, 3), (129, 1)])
@pytest.mark.parametrize("changes", [{}, {"groups": 1, "keys": 128, "stages": 3}])
def test_attention_forward(m: int, tiles: int, changes: dict[str, Any]) -> None:
    fd, keys = online_attention(**changes), changes.get("keys", 64)
    q, k, v = attention_operands(m, tiles * keys)
    given = (q, k.reshape(tiles, keys, 64).transpose(0, 2, 1), v.reshape(tiles, keys, 64))
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute(given)
    assert softmax_excess(result, q, k, v) <= 0
    verification = fd.verify(given, schedules=2)
    assert verification.verdict == "clean", str(verification)


def test_neither_scores_nor_weights_leave_registers() -> None:
    kernel: Kernel = lowered(online_attention())
    names = {buffer.name for buffer in kernel.shared}
    assert not names & {"T3", "T8", "T10"}
    products = [s for s in walk(kernel.body) if isinstance(s, Multiply)]
    assert [isinstance(s.a, MatrixRegisters) for s in products] == [False, True]
    rolled = [s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll]
    assert rolled, "tiles are walked by a loop that carries the states"
