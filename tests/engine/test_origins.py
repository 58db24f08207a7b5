"""Lines of CUDA know the lines of Python that they are there for."""

from pathlib import Path
from typing import Any

import numpy as np

import warpsmith
from tests.support.compiling import compiled
from warpsmith import FusionDefinition, ParallelType, ops
from warpsmith.engine.classes import launched
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.origins import CudaLine, cuda_lines
from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.lines import lines_of, own_lines
from warpsmith.knobs import current
from warpsmith.planner.segment import Segment
from warpsmith.targets.hopper import H200

HERE = Path(__file__)


def line_with(words: str) -> int:
    """The line of this file that has these words first."""
    return next(n for n, text in enumerate(HERE.read_text().splitlines(), 1) if words in text)


def normed(x: Any) -> Any:
    squares = ops.mean(x * x, [1], keepdim=True)  # squares
    return x * ops.rsqrt(squares + 1e-5)  # normed


def beside(x: Any, w: Any, bias: Any) -> Any:
    product = ops.linear(x, w)  # multiplied
    return ops.silu(product + bias)  # behind


def texts(call: CallPlan) -> list[tuple[CudaLine, ...]]:
    return [cuda_lines(planned, launch) for planned, launch in launched(call) if launch]


def numbers(line: CudaLine) -> set[int]:
    assert {file for file, _ in line.lines} <= {str(HERE)}
    return {number for _, number in line.lines}


def test_each_operation_has_its_line_and_loads_have_their_users() -> None:
    (text,) = texts(compiled(normed, (64, 1024))._call)
    squares, last = line_with("# squares"), line_with("# normed")
    by_words = {word: numbers(line) for line in text for word in ("ws_load", "rsqrt", "ws_store")
                if word in line.text}  # fmt: skip
    assert by_words == {"ws_load": {squares, last}, "rsqrt": {last}, "ws_store": {last}}
    assert numbers(text[0]) == set()  # the signature is there for all
    (partial,) = (line for line in text if "ws_block_" in line.text or "ws_warp_" in line.text)
    assert numbers(partial) == {squares}


def test_what_guards_stages_is_there_for_what_they_hold() -> None:
    (text,) = texts(compiled(beside, (256, 256), (256, 256), (256,))._call)
    product, behind = line_with("# multiplied"), line_with("# behind")
    waits = [numbers(line) for line in text if "ws_barrier_wait(ring0_" in line.text]
    assert waits == [{product}] * 2
    assert {product} == set.union(*(numbers(line) for line in text if "ws_multiply_" in line.text))
    assert {behind} == set.union(*(numbers(line) for line in text if "ws_silu_near(" in line.text))
    loop = next(line for line in text if "for (int compute_i0" in line.text)
    assert numbers(loop) == {product, behind}


def test_lines_are_those_of_the_compiled_text() -> None:
    call = compiled(normed, (64, 1024))._call
    (text,) = texts(call)
    cuda = call.launches[0].compiled.cuda
    assert cuda.endswith("\n".join(line.text for line in text) + "\n")
    assert text[0].text.startswith('extern "C"')


def test_a_text_that_its_user_edited_has_no_lines(tmp_path: Path) -> None:
    call = compiled(normed, (64, 1024))._call
    first = call.launches[0].compiled
    (tmp_path / f"{first.name}.cu").write_text(first.cuda.replace("int", "int ", 1))
    with warpsmith.knobs.scope(override_dir=tmp_path):
        (text,) = texts(compiled(normed, (64, 1024))._call)
    assert text
    assert not any(line.lines for line in text)


def test_layers_that_are_alike_have_lines_of_their_own() -> None:
    def layers(x: Any, w: Any) -> Any:
        x = ops.linear(x, w)
        x = ops.linear(x, w)  # second
        x = ops.linear(x, w)  # third
        return ops.linear(x, w)

    call = compiled(layers, (128, 128), (128, 128))._call
    assert call.launches[1].compiled is call.launches[2].compiled
    _, *found, _ = [set.union(*map(numbers, text)) for text in texts(call)]
    assert found == [{line_with("# second")}, {line_with("# third")}]


def test_a_schedule_by_hand_has_the_lines_of_its_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.exp(x)  # by hand
        fd.add_output(y)
        made = y.cache_before()
        y.split(0, 64)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=[made])
        y.axis(1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
    call = Executable(fd.fusion, scheduled=True).plan_for([np.zeros(64, np.float32)], current())
    (text,) = texts(call)
    stored = [numbers(line) for line in text if " = expf(" in line.text]
    assert stored  # of full blocks, and of the last one
    assert set(map(tuple, stored)) == {(line_with("# by hand"),)}


def test_what_planning_adds_has_no_line_of_its_own() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
    draft = fd.fusion.draft()
    added = ops.exp(draft.outputs[0].value)
    assert added.line is None
    (line,) = {own_lines(fd.fusion)["T1"]}
    assert lines_of(draft, own_lines(draft))[added.name] == (line,)


def test_a_refusal_names_the_line_though_the_result_was_made_by_planning() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
    draft: Fusion = fd.fusion.draft()
    draft.outputs = [type(draft.outputs[0])(ops.exp(draft.outputs[0].value))]
    refusal = Segment(draft, H200).refusal()
    assert isinstance(refusal, SchedulerRefusal)
    assert refusal.line is not None
    assert refusal.line[0] == str(HERE)
