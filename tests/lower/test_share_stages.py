"""Chunks behind a product that come through the stages of its operands, and which do not."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.test_prefetch_tiles import SIZES, M, N, asked, kernel_with
from tests.support.binaries import uncompiled
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import PrefetchTile
from warpsmith.lower.passes.share_stages import share_stages

SHARED: dict[str, Any] = {"tile": (128, 128, 64), "stages": 3, "blocks": 3, "load_stages": 0}


def test_operands_and_chunks_have_one_pipeline() -> None:
    """The residual lies where the second operand did, and its loads follow that one's."""
    kernel = kernel_with("lower_pipelines", **SHARED)
    (ring,) = kernel.pipelines  # of those with barriers
    assert (ring.stages, ring.producer, ring.consumers) == (3, "load", ("compute",))
    agents = [s.agent.name for s in kernel.body if isinstance(s, Branch)]
    assert agents == ["load", "compute"]
    body = next(s.body for s in kernel.body if isinstance(s, Branch))
    boxes = list(asked(body, {**SIZES, "grid_x": 0, **_cursor()}))
    tiles = -(-(-(-M // 128) * -(-N // 128)) // 3)
    of_tile = [memory for _, memory, _, _ in boxes][: len(boxes) // tiles]
    steps = SIZES["T0_size1"] // 64
    assert of_tile == ["T0", "T1"] * steps + ["T2"] * 4


def test_two_parts_of_a_tile_are_read_from_one_stage() -> None:
    kernel = kernel_with("lower_pipelines", **SHARED | {"tile": (256, 160, 64), "passes": 2})
    (ring,) = kernel.pipelines
    assert (ring.stages, len(ring.contents)) == (3, 2)


def test_the_l2_is_asked_for_all_of_them() -> None:
    """No stage is free for any before the last steps."""
    kernel = kernel_with(**SHARED)
    body = next(s.body for s in kernel.body if isinstance(s, Branch))
    found = list(asked(body, {**SIZES, "grid_x": 1, **_cursor()}))
    ahead = [box for kind, _, box, _ in found if kind is PrefetchTile]
    assert ahead == [box for kind, memory, box, _ in found if kind is TileCopy and memory == "T2"]


@pytest.mark.parametrize(
    "given",
    [
        {"cluster": (2, 1), "blocks": 4},
        {"tile": (64, 128, 64), "ping_pong": 2, "stages": 4},
        {"tile": (128, 32, 64)},
        {"beside": DataType.Float},
        {"load_stages": 2},
    ],
    ids=["clusters", "turns", "one chunk", "another type", "stages of their own"],
)
def test_others_stay_apart(given: dict[str, Any]) -> None:
    kernel = kernel_with("exchange_parts", **SHARED | given)
    assert share_stages(kernel) is kernel
    assert kernel_with("share_stages", **SHARED | given) == kernel


def _cursor() -> dict[str, int]:
    return {"ring0_load_stage": 0, "ring0_load_phase": 0}


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_what_is_computed_of_a_chunk_alone_comes_behind_the_product_too() -> None:
    """Stages have one order for who fills and who uses them, whatever the program says first."""

    def gated(r: Any, x: Any, w: Any) -> Any:
        return (ops.silu(r.to(DataType.Float)) * ops.linear(x, w)).to(r.dtype)

    shapes = (2048, 4096), (2048, 4096), (4096, 4096)
    arrays = [np.empty(shape, ml_dtypes.bfloat16) for shape in shapes]
    with knobs.scope(target="h200"), uncompiled():
        executable = Executable(fuse(gated).lower(*arrays).fusion)
        (launch,) = executable.plan_for(arrays).launches
    assert launch.params.shares
