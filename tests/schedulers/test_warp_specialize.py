"""The doors by which roles are asked for in kernels of rows, and what is refused there."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.programs.judge import plan_only
from tests.support.norms_backward import Case, layer_norm_backward, rms_norm_backward
from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.errors import KnobError, SchedulerRefusal

ROLE = "role        load: copy, warp 0, one thread"


def explained(asked: Any, columns: int = 1024, dtype: str = "bfloat16") -> str:
    case = Case((40, columns), dtype)
    fused = warpsmith.fuse(rms_norm_backward, warp_specialize=asked)
    return str(fused.lower(*case.inputs(rms_norm_backward)).compile().explain())


def without_times(text: str) -> list[str]:
    return [line for line in text.splitlines() if "predicted" not in line]


@pytest.mark.usefixtures("uncompiled")
def test_a_forced_choice_is_obeyed() -> None:
    assert ROLE in explained(True)
    assert "role  " not in explained(False)
    auto, *forced = (without_times(explained(asked)) for asked in ("auto", True, False))
    assert auto in forced


def test_the_knob_decides_where_the_call_does_not() -> None:
    with knobs.scope(warp_specialize=True):
        assert ROLE in explained(None)
        assert ROLE not in explained(False)
    with pytest.raises(KnobError, match="auto, 1, true"):
        knobs.Knobs(warp_specialize="often")  # type: ignore[arg-type]
    assert knobs.Knobs.from_environment({"WARPSMITH_WARP_SPECIALIZE": "on"}).warp_specialize is True


def test_calls_of_one_function_follow_the_scope_that_they_are_made_in() -> None:
    case = Case((5, 256), "float32")
    fused = warpsmith.fuse(layer_norm_backward)
    inputs = case.inputs(layer_norm_backward)
    with knobs.scope(device="sim"):
        before = fused(*inputs)
    with knobs.scope(device="sim", warp_specialize=True):
        after = fused(*inputs)
    for one, other, expected in zip(before, after, case.expected(layer_norm_backward), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-5)
        np.testing.assert_allclose(other, expected, case.relative, 1e-4)


def test_a_decorator_with_arguments() -> None:
    @warpsmith.fuse(warp_specialize=False)
    def doubled(x: Any) -> Any:
        return x + x

    x = np.arange(8, dtype=np.float32)
    with knobs.scope(device="sim"):
        np.testing.assert_array_equal(doubled(x), 2 * x)


def defined() -> FusionDefinition:
    """RMSNorm backward in nvFuser's words."""
    with FusionDefinition() as fd:
        x, dy = (fd.define_tensor([-1, -1], True, DataType.Float) for _ in range(2))
        weight = fd.define_tensor([-1], True, DataType.Float)
        scale = fd.define_tensor([-1, 1], True, DataType.Float)
        dx, summed = rms_norm_backward(x, dy, weight, scale)  # type: ignore[arg-type]
        fd.add_output(dx)
        fd.add_output(summed)
    return fd


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"warp_specialize": True}, True),
        ({"_enable_options": ["ws_normalization"]}, True),
        ({"_disable_options": ["ws_normalization"]}, False),
        ({"_enable_options": ["ws_normalization"], "warp_specialize": False}, False),
    ],
)
def test_nvfuser_spelling(asked: dict[str, Any], found: bool) -> None:
    case = Case((5, 256), "float32")
    fd = defined()
    with knobs.scope(device="sim"):
        results = fd.execute(list(case.inputs(rms_norm_backward)), **asked)
    assert (ROLE in fd.explain()) == found
    for result, expected in zip(results, case.expected(rms_norm_backward), strict=True):
        np.testing.assert_allclose(result, expected, case.relative, 1e-4)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_and_none(rows: int) -> None:
    case = Case((max(rows, 1), 256), "float32")
    inputs = list(case.inputs(rms_norm_backward))
    if not rows:
        inputs = [np.ascontiguousarray(x[:rows]) if x.ndim == 2 else x for x in inputs]
    fd = defined()
    with knobs.scope(device="sim"):
        results = fd.execute(inputs, warp_specialize=True)
    assert ROLE in fd.explain()
    expected = case.expected(rms_norm_backward) if rows else [case.x[:0], np.zeros(256)]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, case.relative, 1e-4)


@pytest.mark.parametrize(
    ("columns", "dtype", "words"),
    [
        (32768, "bfloat16", "two stages of 131072 bytes do not fit in shared memory"),
        (24576, "bfloat16", "rows of 24576 elements and their sums would spill"),
    ],
)
def test_rows_that_no_role_can_load(columns: int, dtype: str, words: str) -> None:
    inputs = Case((3, columns), dtype).inputs(layer_norm_backward)
    lowered = warpsmith.fuse(layer_norm_backward, warp_specialize=True).lower(*inputs)
    with pytest.raises(SchedulerRefusal, match="WS0401") as found:
        lowered.compile()
    assert words in str(found.value)


def test_inputs_that_the_tma_unit_cannot_read() -> None:
    case = Case((3, 1025), "float32")
    inputs = list(case.inputs(rms_norm_backward))
    inputs[0] = case.x.reshape(-1)[1 : 1 + 3 * 1024].reshape(3, 1024)
    inputs[1], inputs[2] = np.ascontiguousarray(case.dy[:, :1024]), case.weight[:1024].copy()
    fused = warpsmith.fuse(rms_norm_backward, warp_specialize=True)
    with pytest.raises(SchedulerRefusal, match="T0 is not contiguous, or not aligned to 16 bytes"):
        fused.lower(*inputs).compile()


def test_one_row_is_nothing_to_loop_over() -> None:
    x = np.ones((1, 1024), np.float32)
    fused = warpsmith.fuse(lambda x: x / ops.sum(x, [-1], keepdim=True), warp_specialize=True)
    with pytest.raises(SchedulerRefusal, match="inner_persistent: all is one row"):
        fused.lower(x).compile()


def test_what_has_no_rows() -> None:
    x = np.ones((4, 8), np.float32)
    fused = warpsmith.fuse(lambda x: ops.exp(x), warp_specialize=True)
    with pytest.raises(SchedulerRefusal, match="inner_persistent: it does not reduce"):
        fused.lower(x).compile()


def test_columns_that_fit_in_no_registers_were_not_scheduled_by_hand() -> None:
    x = np.ones((100352, 8), np.float32)
    with FusionDefinition() as fd:
        columns = fd.define_tensor([-1, -1], True)
        fd.add_output(columns / fd.ops.sum(columns, [0], keepdim=True))
    with (
        knobs.scope(warp_specialize=True),
        pytest.raises(SchedulerRefusal, match="inner_persistent: T1 reduces dimensions that are"),
    ):
        plan_only(fd, [x])


def test_a_schedule_by_hand_is_left_alone() -> None:
    fd = defined()
    with (
        knobs.scope(warp_specialize=True),
        pytest.raises(SchedulerRefusal, match="the schedule was laid by hand"),
    ):
        fd.manual_execute(list(Case((5, 256), "float32").inputs(rms_norm_backward)))


@pytest.mark.usefixtures("uncompiled")
def test_what_was_compared_is_explained() -> None:
    both = explained("auto", 8192)
    assert "predicted   waves " in both
    assert "a role that loads " in both
    forced = explained(True, 8192)
    assert "predicted   a role that loads " in forced
    assert "waves " not in forced.split("predicted")[1].splitlines()[0]


def test_rows_that_lie_across_an_input_are_not_loaded_by_a_role() -> None:
    """One copy brings elements that follow each other; those of a row do not, in the second."""

    def across(x: Any, y: Any) -> Any:
        v = ops.neg(x) + ops.permute(y, [1, 0])
        return v / ops.sum(v, [1], keepdim=True)

    x, y = np.ones((40, 1024), np.float32), np.ones((1024, 40), np.float32)
    with pytest.raises(SchedulerRefusal, match="T1 does not have its rows along its fastest"):
        warpsmith.fuse(across, warp_specialize=True).lower(x, y).compile()
