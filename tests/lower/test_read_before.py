"""What threads read of memory beside a product is asked for before its products."""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition
from warpsmith.frontends.lowered import Compiled, lower_call
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.agents import Branch, Kind
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, For, Statement
from warpsmith.kernel.products import CommitProducts
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import read, walk
from warpsmith.lower.passes import read_before as reads
from warpsmith.lower.passes.read_before import read_before
from warpsmith.schedulers.matmul import heuristic

Epilogue = Callable[[Any, Any, Any], Any]

EPILOGUES: dict[str, Epilogue] = {
    "sum": lambda ops, y, z: ops.add(y, z),
    "gate": lambda ops, y, z: ops.mul(ops.silu(z), y),
    "twice": lambda ops, y, z: ops.mul(ops.add(y, z), z),
}


def product(rows: int, columns: int, depth: int, epilogue: Epilogue, chained: bool) -> Compiled:
    """A product with something beside it; `chained`: another product comes before."""
    with FusionDefinition() as fd:
        x, w, z = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3))
        before = [fd.define_tensor([-1, -1], True, DataType.BFloat16)] if chained else []
        y = fd.ops.linear(fd.ops.linear(x, before[0]) if chained else x, w)
        fd.add_output(fd.ops.cast(epilogue(fd.ops, y, z), DataType.BFloat16))
    shapes = [(rows, depth), (columns, depth), (rows, columns), *[(depth, depth)] * chained]
    random = np.random.default_rng(0)
    given = [random.standard_normal(s).astype(ml_dtypes.bfloat16) / 8 for s in shapes]
    return lower_call(fd.fusion, given).compile(target="h200")


def parts(statements: tuple[Statement, ...]) -> Iterator[tuple[Any, Any]]:
    """Statements before a loop of products, and behind it."""
    for place, statement in enumerate(statements):
        inner = getattr(statement, "body", ())
        if isinstance(statement, For) and any(isinstance(s, CommitProducts) for s in inner):
            yield statements[:place], statements[place + 1 :]
        yield from parts(inner)


def sides(kernel: Kernel) -> tuple[list[Statement], list[Statement]]:
    """What reads memory before products, and behind them."""
    (agent,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.kind is Kind.MULTIPLY)
    ((before, behind),) = parts(agent.body)
    found = ([s for s in walk(side) if any(map(is_memory, read(s)))] for side in (before, behind))
    first, second = found
    return first, second


def is_memory(buffer: Buffer) -> bool:
    return buffer.memory is MemoryType.global_


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "chained"),
    [
        (3, 72, 512, False),
        (8, 136, 512, True),
        (30, 20, 64, False),
        (16, 2048, 2048, True),
        (8, 9000, 512, False),
    ],
    ids=["fewer than a tile", "chained", "pairs", "parts of k", "several tiles a block"],
)
def test_threads_read_before_they_multiply(
    name: str, rows: int, columns: int, depth: int, chained: bool
) -> None:
    call = product(rows, columns, depth, EPILOGUES[name], chained)
    kernel = call.kernels[-1].kernel
    before, behind = sides(kernel)
    assert before
    assert not behind
    if chained:
        waits = [isinstance(s, AwaitPrevious) for s in kernel.body]
        assert waits.index(True) < [isinstance(s, Branch) for s in kernel.body].index(True)
    assert call.verify(schedules=2).verdict == "clean"


def test_two_columns_at_once_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristic, "works_of", lambda *given: (heuristic.work_of(*given),))
    before, _ = sides(product(30, 20, 64, EPILOGUES["sum"], False).kernels[0].kernel)
    assert {type(s) for s in before} == {CopyVector}
    assert {s.width for s in before if isinstance(s, CopyVector)} == {2}


def test_registers_are_left_for_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    few = product(3, 72, 512, EPILOGUES["sum"], False).kernels[0].kernel
    (held,) = (
        s.buffer for s in walk(few.body) if isinstance(s, Declare) and "before" in s.buffer.name
    )
    assert str(held.size) == "4"
    monkeypatch.setattr(reads, "MOST_REGISTERS", 7)
    before, behind = sides(product(3, 72, 512, EPILOGUES["sum"], False).kernels[0].kernel)
    assert not before
    assert behind


def test_nothing_is_left_to_move() -> None:
    kernel = product(3, 72, 512, EPILOGUES["gate"], False).kernels[0].kernel
    assert read_before(kernel) is kernel
