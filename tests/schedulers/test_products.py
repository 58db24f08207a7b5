"""Products are cut into segments of their own, read operands as they lie, and are computed once."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.launching import reference
from tests.support.program import Program
from warpsmith.errors import SchedulerRefusal
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Pointwise, replace_tensor
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import is_rfactored
from warpsmith.planner import segment as segmenting
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.candidate import Refusals
from warpsmith.schedulers.rewrite import rewrite
from warpsmith.schedulers.select import refusals
from warpsmith.schedulers.table import SCHEDULERS
from warpsmith.targets.hopper import H200
from warpsmith.targets.target import Target

BFLOAT, FLOAT = DataType.BFloat16, DataType.Float
MATRIX = (None, None)
SIZE = 6


def epilogue_only(fusion: Fusion) -> str:
    """What a scheduler of one product, of inputs, with pointwise work on one result would say."""
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    if len(products) != 1:
        return f"it has {len(products)} products"
    (product,) = products
    if any(tensor.definition is not None for tensor in (product.a, product.b)):
        return "it computes operands"
    others = [op for op in fusion.operations if op is not product]
    if not all(isinstance(op, Pointwise) for op in others):
        return "not everything after the product is pointwise"
    return "it has several results" if len(fusion.outputs) > 1 else ""


@pytest.fixture(autouse=True)
def _schedules_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the matmul scheduler, so that what is cut depends on no progress of it."""
    monkeypatch.setattr(segmenting, "refusals", _asked)


def _asked(fusion: Fusion, target: Target, without: Refusals = ()) -> Refusals:
    others = tuple(
        (kind.scheduler, kind.refusal(fusion, target))
        for kind in SCHEDULERS
        if not kind.scheduler.startswith("matmul")
    )
    return (*others, ("matmul", epilogue_only(fusion)))


def operands(p: Program, count: int = 2) -> list[TensorView]:
    return [p.input(BFLOAT, MATRIX) for _ in range(count)]


def of_two() -> tuple[Program, TensorView, TensorView]:
    p = Program()
    a, b = operands(p)
    return p, a, b


def kinds(parts: Iterable[Segment]) -> list[str]:
    """Which scheduler takes each segment."""
    return [next(name for name, reason in part.refusals if not reason) for part in parts]


def arrays(fusion: Fusion) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {t.name: rng.uniform(-2, 2, (SIZE,) * t.rank) for t in fusion.input_tensors}


def check(fusion: Fusion) -> list[str]:
    """Segments, run one after the other, give what the whole does; which scheduler takes each."""
    known = arrays(fusion)
    wanted = reference(fusion, known, {})
    parts = cut(fusion, target=H200)
    for part in parts:
        known.update(reference(part.fusion, {name: known[name] for name in part.inputs}, {}))
    for output in fusion.outputs:
        np.testing.assert_allclose(known[output.value.name], wanted[output.value.name], rtol=1e-12)
    made = [op for part in parts for op in part.fusion.operations if isinstance(op, Matmul)]
    assert len(made) == sum(isinstance(op, Matmul) for op in fusion.operations)
    return kinds(parts)


def test_a_product_and_its_cast_are_one_segment() -> None:
    p, a, b = of_two()
    p.output(p.cast(p.matmul(a, b), BFLOAT))
    assert check(p.fusion) == ["matmul"]


def test_so_is_a_pointwise_epilogue_that_reads_other_inputs() -> None:
    p = Program()
    a, b, c = operands(p, 3)
    total = p.op("add", p.op("tanh", p.matmul(a, b)), p.cast(c, FLOAT))
    p.output(p.cast(total, BFLOAT))
    assert check(p.fusion) == ["matmul"]


def test_operands_that_are_computed_go_through_memory() -> None:
    p, a, b = of_two()
    hidden = p.cast(p.op("exp", a), BFLOAT)
    p.output(p.cast(p.matmul(hidden, b), BFLOAT))
    assert check(p.fusion) == ["pointwise", "matmul"]
    assert cut(p.fusion, target=H200)[1].inputs == (hidden.name, b.name)


def test_computed_operands_are_written_row_major_where_tensor_cores_take_that() -> None:
    p, a, b = of_two()
    left, right = (p.cast(p.op("exp", tensor), BFLOAT) for tensor in (a, b))
    p.output(p.cast(p.matmul(left, right), BFLOAT))
    assert check(p.fusion) == ["side_by_side", "matmul"]
    product = cut(p.fusion, target=H200)[-1].fusion.operations[0]
    assert [t.memory_order() for t in product.inputs] == [(0, 1), (0, 1)]


def test_others_are_written_with_the_summed_dimension_fastest() -> None:
    """Tensor cores read 8-bit values along k alone."""
    p, a, b = of_two()
    left, right = (p.cast(p.op("exp", tensor), DataType.Float8_e4m3fn) for tensor in (a, b))
    p.output(p.cast(p.matmul(left, right), BFLOAT))
    product = cut(p.fusion, target=H200)[-1].fusion.operations[0]
    assert [t.memory_order() for t in product.inputs] == [(0, 1), (1, 0)]


def test_an_operand_that_is_a_result_too_lies_as_results_do() -> None:
    p, a, b = of_two()
    right = p.cast(p.op("exp", b), BFLOAT)
    p.output(p.cast(p.matmul(a, right), BFLOAT), right)
    assert check(p.fusion) == ["pointwise", "matmul"]
    assert all(
        o.value.memory_order() == (0, 1)
        for s in cut(p.fusion, target=H200)
        for o in s.fusion.outputs
    )


def test_products_of_products_go_through_memory_rounded() -> None:
    p = Program()
    a, b, c = operands(p, 3)
    inner = p.cast(p.op("tanh", p.matmul(a, b)), BFLOAT)
    p.output(p.cast(p.matmul(inner, c), BFLOAT))
    assert check(p.fusion) == ["matmul", "matmul"]
    assert cut(p.fusion, target=H200)[0].outputs == (inner.name,)


def test_sums_of_products_are_computed_with_the_second() -> None:
    p = Program()
    a, b, c = operands(p, 3)
    p.output(p.cast(p.op("add", p.matmul(a, b), p.matmul(b, c)), BFLOAT))
    assert check(p.fusion) == ["matmul", "matmul"]


def test_a_reduction_of_a_product_reads_it_from_memory() -> None:
    p, a, b = of_two()
    p.output(p.reduce("sum", p.op("exp", p.matmul(a, b)), [1]))
    assert check(p.fusion) == ["matmul", "reduction"]


def test_a_product_of_what_was_reduced() -> None:
    p = Program()
    x, b = p.input(BFLOAT, (None,) * 3), p.input(BFLOAT, MATRIX)
    total = p.reduce("sum", x, [0])
    p.output(p.cast(p.matmul(total, b), BFLOAT), total)
    assert check(p.fusion) == ["reduction", "matmul"]


def test_two_results_of_a_product_compute_it_once() -> None:
    p, a, b = of_two()
    product = p.matmul(a, b)
    p.output(p.cast(product, BFLOAT), p.op("exp", product))
    assert check(p.fusion) == ["matmul", "pointwise"]
    assert cut(p.fusion, target=H200)[0].outputs == (product.name,)


def test_a_product_with_several_results_takes_the_scheduler_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked(fusion: Fusion, target: Target, without: Refusals = ()) -> Refusals:
        *others, (name, reason) = _asked(fusion, target)
        wide = any(isinstance(o.value.definition, Matmul) for o in fusion.outputs)
        return (
            *others,
            (name, reason or ("it is in float" if wide else "")),
            ("matmul_by_threads", ""),
        )

    monkeypatch.setattr(segmenting, "refusals", asked)
    p = Program()
    product = p.matmul(*operands(p))
    p.output(p.cast(product, BFLOAT), p.op("exp", product))
    assert check(p.fusion) == ["matmul_by_threads"]


def test_what_is_widened_after_a_product_reads_it_from_memory() -> None:
    p, a, b = of_two()
    product = p.matmul(a, b)
    wide = p.expand(p.broadcast(product, [True, False, False]), 0, a.shape_axes[0].extent)
    p.output(wide)
    assert check(p.fusion) == ["matmul", "pointwise"]


def test_a_permuted_result_that_no_epilogue_takes_goes_through_memory() -> None:
    p, a, b = of_two()
    p.output(p.permute(p.matmul(a, b), [1, 0]))
    assert check(p.fusion) == ["matmul", "pointwise"]


def test_what_no_scheduler_takes_is_named() -> None:
    p, a, b = of_two()
    product = p.matmul(a, b)
    p.output(product)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmenting, "refusals", lambda f, target, without: (("matmul", "not today"),))
        with pytest.raises(SchedulerRefusal, match=rf"{product.name} \(matmul: not today\)"):
            cut(p.fusion, target=H200)


def test_the_other_schedulers_refuse_products() -> None:
    p, a, b = of_two()
    p.output(p.matmul(a, b))
    said = dict(refusals(p.fusion, H200))
    assert said["pointwise"] == said["reduction"] == "it has a matrix product"
    p = Program()
    p.output(p.op("exp", p.input(FLOAT, MATRIX)))
    assert dict(refusals(p.fusion, H200))["matmul"] == "it has no matrix product"


def rewritten(p: Program) -> Matmul:
    """The product after `rewrite`, which keeps what the program computes."""
    known = arrays(p.fusion)
    name = p.fusion.outputs[0].value.name
    wanted = reference(p.fusion, known, {})[name]
    rewrite(p.fusion)
    np.testing.assert_array_equal(reference(p.fusion, known, {})[name], wanted)
    return next(op for op in p.fusion.operations if isinstance(op, Matmul))


def test_permuted_operands_are_read_as_they_lie() -> None:
    p, a, b = of_two()
    p.output(p.matmul(p.permute(a, [1, 0]), p.permute(p.permute(b, [1, 0]), [1, 0])))
    product = rewritten(p)
    assert (product.a is a, product.b is b) == (True, True)
    assert product.axes == ((2, 0), (2, 1))
    assert check(p.fusion) == ["matmul"]


def test_a_rewritten_product_keeps_its_precision() -> None:
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, -1], dtype=FLOAT) for _ in range(2))
        fd.add_output(fd.ops.matmul(x, fd.ops.transpose(w), precision="tf32"))
    rewrite(fd.fusion)
    (product,) = [op for op in fd.fusion.operations if isinstance(op, Matmul)]
    assert product.axes == ((0, 2), (1, 2))
    assert product.precision == "tf32"
    (copied,) = [op for op in fd.fusion.draft().operations if isinstance(op, Matmul)]
    assert replace_tensor(copied, copied.a, copied.b).precision == "tf32"


def test_a_tensor_times_its_transpose_reads_a_copy() -> None:
    p = Program()
    a = p.input(BFLOAT, MATRIX, stride_order=[0, 1])
    p.output(p.matmul(a, p.permute(a, [1, 0])))
    product = rewritten(p)
    assert product.a is a
    assert isinstance(product.b.definition, Pointwise)
    assert product.b.stride_order == (0, 1)
    assert product.axes == ((0, 2), (1, 2))
    assert check(p.fusion) == ["pointwise", "matmul"]


def test_a_cast_after_a_permutation_comes_before_it() -> None:
    p, a, b = of_two()
    wide = p.op("exp", b)
    known = p.cast(wide, BFLOAT)
    p.output(p.cast(p.matmul(a, p.cast(p.permute(wide, [1, 0]), BFLOAT)), BFLOAT))
    product = rewritten(p)
    assert product.b is known
    assert product.axes == ((0, 2), (1, 2))
    p = Program()
    a, b = p.input(BFLOAT, MATRIX), p.input(FLOAT, MATRIX)
    p.output(p.cast(p.matmul(a, p.cast(p.permute(b, [1, 0]), BFLOAT)), BFLOAT))
    made = rewritten(p).b.definition
    assert isinstance(made, Pointwise)
    assert (made.op, made.inputs[0] is b) == ("cast", True)
    assert check(p.fusion) == ["pointwise", "matmul"]


def test_a_product_that_reads_nothing_permuted_stays() -> None:
    p, a, b = of_two()
    before = p.matmul(a, b).definition
    p.output(before.output)
    rewrite(p.fusion)
    assert p.fusion.operations == [before]


STEPS = ("matmul", "matmul", "exp", "add", "permute", "row sums", "cast")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), max_size=8)
)
def test_whatever_products_feed_is_computed_by_segments_in_order(
    steps: list[tuple[str, int, int]],
) -> None:
    p = Program()
    made = operands(p)
    for step, first, second in steps:
        x, y = made[first % len(made)], made[second % len(made)]
        match step:
            case "matmul":
                a, b = p.cast(x, BFLOAT), p.cast(y, BFLOAT)
                made.append(p.matmul(a, p.copy(b) if a is b else b))
            case "exp":
                made.append(p.op("tanh", p.cast(x, FLOAT)))
            case "add":
                made.append(p.op("add", p.cast(x, FLOAT), p.cast(y, FLOAT)))
            case "permute":
                made.append(p.permute(x, [1, 0]))
            case "row sums":
                total = p.broadcast(p.reduce("sum", p.cast(x, FLOAT), [1]), [False, True])
                made.append(p.op("add", p.cast(y, FLOAT), total))
            case "cast":
                made.append(p.cast(p.cast(x, FLOAT), BFLOAT))
    results = [t for t in made if not t.is_input and not p.fusion.uses(t)]
    p.output(*results)
    if results:
        rewrite(p.fusion)
        try:
            ends = [o.value for part in cut(p.fusion, target=H200) for o in part.fusion.outputs]
            assume(not any(map(is_rfactored, ends)))  # sums that blocks leave have no meaning alone
            check(p.fusion)
        except SchedulerRefusal as refusal:
            if "two dimensions of" not in refusal.message:
                raise
