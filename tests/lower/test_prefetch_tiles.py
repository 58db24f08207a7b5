"""Tiles that the L2 is asked for: those that come later than the first ones, each once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.passing import by_pass
from warpsmith import DataType, FusionDefinition
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import PrefetchTile
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.lower.passes.prefetch_tiles import AHEAD, prefetch_tiles
from warpsmith.planner.plan import cut
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

M, N, K = 500, 400, 64 * 18
SIZES = {"T0_size0": M, "T0_size1": K, "T1_size0": N, "T1_size1": K, "T2_size0": M, "T2_size1": N}

STRATEGIES: dict[str, dict[str, Any]] = {
    "cooperative": {"tile": (128, 128, 64), "blocks": 3},
    "clusters": {"tile": (128, 128, 64), "blocks": 4, "cluster": (2, 1)},
    "ping-pong": {"tile": (64, 128, 64), "blocks": 3, "ping_pong": 2},
}


def kernel_with(
    behind: str = "prefetch_tiles", beside: DataType = DataType.BFloat16, **given: Any
) -> Kernel:
    """The kernel of a product and a residual, as a pass leaves it."""
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        c = fd.define_tensor([-1, -1], True, beside)
        fd.add_output(fd.ops.add(fd.ops.linear(a, b), c))
    (part,) = cut(fd.fusion, target=H200)
    candidate = select(part.fusion, H200)
    large = {name: 8 * size for name, size in SIZES.items()}
    chosen, _ = candidate.choose(Problem(values=large, alignment={}, target=H200))
    assert isinstance(chosen, MatmulParams)
    plain: dict[str, Any] = {
        "parts": 1,
        "splits": 1,
        "cluster": (1, 1),
        "ping_pong": 0,
        "passes": 1,
        "stream": False,
        "group": 2,
        "chunk": 32,
    }
    return by_pass(candidate.scheduled(replace(chosen, **plain | given)))[behind]


def asked(
    statements: tuple[Statement, ...], values: Mapping[str, int]
) -> Iterator[tuple[type, str, tuple[int, ...], dict[str, int]]]:
    """Boxes in the order in which one agent asks for them, with the values of its loops."""
    for statement in statements:
        match statement:
            case For(symbol=symbol, extent=extent, body=body):
                for at in range(int(evaluate(extent, values))):
                    yield from asked(body, {**values, symbol.name: at})
            case If(condition=condition, body=body):
                if evaluate(condition, values):
                    yield from asked(body, values)
            case TileCopy() | PrefetchTile():
                first = tuple(int(evaluate(dim.first, values)) for dim in statement.dims)
                yield type(statement), statement.memory.name, first, dict(values)


@pytest.mark.few(3)
@pytest.mark.parametrize("steps", [18, 5], ids=["all", "few"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_chunks_behind_the_first_stages_come_to_the_l2_in_the_last_steps(
    name: str, steps: int
) -> None:
    """One after the other, the first at once where steps are few."""
    given = STRATEGIES[name]
    kernel = kernel_with(load_stages=2, **given)
    bodies = {s.agent.name: s.body for s in kernel.body if isinstance(s, Branch)}
    boxes = given["cluster"][0] if "cluster" in given else 1
    chunks = given["tile"][1] // 32
    for block in range(given["blocks"] // boxes):
        for rank in range(boxes):
            sizes = {**SIZES, "T0_size1": 64 * steps, "T1_size1": 64 * steps}
            values = {**sizes, "grid_x": block, "cluster_rank": rank}
            loads = [box for _, memory, box, _ in asked(bodies["load_beside"], values)]
            tiles = [loads[at : at + chunks] for at in range(0, len(loads), chunks)]
            wanted = [box for tile in tiles for box in tile[2:]]
            ahead = [a for a in asked(bodies["load"], values) if a[0] is PrefetchTile]
            assert [box for _, _, box, _ in ahead] == wanted
            assert {memory for _, memory, _, _ in ahead} == {"T2"}
            step = "load_i2" if given.get("ping_pong") else "load_i1"
            every = [later * AHEAD // (chunks - 2) for later in range(chunks - 2)]
            when = [max(steps - AHEAD + behind, 0) for behind in every]
            assert [found[step] for *_, found in ahead] == when * len(tiles)


def test_nothing_is_asked_for_that_has_a_stage() -> None:
    kernel = kernel_with(tile=(64, 64, 64), load_stages=2, blocks=2)
    assert not any(isinstance(s, PrefetchTile) for s in walk(kernel.body))


def loads_by(kernel: Kernel, **changes: Any) -> Kernel:
    """The kernel with its residual's copies changed."""

    def change(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, TileCopy) and statement.memory.name == "T2":
            return (replace(statement, **changes),)
        return (statement,)

    return replace(kernel, body=rewritten(kernel.body, change))


def test_agents_that_come_by_otherwise_are_left_alone() -> None:
    """Where one has a tile less than the other, and where copies go by no map, or round."""
    kernel = kernel_with("batch_levels", tile=(128, 128, 64), load_stages=2, blocks=3)
    assert any(isinstance(s, PrefetchTile) for s in walk(prefetch_tiles(kernel).body))
    fewer = tuple(
        replace(s, body=tuple(map(_one_less, s.body)))
        if isinstance(s, Branch) and s.agent.name == "load"
        else s
        for s in kernel.body
    )
    for other in (
        replace(kernel, body=fewer),
        loads_by(kernel, how=LoadStoreOpType.bulk),
        loads_by(kernel, rounds=True),
    ):
        assert prefetch_tiles(other) is other


def _one_less(statement: Statement) -> Statement:
    if isinstance(statement, For):
        return replace(statement, extent=integers.sub(statement.extent, 1))
    return statement
