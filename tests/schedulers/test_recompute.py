"""Which stages compute what of a row: what is decided is what is then done."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.rows.recompute import Run, recompute, runs_of
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

FLOAT, BFLOAT16 = DataType.Float, DataType.BFloat16


def normalized(dtype: DataType) -> Fusion:
    """`y = (x - max(x)) / sum(|x|)`: three stages, of which the first two need `x` alone."""
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    most = p.broadcast(p.reduce("max", x, [1]), [False, True])
    total = p.broadcast(p.reduce("sum", p.op("abs", p.op("sub", x, most)), [1]), [False, True])
    y = p.op("div", p.op("sub", x, most), total)
    return p.output(p.cast(y, dtype)).fusion


def softmax(dtype: DataType) -> Fusion:
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    e = p.op("exp", p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))
    return p.output(p.op("div", e, p.broadcast(p.reduce("sum", e, [1]), [False, True]))).fusion


def prepared(fusion: Fusion) -> Candidate:
    candidate = select(fusion, H200)
    assert candidate.scheduler == "inner_persistent"
    return candidate


def copies(runs: Iterable[Run]) -> Counter[int]:
    """How many tensors each stage computes."""
    return Counter(stage for run in runs for stage in run.stages)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT, BFLOAT16])
@pytest.mark.parametrize("program", [normalized, softmax])
def test_each_stage_computes_what_was_decided(
    program: object, dtype: DataType, again: bool
) -> None:
    assert callable(program)
    fusion = prepared(program(dtype)).fusion
    decided = runs_of(fusion, again=again)
    draft = fusion.draft()
    recompute(draft, runs_of(draft, again=again))
    found = runs_of(draft, again=again)
    assert all(len(run.stages) == 1 for run in found.values())
    assert copies(found.values()) == copies(decided.values())
    assert len(draft.operations) == sum(copies(decided.values()).values())


def of(fusion: Fusion, op: str) -> TensorView:
    """The first result of an operation of that name."""
    return next(o.outputs[0] for o in fusion.operations if getattr(o, "op", "") == op)


def test_16_bits_are_widened_again_and_floats_stay() -> None:
    narrow, wide = (prepared(normalized(dtype)).fusion for dtype in (BFLOAT16, FLOAT))
    assert runs_of(narrow, again=False)[of(narrow, "cast")].stages == (0, 1, 2)
    assert all(
        len(run.stages) == 1
        for t, run in runs_of(wide, again=False).items()
        if t is of(wide, "set")
    )


def test_exponentials_are_computed_again_only_if_asked_for() -> None:
    fusion = prepared(softmax(BFLOAT16)).fusion
    exponential = of(fusion, "exp")
    assert runs_of(fusion, again=False)[exponential] == Run((1,), frozenset((1, 2)))
    assert runs_of(fusion, again=True)[exponential].stages == (1, 2)


def test_what_is_there_in_any_case_is_read_again() -> None:
    fusion = prepared(softmax(FLOAT)).fusion
    loaded, difference = of(fusion, "set"), of(fusion, "sub")
    assert runs_of(fusion, again=True)[difference].stages == (1,)
    assert runs_of(fusion, again=True, there=[loaded])[of(fusion, "exp")].stages == (1, 2)


def test_a_part_is_computed_again_for_itself_alone() -> None:
    """What others read of it stays the tensor that it was."""
    p = Program()
    given = p.input(BFLOAT16, (None, None))
    x = p.cast(given, FLOAT)
    total = p.broadcast(p.reduce("sum", x, [1]), [False, True])
    difference, outside = p.op("sub", x, total), p.op("neg", x)
    fusion = p.output(difference, outside).fusion
    cache_after(given)
    assert outside.definition is not None
    runs = runs_of(fusion.without([outside.definition]), again=False)
    assert runs[x].stages == (0, 1)
    assert outside not in runs
    recompute(fusion, runs)
    assert fusion.producers(outside) == (x,)
    assert fusion.producers(difference)[0] is not x
