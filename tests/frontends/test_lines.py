"""Errors name the line of the user's program that said what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import warpsmith
from tests.test_callers import here
from warpsmith import ops
from warpsmith.errors import ArgumentError, DefinitionError, WarpsmithError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType


def refused(call: Callable[[], object], code: str) -> WarpsmithError:
    with pytest.raises(WarpsmithError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def at(error: WarpsmithError, line: int) -> bool:
    assert error.line == (__file__, line)
    return str(error).endswith(f" (at test_lines.py:{line})")


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


BAD = (
    (lambda x: x + "1", "WS0112"),
    (lambda x: x & 1, "WS0118"),
    (lambda x: ops.sum(x, [7]), "WS0115"),
    (lambda x: x.mean([0, 0]), "WS0116"),
    (lambda x: ops.permute(x, [0]), "WS0137"),
    (lambda x: ops.reshape(x, [-1, -1]), "WS0139"),
    (lambda x: ops.squeeze(x, [0]), "WS0136"),
    (lambda x: ops.expand(x, [4]), "WS0133"),
    (lambda x: ops.full([-2], 1.0, fusion=x.fusion), "WS0131"),
    (lambda x: ops.clamp(x), "WS0119"),
    (lambda x: 2**70 * x, "WS0111"),
)


@pytest.mark.parametrize(("body", "code"), BAD, ids=[code for _, code in BAD])
def test_a_wrong_operation_of_a_traced_function(body: Any, code: str) -> None:
    error = refused(lambda: warpsmith.fuse(lambda x: body(x) + 1)(floats(2, 3)), code)
    assert isinstance(error, DefinitionError)
    assert at(error, body.__code__.co_firstlineno)


def test_the_innermost_line_is_named() -> None:
    def inner(x: Any) -> Any:
        return x + ops.full([5], 1.0, fusion=x.fusion) + ops.full([4], 1.0, fusion=x.fusion)

    @warpsmith.fuse
    def outer(x: Any) -> Any:
        y = x * 2
        return inner(y)

    error = refused(lambda: outer(floats(2, 5)), "WS0121")
    assert at(error, inner.__code__.co_firstlineno + 1)


def test_a_wrong_definition() -> None:
    with FusionDefinition() as fd:
        for wrong, code in (
            (lambda: fd.define_tensor([-2]), "WS0151"),
            (lambda: fd.define_tensor([-1], contiguity=[True, True]), "WS0152"),
            (lambda: fd.ops.nonsense, "WS0102"),
            (lambda: fd.define_scalar("one"), "WS0112"),
        ):
            assert at(refused(wrong, code), wrong.__code__.co_firstlineno)


def test_sizes_that_do_not_agree_in_a_call() -> None:
    @warpsmith.fuse
    def scaled(x: Any, weight: Any) -> Any:
        y = x * 2
        return y * weight

    error = refused(lambda: scaled(floats(4, 8), floats(7)), "WS0312")
    assert at(error, scaled._function.__code__.co_firstlineno + 3)
    assert "mul reads both" in str(error)
    assert np.array_equal(scaled(floats(4, 8), floats(8)), floats(4, 8) * 2)


def agreements() -> tuple[FusionDefinition, int]:
    """Inputs of every demand, and the line before the first of them."""
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1, -1]), fd.define_tensor([-1, -1])
        first = here()
        fd.add_output(fd.ops.expand(x, [y.size(0), 3]))
        fd.add_output(fd.ops.reshape(y, [-1, 4]))
        fd.add_output(fd.ops.max(x, [0]))
    return fd, first


@pytest.mark.parametrize(
    ("shapes", "code", "offset"),
    [
        (((2, 3), (4, 4)), "WS0312", 1),
        (((2, 3), (2, 3)), "WS0311", 2),
        (((0, 3), (0, 4)), "WS0316", 3),
    ],
)
def test_what_operations_ask_of_sizes(shapes: Any, code: str, offset: int) -> None:
    fd, first = agreements()
    error = refused(lambda: fd.execute([floats(*shape) for shape in shapes]), code)
    assert isinstance(error, ArgumentError)
    assert at(error, first + offset)


def test_sizes_that_must_not_be_0_are_named_with_what_needs_them() -> None:
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1]), fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.reshape(x, [-1, y.size(0)]))
        fd.add_output(fd.ops.max(y, [1]))
    parts = "dimension 0 of argument 1 (T1) is 0, and must not be: T0 is reshaped; pass arrays that"
    nothing = "dimension 1 of argument 1 (T1) is 0, and must not be: max of nothing has no value; "
    for shapes, says in (((0,), (0, 2)), parts), (((4,), (0, 2)), parts), (((4,), (2, 0)), nothing):
        error = refused(lambda shapes=shapes: fd.execute([floats(*s) for s in shapes]), "WS0316")
        assert says in str(error)


def test_arguments_that_are_not_as_defined() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 5], contiguity=True)
        line = here() - 1
        fd.add_output(fd.ops.neg(x))
    wrong: tuple[tuple[object, str], ...] = (
        (3.0, "WS0302"),
        (np.ones((2, 5), np.int32), "WS0303"),
        (floats(5), "WS0305"),
        (floats(2, 4), "WS0306"),
        (floats(2, 5)[::-1], "WS0307"),
        (floats(5, 2).T, "WS0308"),
        (np.ones((2, 5), np.complex64), "WS0300"),
        (np.frombuffer(bytearray(41), np.float32, offset=1).reshape(2, 5), "WS0320"),
    )
    for given, code in wrong:
        assert at(refused(lambda given=given: fd.execute([given]), code), line)


@pytest.mark.parametrize(
    ("shape", "stride_order", "dtype", "words"),
    [
        ([-1, -1], None, DataType.Half, "of dtype Half, and has dtype Float"),
        ([-1], None, DataType.Float, "of shape"),
        ([-1, 6], None, DataType.Float, "of shape"),
        ([-1, 5], [0, 1], DataType.Float, r"lie in the order \(1, 0\)"),
    ],
    ids=["type", "rank", "size", "layout"],
)
def test_an_alias_of_another_kind(shape: Any, stride_order: Any, dtype: Any, words: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 5])
        target = fd.define_tensor(shape, dtype=dtype, stride_order=stride_order)
        result = fd.ops.stride_order(x, [1, 0])
        with pytest.raises(DefinitionError, match=words) as caught:
            fd.add_output(result, alias_input=target)
        assert at(caught.value, here() - 1)


def test_an_alias_of_another_size_in_a_call() -> None:
    with FusionDefinition() as fd:
        x, target = fd.define_tensor([-1]), fd.define_tensor([-1])
        fd.add_output(fd.ops.neg(x), alias_input=target)
        line = here() - 1
    for call in (fd.verify, fd.execute):  # the former looks at a copy
        error = refused(lambda call=call: call([floats(3), floats(4)]), "WS0312")
        assert at(error, line)
        assert "the output is written into that input" in str(error)


def test_an_alias_whose_elements_share_memory() -> None:
    with FusionDefinition() as fd:
        x, target = fd.define_tensor([-1, -1]), fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.neg(x), alias_input=target)
        line = here() - 1
    assert at(
        refused(lambda: fd.execute([floats(3, 4), torch.ones(4).expand(3, 4)]), "WS0317"), line
    )
    into = torch.ones(4).expand(1, 4)
    fd.execute([floats(1, 4), into])
    assert torch.equal(into, -torch.ones(1, 4))


def test_lines_of_torch_are_passed_over() -> None:
    """As where a gradient is computed in a backward pass that torch calls."""
    fused = warpsmith.fuse(lambda x: x + "1")
    space: dict[str, Any] = {"__name__": "torch.autograd.function", "fused": fused}
    exec(compile("def apply(x):\n    return fused(x)", "function.py", "exec"), space)
    error = refused(lambda: space["apply"](floats(2)), "WS0112")
    assert at(error, fused._function.__code__.co_firstlineno)
    space["fused"] = warpsmith.fuse(lambda x: 3)
    error = refused(lambda: space["apply"](floats(2)), "WS0104")
    assert at(error, here() - 1)
