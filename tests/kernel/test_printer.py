"""The Kernel form as text: rings have words at every stage."""

import inspect

import pytest

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.kernel import pipelines, rings
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.printer import kernel_text
from warpsmith.lower.pipeline import lower
from warpsmith.targets.hopper import H200


def through_stages(load: LoadStoreOpType) -> FusionDefinition:
    """A copy through three stages on the way in and two on the way out."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, DataType.Float)
        y = fd.ops.exp(x)
        fd.add_output(y)
        cache = x.cache_after(op_type=load)
        staged = y.cache_before(op_type=LoadStoreOpType.bulk)
        for tensor in (cache, staged):
            tensor.set_memory_type(MemoryType.shared)
        y.split(-1, 64)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 1)
        cache.circular_buffer(3)
        staged.circular_buffer(2)
        y.axis(-1).parallelize(ParallelType.tma)
        if load.is_tma:
            cache.axis(-1).parallelize(ParallelType.tma)
        else:
            cache.axis(-1).parallelize(ParallelType.block_x)
        staged.axis(-1).parallelize(ParallelType.block_x)
    return fd


def texts(load: LoadStoreOpType) -> dict[str, str]:
    """The text after every stage."""
    seen: dict[str, str] = {}
    fusion = through_stages(load).fusion
    lower(
        fusion,
        "k",
        DataType.Int32,
        lambda stage, kernel: seen.update({stage: kernel_text(kernel)}),
        target=H200,
    )
    return seen


@pytest.mark.parametrize("load", [LoadStoreOpType.tma, LoadStoreOpType.cp_async])
def test_no_statement_is_printed_by_the_name_of_its_class(load: LoadStoreOpType) -> None:
    names = {
        name
        for module in (pipelines, rings)
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, Statement) and value is not Statement
    }
    for stage, text in texts(load).items():
        bare = [line for line in text.splitlines() if line.strip() in names]
        assert not bare, (stage, bare)


def test_what_guards_a_stage_is_said() -> None:
    seen = texts(LoadStoreOpType.tma)
    assert "passes T2, T3:" in seen["build"].replace("T3, T2", "T2, T3")
    assert "pipe   T2: 3 stages of T2 by the TMA unit, 2 ahead" in seen["build"]
    assert "fill T2:" in seen["build"]
    last = seen["collect_maps"]
    assert "map    T0_map0 of T0: sizes (T0_size0,), box (64,), swizzle 0" in last
    assert "arrive and expect 256 bytes at ring0_full[ring0_fill_stage]" in last
    assert "await ring0_full[ring0_use_stage] parity ring0_use_phase" in last
    assert "arrive at ring0_empty[ring0_use_stage], once a warp" in last
    assert "by tma at ring0_full[ring0_fill_stage]" in last
    assert "await bulk copies but 0 groups" in last
