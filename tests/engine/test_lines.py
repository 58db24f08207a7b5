"""Calls between two that were planned, of which the launcher in C computes the numbers."""

import struct
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import warpsmith
from tests.programs import judge
from tests.programs.generate import generate
from tests.support.stand_in import StandIn, taken_by_c
from warpsmith import ops
from warpsmith.engine.executable import Executable
from warpsmith.engine.lines import Line, program_of
from warpsmith.errors import WarpsmithError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.kernel import Reciprocal
from warpsmith.runtime import launcher

torch = pytest.importorskip("torch")


def at_size(program: Any, name: str, extent: int) -> list[Any]:
    """Inputs of a program where one of its sizes is another one."""
    sizes = {**program.sizes, name: replace(program.sizes[name], extent=extent)}
    space: dict[str, Any] = {}
    exec(compile(replace(program, sizes=sizes).definition(), "<program>", "exec"), space)
    arrays = space["inputs"]
    return [judge._on_device(x, torch, "cpu") if hasattr(x, "ctypes") else x for x in arrays]


def launched(gpu: StandIn, inputs: list[Any], run: Callable[[list[Any]], Any]) -> Any:
    """What a call launches and returns; where in an arena a tensor lies is left out."""
    gpu.taken(inputs)
    results = run(inputs)
    if results is NotImplemented:
        return None
    results = results if isinstance(results, list | tuple) else [results]
    made, launches = gpu.taken(inputs)
    arenas = {f"made {k}" for k, (_, _, dtype) in enumerate(made) if dtype is torch.uint8}
    made = [None if f"made {k}" in arenas else form for k, form in enumerate(made)]
    shown = [
        (name, form, [(v[0], v[2]) if v[0] in arenas else v for v in values])
        for name, form, values in launches
    ]
    return made, shown, [(x.shape, x.stride(), x.dtype) for x in results]


def between(gpu: StandIn, executable: Executable, inputs: list[Any]) -> bool:
    """Whether C launches a call that was not planned: what Python would, if it chooses the same."""
    by_c = launched(gpu, inputs, executable.launch)
    with judge.uncompiled():
        run = executable.prepared(inputs)
    assert executable.last_plan is not None
    gpu.knows(executable.last_plan)
    by_c = by_c and launched(gpu, inputs, executable.launch)
    known = [sketch.kernels for _, sketch in executable.shortcut._drawn]
    same = run.sketch is not None and run.sketch.kernels in known
    if by_c is not None and same:
        assert by_c == launched(gpu, inputs, run)
    return by_c is not None


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(200))
def test_calls_between_two_of_random_programs(gpu: StandIn, seed: int) -> None:
    program = generate(seed)
    for name in [name for name, size in program.sizes.items() if not size.static][:2]:
        space: dict[str, Any] = {}
        exec(compile(program.definition(), "<program>", "exec"), space)
        executable = space["fd"]._ready(False)
        for extent in (40, 72, 41, 48, 71):
            try:
                inputs = at_size(program, name, extent)
                if extent in (40, 72):
                    with judge.uncompiled():
                        executable.run(inputs)
                else:
                    between(gpu, executable, inputs)
            except WarpsmithError:
                assert executable.launch(inputs) is NotImplemented
                break


def normalized(x: Any, weight: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-6) * weight


BETWEEN: dict[str, tuple[Any, Any]] = {
    "sum": (lambda x, y: x + y, lambda n: (torch.ones(n, 12), torch.ones(n, 12))),
    "sum beside a column": (lambda x, y: x + y, lambda n: (torch.ones(n, 12), torch.ones(n, 1))),
    "columns": (lambda x: x * 2.0, lambda n: (torch.ones(7, n),)),
    "columns with gaps": (lambda x: x * 2.0, lambda n: (torch.ones(7, 3, 5 * n)[:, 1],)),
    "transposed": (lambda x, y: x + y, lambda n: (torch.ones(n, 24).t(), torch.ones(24, n))),
    "rows": (normalized, lambda n: (torch.ones(n, 512), torch.ones(512))),
    "flat": (lambda x: ops.reshape(x, [-1]), lambda n: (torch.ones(n, 6, 2).transpose(0, 1),)),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_calls_between_two(gpu: StandIn, name: str) -> None:
    function, given = BETWEEN[name]
    made = warpsmith.fuse(function)
    with judge.uncompiled():
        for n in (640, 800):
            made(*given(n))
    (trace,) = [each[0] for each in made._traces.entries.values()]
    trace.executable.shortcut = made.shortcut
    inner = [between(gpu, trace.executable, list(given(n))) for n in (641, 656, 720, 799)]
    assert any(inner)
    for n in (1, 0, 600, 639, 801, 6400):
        assert not taken_by_c(made, *given(n)), n


def test_what_is_beside_the_line_is_left_to_python(gpu: StandIn) -> None:
    made = warpsmith.fuse(lambda x, y, k: x + y * k)
    with judge.uncompiled():
        for n in (64, 96):
            made(torch.ones(n, 8), torch.ones(n, 8), 2)
    assert taken_by_c(made, torch.ones(80, 8), torch.ones(80, 8), 3)
    for x, y, k in (
        (torch.ones(80, 8), torch.ones(81, 8), 2),
        (torch.ones(80, 9), torch.ones(80, 9), 2),
        (torch.ones(80, 8), torch.ones(80, 9)[:, :8], 2),
        (torch.ones(80, 8), torch.ones(641)[1:].view(80, 8), 2),
        (torch.ones(80, 8), torch.ones(80, 8), 2.0),
        (torch.ones(80, 8), torch.ones(80, 8).double(), 2),
        (torch.ones(8, 80).t(), torch.ones(80, 8), 2),
        (torch.ones(80, 8, requires_grad=True), torch.ones(80, 8), 2),
    ):
        assert not taken_by_c(made, x, y, k)


def test_a_line_holds_where_its_kernels_do(gpu: StandIn) -> None:
    """Vectors of four need what the ends have, and not all sizes between them do."""
    made = warpsmith.fuse(lambda x: x * 2.0)
    with judge.uncompiled():
        for n in (640, 800):
            made(torch.ones(n))
    assert [n for n in range(641, 661) if taken_by_c(made, torch.ones(n))] == [
        644,
        648,
        652,
        656,
        660,
    ]


def test_numbers_of_sizes(gpu: StandIn) -> None:
    """The launcher's whole numbers are Python's, at values where they are easily wrong."""
    size = Symbol("size", low=0)
    c = [Const(value) for value in (1, 3, 7, 128, 2**31 - 1)]

    def whole(op: str, *args: Any) -> Expr:
        return Apply(op, args, DataType.Index)

    pairs = [(size, each) for each in c] + [(each, whole("add", size, Const(1))) for each in c]
    ops_of_two = ("add", "sub", "mul", "floordiv", "mod", "ceildiv", "minimum", "maximum")
    asked = [whole(op, a, b) for op in ops_of_two for a, b in pairs]
    asked += [Apply(op, (a, b), DataType.Bool) for op in ("lt", "le", "eq") for a, b in pairs]
    asked += [
        whole(op, whole("sub", Const(5), size), Const(3)) for op in ("floordiv", "mod", "ceildiv")
    ]
    asked += [whole("where", Apply("lt", (size, Const(9)), DataType.Bool), size, Const(-4))]
    asked += [whole(op, size, Const(5)) for op in ("xor", "logical_and", "logical_or")]
    numbers = [*asked, whole("magic", size), whole("shift", size)]
    line = Line(SimpleNamespace(), size, 2, 2**31 - 1, True, ())  # type: ignore[arg-type]
    program = program_of(numbers, line)
    none: tuple[Any, ...] = ()
    kept = struct.pack(f"={len(numbers)}q", *[0] * len(numbers))
    recipe = launcher.module().Recipe(
        launcher.host(), 0, None, 0, kept, *[none] * 5, None, (program, 2, 2**31 - 1)
    )
    for value in (0, 1, 2, 3, 5, 7, 8, 9, 100, 127, 128, 129, 65535, 65537, 2**30 + 1, 2**31 - 1):
        found = struct.unpack(f"={len(numbers)}q", recipe.numbers(value))
        wanted = [evaluate(each, {"size": value}) for each in asked]
        assert list(found) == [*wanted, *Reciprocal.values(value)], value


def test_a_program_that_leaves_its_memory_is_refused(gpu: StandIn) -> None:
    for steps in (
        (4,),
        (0,),
        (0, 1),
        (1, 2, 5),
        (1, 2, -1),
        (1, 1, 4),
        (99,),
        (1, 3, 3),
        (1,) * 99,
    ):
        program = struct.pack(f"={len(steps)}q", *steps)
        with pytest.raises(ValueError, match="program leaves its memory"):
            launcher.module().Recipe(
                launcher.host(), 0, None, 0, bytes(8), *[()] * 5, None, (program, 2, 3)
            )
