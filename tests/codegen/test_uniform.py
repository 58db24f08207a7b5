"""Copies of the TMA unit are issued by whole warps, straight on: in text, and in machine code."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.support.lowered_products import SMALL, product_kernel
from tests.support.lowering import lowered
from tests.support.role_kernels import loaded_by_one_of_many, streaming
from tests.support.role_kernels import storing as storing_by_role
from tests.support.tiling import Tiling, loading, storing
from tests.support.tma_code import Issue, Lanes, tma_predicates
from warpsmith import LoadStoreOpType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import DeviceError
from warpsmith.ir import integers
from warpsmith.kernel.elected import ELECTED_WARP, ByLane, Converge, CopyIf
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Store
from warpsmith.kernel.rings import (
    ELECTED,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
    TileCopy,
)
from warpsmith.kernel.tiles import PrefetchMap
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.elect_by_warp import elect_by_warp
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Source
from warpsmith.targets.hopper import H200

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk

KERNELS: dict[str, Callable[[], Kernel]] = {
    "loaded boxes": lambda: lowered(loading(Tiling((8, 16), threads=128), stages=3)),
    "loaded runs": lambda: lowered(loading(Tiling((64,)), BULK, stages=3)),
    "stored boxes": lambda: lowered(storing(Tiling((8, 16), threads=128), stages=3)),
    "stored boxes of one stage": lambda: lowered(storing(Tiling((8, 16)), load=TMA)),
    "stored runs": lambda: lowered(storing(Tiling((64,)), BULK, load=BULK, load_stages=2)),
    "loaded by one of many": lambda: loaded_by_one_of_many().kernel,
    "single roles load": lambda: streaming(how=TMA).kernel,
    "a single role stores": lambda: storing_by_role().kernel,
    "product": lambda: product_kernel(**SMALL | {"tile": (128, 256, 64)}),
}


@cache
def text_of(name: str) -> str:
    return cuda_text(elect_by_warp(KERNELS[name]()), H200)


def issues(text: str) -> tuple[Issue, ...]:
    try:
        sass = disassemble(compile_source(Source(text=text, entry="k", arch="sm_90a")).cubin)
    except DeviceError as error:
        pytest.skip(str(error))
    found = tma_predicates(sass)
    assert found
    return found


def stores(found: tuple[Issue, ...]) -> list[Issue]:
    return [issue for issue in found if "UTMASTG" in issue.instruction]


# --- machine code ------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("name", KERNELS)
def test_copies_are_issued_once_and_straight_on(name: str) -> None:
    for issue in issues(text_of(name)):
        assert issue.is_uniform, issue
        assert not issue.instruction.startswith("@"), issue


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [name for name in KERNELS if "single" not in name])
def test_what_many_threads_wait_for_is_stored_by_a_whole_warp(name: str) -> None:
    """The loads of the product are those of a role of one thread."""
    own = [i for i in issues(text_of(name)) if name != "product" or "UTMASTG" in i.instruction]
    assert own
    assert all(issue.lanes is Lanes.WARP for issue in own)


FAULTS = {
    "a warp chosen by each lane": (("= ws_first_warp();", "= threadIdx.x < 32;"),),
    "a lane chosen by its number": (
        ("if (elected_warp)", "if (threadIdx.x == 0)"),
        ("__syncwarp();", ""),
    ),
    "the elected thread apart": (("if (elected_warp)", "if (elected)"), ("__syncwarp();", "")),
    "each lane for itself": (
        ("* 128, (int)", "* 128, (int)threadIdx.x / 4 * 4 + (int)"),
        ("elected_lane);", "true);"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_is_not_uniform_is_found(fault: str) -> None:
    """A predicate of each lane cost nvFuser 48.8 to 61.8 us a product; and a loop over lanes."""
    text = text_of("stored boxes")
    for old, new in FAULTS[fault]:
        assert old in text
        text = text.replace(old, new)
    assert not all(issue.is_uniform for issue in stores(issues(text)))


# --- statements --------------------------------------------------------------------------------


def divided(name: str) -> list[Statement]:
    return list(walk(elect_by_warp(KERNELS[name]()).body))


@pytest.mark.parametrize("name", [name for name in KERNELS if "single" not in name])
def test_every_copy_of_the_unit_is_by_lane_in_a_warp(name: str) -> None:
    statements = divided(name)
    of_one = [s for s in statements if isinstance(s, If) and s.condition == ELECTED]
    assert all(isinstance(s, PrefetchMap) for branch in of_one for s in branch.body)
    of_warps = [s for s in statements if isinstance(s, If) and s.condition == ELECTED_WARP]
    inside = [s for branch in of_warps for s in walk(branch.body)]
    asked = [s.body[0] for s in inside if isinstance(s, ByLane)]
    assert any(isinstance(s, TileCopy) for s in asked)
    others = [s for s in inside if not any(s is each for each in asked)]
    assert not any(isinstance(s, TileCopy | Expect) for s in others)
    together = Await | FenceProxy | CommitCopies | AwaitCopies
    assert not any(isinstance(s, together) for s in asked)


def test_a_copy_that_may_be_left_out_is_left_out_by_the_whole_warp() -> None:
    statements = divided("product")
    (branch,) = (s for s in statements if isinstance(s, CopyIf))
    together, copy = branch.body
    assert isinstance(together, Converge)
    assert isinstance(copy, ByLane)
    assert isinstance(copy.body[0], TileCopy)
    assert branch.condition == copy.body[0].condition != integers.TRUE


def test_what_a_warp_may_not_run_together_stays_with_the_elected_thread() -> None:
    kernel = KERNELS["stored boxes"]()
    store = next(s for s in walk(kernel.body) if isinstance(s, Store))
    body = (If(ELECTED, (store, CommitCopies(bulk=True))),)
    kept = elect_by_warp(replace(kernel, body=body))
    assert kept.body == body
