"""Products that are scaled by blocks of k: every tile and cluster, and what their kernels are."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.lowering import lowered
from tests.support.scaled import E4, operands, program
from warpsmith import DataType, FusionDefinition, fuse, knobs, ops
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Store
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.matmul import applicability, heuristic
from warpsmith.schedulers.matmul.apply import SCALE_STAGES
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200


def with_params(monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
    chosen = heuristic.choose
    monkeypatch.setattr(
        heuristic, "choose", lambda *args: replace(chosen(*args), **({"cluster": (1, 1)} | params))
    )


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "tile", "cluster"),
    [
        ("blocks", (192, 128), (1, 1)),
        ("columns", (128, 128), (2, 1)),
        ("columns", (128, 64), (1, 2)),
        ("blocks", (64, 32), (2, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Float])
def test_tiles_that_blocks_go_round(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    tile: tuple[int, int],
    cluster: tuple[int, int],
    dtype: DataType,
) -> None:
    """Three blocks of k, of which the last is cut short, over stages that are used again."""
    staged = dtype is DataType.Half
    shape = {"chunk": 32 * staged, "store_stages": 2 * staged, "group": 1, "blocks": 2}
    with_params(monkeypatch, tile=(*tile, 128), stages=2, cluster=cluster, **shape)
    given, _ = operands(264, 200 if staged else 201, 336, kind)
    with knobs.scope(device="sim"):
        compiled = program(kind, dtype=dtype).lower(*given).compile()
        verification = compiled.verify(schedules=2)
    assert f"tile=({tile[0]}, {tile[1]}, 128)" in compiled.explain()
    assert verification.verdict == "clean", str(verification)


def test_a_tile_that_groups_multiply_in_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 rows the second pass of the second group has 8; k has three steps of two stages."""
    shape = {"passes": 2, "stages": 2, "chunk": 32, "store_stages": 2, "blocks": 1}
    with_params(monkeypatch, tile=(256, 128, 128), **shape)
    given, _ = operands(200, 72, 336, "blocks")
    with knobs.scope(device="sim"):
        compiled = program("blocks", dtype=DataType.Half).lower(*given).compile()
        assert compiled.verify(schedules=1).verdict == "clean"
    assert "cooperative, 2 warp groups" in compiled.explain()


def test_what_is_beside_a_scaled_product_comes_in_chunks() -> None:
    """A residual and a bias come ahead; scales the threads load."""
    given, scaled = operands(136, 144, 256, "blocks")
    beside = [torch.randn(136, 144).half(), torch.randn(144).half()]
    wanted = scaled + beside[0].double() + beside[1].double()

    def total(a: Any, b: Any, of_a: Any, of_b: Any, residual: Any, bias: Any) -> Any:
        blocks = {"block_a": (1, 128), "block_b": (128, 128)}
        made: Any = ops.scaled_matmul(
            a, ops.transpose(b), of_a, ops.transpose(of_b), precision="fast", **blocks
        )
        return ops.cast(made + residual + bias, DataType.Half)

    with knobs.scope(device="sim"):
        compiled = fuse(total).lower(*given, *beside).compile()
        result = torch.as_tensor(fuse(total)(*given, *beside))
        assert compiled.verify(schedules=2).verdict == "clean"
    assert "loaded=('T4', 'T5')" in compiled.explain()
    assert float((result.double() - wanted).abs().max()) < 0.1


def fusion_of(share: int = 128) -> FusionDefinition:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.Float8_e4m3fn) for _ in range(2))
        of_a, of_b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        made: Any = fd.ops.scaled_matmul(
            a,
            fd.ops.permute(b, [1, 0]),
            of_a,
            fd.ops.permute(of_b, [1, 0]),
            block_a=(1, share),
            block_b=(share, 128),
            precision="fast",
        )
        fd.add_output(made)
    return fd


def test_scales_come_ahead_and_sums_stay_in_registers() -> None:
    """A turn loads the next one's scales beside its products; adding up asks for no place."""
    candidate = select(fusion_of().fusion, H200)
    values = {"T0_size0": 512, "T0_size1": 1024, "T1_size0": 512, "T1_size1": 1024}
    values |= {"T2_size0": 512, "T2_size1": 8, "T3_size0": 4, "T3_size1": 8}
    params, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    kernel: Kernel = lowered(candidate.scheduled(params))
    statements = list(walk(kernel.body))
    (loop,) = [
        s
        for s in statements
        if sum(isinstance(each, Accumulate) for each in walk(getattr(s, "body", ()))) == 1
        and getattr(s, "unroll", None) is False
    ][-1:]
    inside = list(walk(loop.body))
    first = next(n for n, s in enumerate(inside) if isinstance(s, Multiply))
    loads = [n for n, s in enumerate(inside) if isinstance(s, Store) and _loads(s, {"T2", "T3"})]
    assert len(loads) >= 2
    added = next(n for n, s in enumerate(inside) if isinstance(s, Accumulate))
    assert first < min(loads) < max(loads) < added
    rows = [inside[n].buffer for n in loads if _loads(inside[n], {"T2"})]
    assert {int(buffer.size.value) for buffer in rows} == {2 * SCALE_STAGES}  # of two rows
    held = [s for s in inside if isinstance(s, If) and any(map(_adds, walk(s.body)))]
    assert not held


def _adds(statement: Any) -> bool:
    return isinstance(statement, Accumulate)


def _loads(store: Store, names: set[str]) -> bool:
    return any(getattr(getattr(e, "buffer", None), "name", "") in names for e in store.value.walk())


def test_what_is_not_multiplied_so_says_why() -> None:
    said = {
        "": fusion_of(),
        "64 elements of k share a scale, and a tile has 128 bytes of them": fusion_of(64),
    }
    for reason, fd in said.items():
        assert applicability.refusal(fd.fusion, H200) == reason


def test_integers_are_scaled_before_they_are_multiplied() -> None:
    """Sums of a block of them are no floats; threads multiply what was scaled."""
    given, _ = operands(20, 36, 256, "blocks")
    a, b = (torch.randint(-9, 9, t.shape, dtype=torch.int8) for t in given[:2])
    with knobs.scope(device="sim"):
        compiled = program("blocks", "exact").lower(a, b, *given[2:]).compile()
    assert compiled.verify(schedules=1).verdict == "clean"
    assert "scheduler   matmul_by_threads" in compiled.explain()


def test_a_scale_that_is_read_beside_is_left_alone() -> None:
    def both(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        made = ops.scaled_matmul(a, ops.transpose(b), of_a, of_b, precision="fast")
        return made + ops.sum(of_a, [1], keepdim=True)

    given, wanted = operands(70, 40, 256, "blocks")
    with knobs.scope(device="sim"):
        got = fuse(both)(*given[:3], given[3].T.contiguous())
    torch.testing.assert_close(
        got.double(), wanted + given[2].sum(1, keepdim=True), rtol=2e-2, atol=5e-1
    )
    assert given[0].dtype is E4
