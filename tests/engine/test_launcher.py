"""The launcher in C launches what Python launches, for whatever is planned."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.programs import judge
from tests.support.stand_in import StandIn, random_call, taken_by_c, told
from warpsmith import ops
from warpsmith.engine import loaded
from warpsmith.engine.arena import ALIGNMENT, Arena
from warpsmith.engine.executable import Executable
from warpsmith.engine.lives import own_memory, scratch_of
from warpsmith.errors import WarpsmithError
from warpsmith.frontends.fuse import Fused
from warpsmith.runtime import launcher

torch = pytest.importorskip("torch")


def both(gpu: StandIn, executable: Executable, inputs: list[Any]) -> tuple[Any, Any]:
    """What Python launches for these inputs, and what C does."""
    with judge.uncompiled():
        run = executable.prepared(inputs)
    assert executable.last_plan is not None
    gpu.knows(executable.last_plan)
    gpu.taken(inputs)
    results = run(inputs)
    by_python = *gpu.taken(inputs), [(x.shape, x.stride(), x.dtype) for x in results]
    table = launcher.module().Table(launcher.host())
    assert run.recipe is not None
    assert table.keep(tuple(inputs), run.recipe, tuple(range(len(inputs))), 2)
    again = table.launch(tuple(inputs))
    assert again is not NotImplemented
    by_c = *gpu.taken(inputs), [(x.shape, x.stride(), x.dtype) for x in again]
    return by_python, by_c


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(300))
def test_random_programs(gpu: StandIn, seed: int) -> None:
    executable, inputs = random_call(seed)
    if executable._sizes:
        pytest.skip("a size depends on a number")
    try:
        by_python, by_c = both(gpu, executable, inputs)
    except WarpsmithError as refusal:
        pytest.skip(str(refusal))
    assert by_python == by_c


def fused(gpu: StandIn, function: Any, *args: Any) -> warpsmith.Fused:
    """A function that was called once with such arguments, and whose calls C takes from then on."""
    made = warpsmith.fuse(function)
    with judge.uncompiled():
        made(*args)
    assert made.shortcut._table is not None
    gpu.taken(args)
    return made


def test_a_call_makes_one_piece_of_memory_for_itself(gpu: StandIn) -> None:
    """Also for scratch of several kernels, of which none lies in another's, and all begin where
    memory of its own would: what passes between these is 63 floats.
    """
    x = torch.ones(700, 63)
    made = warpsmith.fuse(lambda x: ops.sum(x * ops.sum(x, [0])) + ops.mean(x * x))
    with judge.uncompiled():
        made(x)
    gpu.taken([x])
    for run in made.shortcut.launch, lambda given: made.run(*given):
        run((x,))
        own = [form for form in gpu.taken([x])[0] if form[2] is torch.uint8]
        (trace, _) = next(iter(made._traces.entries.values()))
        plan = trace.executable.last_plan
        size, places = own_memory(plan)
        assert own == [((size,), (1,), torch.uint8)]
        pairs = zip(plan.launches, places, strict=True)
        spans = [
            (at[space.name], at[space.name] + scratch_of(space).bytes)
            for launch, at in pairs
            for space in launch.workspaces
            if not space.zeroed
        ]
        assert len(spans) > 1
        ends = [plan.arena.size, *(end for _, end in spans)]
        assert all(end <= start for end, (start, _) in zip(ends, spans, strict=False))
        assert [start % ALIGNMENT for start, _ in spans] == [0] * len(spans)
        assert ends[-1] <= size


def test_what_passes_between_kernels_may_be_empty(gpu: StandIn) -> None:
    """A sum along nothing has a kernel of one block, which is given an address all the same."""
    made = warpsmith.fuse(lambda a, b, c: ops.addmm(c, ops.cumsum(a, 0), b))
    given = torch.ones(0, 2), torch.ones(2, 0), torch.ones(0)
    with judge.uncompiled():
        assert made(*given).shape == (0, 0)
    assert made.shortcut.launch(given).shape == (0, 0)
    (trace, _) = next(iter(made._traces.entries.values()))
    plan = trace.executable.last_plan
    (launch,) = plan.launches
    assert plan.arena == Arena(0, ((launch.pointers[-1], 0),))


def pair() -> tuple[Any, Any]:
    return torch.ones(6, 4), torch.ones(6, 4)


def test_arguments_of_another_form_are_left_to_python(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    assert taken_by_c(made, x, y)
    assert taken_by_c(made, torch.nn.Parameter(x, requires_grad=False), y)
    others = {
        "shape": torch.ones(6, 5),
        "rank": torch.ones(24),
        "strides": torch.ones(4, 6).t(),
        "type": torch.ones(6, 4, dtype=torch.int32),
        "another type of as many bits": torch.ones(6, 4, dtype=torch.float16).bfloat16(),
        "alignment": torch.ones(25)[1:].view(6, 4),
        "gradient": torch.ones(6, 4, requires_grad=True),
        "subclass": torch.ones(6, 4).as_subclass(type("Own", (torch.Tensor,), {})),
        "NumPy": np.ones((6, 4), np.float32),
        "number": 1.0,
        "none": None,
        "list": [1.0],
    }
    for why, other in others.items():
        assert not taken_by_c(made, x, other), why
        assert not taken_by_c(made, other, y), why
    assert not taken_by_c(made, x)
    assert not taken_by_c(made, x, y, y)
    assert not taken_by_c(made, *[x] * 100)
    assert taken_by_c(made, x, y)


def test_a_negated_view_with_the_strides_of_a_plain_one(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    negated = torch._neg_view(x)
    assert negated.is_neg()
    assert negated.stride() == x.stride()
    assert not taken_by_c(made, negated, y)
    with pytest.raises(WarpsmithError, match=r"WS0300.*negates on reading"):
        made(negated, y)


def test_a_tensor_whose_memory_was_given_back(gpu: StandIn) -> None:
    """As of a shard of weights; it is no empty one."""
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    x.untyped_storage().resize_(0)
    assert not taken_by_c(made, x, y)
    with pytest.raises(WarpsmithError, match=r"WS0300.*a Tensor of \(6, 4\) has no memory"):
        made(x, y)


def test_gradients_are_refused_where_they_are_recorded(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    weight = torch.ones(6, 4, requires_grad=True)
    with torch.no_grad():
        assert taken_by_c(made, x, weight)
    with pytest.raises(WarpsmithError, match="requires a gradient"):
        made(x, weight)


def test_statics_count_with_their_types(gpu: StandIn) -> None:
    x, _ = pair()
    made = fused(gpu, lambda x, of: x * of[0], x, (2,))
    assert taken_by_c(made, x, (2,))
    for other in ((2.0,), (True,), (3,), 2, "2", None):
        assert not taken_by_c(made, x, other), other


def test_numbers_are_of_the_call(gpu: StandIn) -> None:
    x, _ = pair()
    made = fused(gpu, lambda x, a, b, c: ops.where(c, x * a, x + b), x, 0.5, 7, True)
    plan = next(iter(made._traces.entries.values()))[0].executable.last_plan
    gpu.knows(plan)
    for numbers in ((0.5, 7, True), (-2.0, 2**62, False), (float("nan"), -(2**63), True)):
        found = []
        for run in (
            made.shortcut.launch,
            lambda args: next(iter(made._known.entries.values()))[0].run(args),
        ):
            assert run((x, *numbers)) is not NotImplemented
            found.append(gpu.taken([x]))
        assert found[0] == found[1]
        assert "P" not in found[0]
    assert not taken_by_c(made, x, 0.5, 2**63, True), "Python says what is wrong with it"
    assert not taken_by_c(made, x, 1, 7, True)


def test_what_is_launched_follows_the_stream(gpu: StandIn) -> None:
    made = fused(gpu, lambda x: ops.sum(x), torch.ones(4096, 16))
    given = torch.ones(4096, 16)
    stream = told("stream_told", ctypes.c_void_p)
    for value in (0, 0x51, 0x52, 0x51):
        stream.value = value
        assert taken_by_c(made, given)
        assert {form[7] for _, form, _ in gpu.launches} == {value}
        gpu.taken([given])
    kernels = [entry[0] for entry in loaded._KERNELS.entries.values()]
    assert all({0x51, 0x52} <= kernel.residence.streams for kernel in kernels)
    told("capture_told").value = 1
    assert not taken_by_c(made, given), "graphs are captured by Python"
    stream.value = 0
    assert taken_by_c(made, given), "the default stream cannot be"


def test_counters_are_of_a_stream(gpu: StandIn) -> None:
    given = torch.ones(4096, 16)
    made = fused(gpu, lambda x: ops.sum(x), given)
    (plan,) = [each[0].executable.last_plan for each in made._traces.entries.values()]
    gpu.knows(plan)
    assert any(space.zeroed for each in plan.launches for space in each.workspaces)
    stream = told("stream_told", ctypes.c_void_p)
    found: dict[int, set[Any]] = {}
    for value in (0, 0x51, 0, 0x51):
        stream.value = value
        assert taken_by_c(made, given)
        (_, launches) = gpu.taken([given])
        pointers = {v for _, _, values in launches for v in values if v[0] == "nowhere"}
        assert len(pointers) == 1
        found.setdefault(value, set()).update(pointers)
    assert len(found[0]) == len(found[0x51]) == 1
    assert found[0] != found[0x51]


def test_a_refused_launch_is_tried_by_python(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    told("refuse_launch").value = told("launches").value
    assert not taken_by_c(made, x, y)
    gpu.taken([x, y])
    assert made(x, y).shape == (6, 4)
    assert len(gpu.launches) == 1


def test_another_current_device(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    told("context_told", ctypes.c_void_p).value = 0xC1
    gpu.made.clear()
    assert taken_by_c(made, x, y)
    assert told("pushed").value == 0
    assert len(gpu.launches) == 1
    assert gpu.made[0].shape == (6, 4)


def test_results_go_into_inputs(gpu: StandIn) -> None:
    with warpsmith.FusionDefinition() as fd:
        x, y = fd.define_tensor([-1, -1], True), fd.define_tensor([-1, -1], True)
        total = fd.ops.add(x, y)
        fd.add_output(total, x)
        fd.add_output(fd.ops.mul(total, y))
    given = [torch.zeros(6, 4), torch.ones(6, 4)]
    by_python, by_c = both(gpu, fd._ready(False), given)
    assert by_python == by_c


def test_calls_of_what_was_taken_once_are_in_c(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    assert isinstance(made, Fused)
    assert type(made).__call__ is not Fused.__call__
    before = told("launches").value
    asked: list[Any] = []
    made.run = lambda *args, **named: asked.append((args, named))
    assert made(x, y).shape == x.shape
    assert told("launches").value == before + 1
    made(x, y=y)
    made(x[1:], y[1:])
    assert [(len(args), list(named)) for args, named in asked] == [(1, ["y"]), (2, [])]
    del made.run
    with pytest.raises(WarpsmithError, match="WS0301"):
        made(x)


def test_results_in_other_shapes_have_as_many_elements(gpu: StandIn) -> None:
    x = torch.ones(6, 4)
    given = x.view(2, 3, 4)
    made = fused(gpu, lambda x: (x + 1.0, x * 2.0), x)
    route = made.known((x,))
    assert route is not None
    table = launcher.module().Table(launcher.host())
    for shapes in ((), ((2, 3, 4),), ((2, 3, 4), (5, 5)), ((2, 3, 4), (-6, -4))):
        assert not table.keep((given,), route.run.recipe, (0,), 0, shapes)
    assert table.keep((given,), route.run.recipe, (0,), 0, ((2, 3, 4), None))
    results = table.launch((given,))
    assert [each.shape for each in results] == [(2, 3, 4), (6, 4)]
    assert results[0].is_contiguous()
    assert not table.keep((1.0,), route.run.recipe, (0,), 0)


def test_without_the_launcher_all_is_the_same(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "host", lambda: None)
    x, y = pair()
    made = warpsmith.fuse(lambda x, y: x + y)
    with judge.uncompiled():
        made(x, y)
    made(x, y)
    assert made.shortcut._table is None
    assert len(gpu.driver.launches) == 0
    assert len(gpu.launches) == 2


def test_tensor_maps_early_launches_and_several_kernels(gpu: StandIn) -> None:
    """A product that the TMA unit feeds, one of computed operands, and sums across blocks."""

    def rows(*shapes: tuple[int, int]) -> list[Any]:
        return [torch.ones(shape, dtype=torch.bfloat16) for shape in shapes]

    def across(x: Any) -> Any:
        centred = x - ops.sum(x, [0], keepdim=True)
        return ops.sum(centred * centred, [0])

    calls: list[tuple[Any, list[Any]]] = [
        (lambda x, w: ops.linear(x, w), rows((256, 128), (128, 128))),
        (lambda x, w: ops.linear(ops.exp(x), ops.exp(w)), rows((256, 128), (128, 128))),
        (across, [torch.ones(4000, 8)]),
    ]
    mapped = early = 0
    for function, given in calls:
        compiled = warpsmith.fuse(function)
        with judge.uncompiled():
            compiled(*given)
        (trace,) = [each[0] for each in compiled._traces.entries.values()]
        by_python, by_c = both(gpu, trace.executable, given)
        assert by_python == by_c
        plan = trace.executable.last_plan
        mapped += sum(len(each.maps) for each in plan.launches)
        early += sum(each.early for each in plan.launches)
        before = told("encoded").value
        for _ in range(3):
            assert taken_by_c(compiled, *given)
        new = sum(each.tensor not in ("T0", "T1") for p in plan.launches for each in p.maps)
        made = sum(len(each.maps) for each in plan.launches)
        assert told("encoded").value - before <= made + 2 * new, "known addresses have their map"
    assert mapped >= 4
    assert early >= 1
