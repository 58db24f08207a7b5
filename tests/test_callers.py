"""Circular buffers remember the line that asked for them."""

import inspect
from types import FrameType

from tests.support.program import Program
from warpsmith.callers import caller_line
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.rings import circular_buffer


def loaded() -> TensorView:
    p = Program()
    x = p.input(DataType.Float, (8, None))
    p.output(p.op("neg", x))
    cache = cache_after(x, op_type=LoadStoreOpType.tma)
    cache.memory = MemoryType.shared
    return cache


def here() -> int:
    """The line that asks."""
    frame = inspect.currentframe()
    assert isinstance(frame, FrameType)
    assert isinstance(frame.f_back, FrameType)
    return frame.f_back.f_lineno


def test_a_buffer_keeps_the_line_that_asked_for_it():
    tensor = loaded()
    circular_buffer(tensor, 3)
    line = here() - 1
    assert tensor.buffering is not None
    assert tensor.buffering.where == f"test_callers.py:{line}"


def test_a_later_call_replaces_the_line():
    tensor = loaded()
    circular_buffer(tensor, 3)
    first = tensor.buffering
    circular_buffer(tensor, 3)
    assert first is not None
    assert tensor.buffering is not None
    assert first == tensor.buffering, "where a ring was asked for does not make it another ring"
    assert first.where != tensor.buffering.where


def test_lines_of_the_package_are_passed_over():
    namespace = {"__name__": "warpsmith.inner", "caller_line": caller_line}
    exec(compile("def ask():\n    return caller_line()", "inner.py", "exec"), namespace)
    assert namespace["ask"]() == f"test_callers.py:{here()}"  # type: ignore[operator]


def test_names_that_only_start_like_the_package_are_the_users():
    namespace = {"__name__": "warpsmith_models", "caller_line": caller_line}
    exec(compile("def ask():\n    return caller_line()", "/some/where/model.py", "exec"), namespace)
    assert namespace["ask"]() == "model.py:2"  # type: ignore[operator]
