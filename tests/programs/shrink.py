"""A failing program made smaller, step by step, as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.programs.judge import ran, valid
from tests.programs.program import (
    Extent,
    Input,
    Layout,
    Program,
    Ref,
    ScalarInput,
    Shape,
    Size,
    Statement,
)
from warpsmith.ir.dtypes import DataType

Fails = Callable[[Program], bool]

_EXTENTS = (2, 3, 4, 8, 17)


def shrunk(program: Program, fails: Fails, most: int = 200) -> Program:
    """The smallest program that was found to fail as well, after at most so many trials."""
    left = most
    current = tidied(program)
    if not fails(current):
        return program
    moved = True
    while moved and left > 0:
        moved = False
        for candidate in _candidates(current):
            if candidate == current or not valid(candidate):
                continue
            left -= 1
            if fails(candidate):
                current, moved = candidate, True
                break
            if left <= 0:
                break
    return current


def _candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the much smaller ones first; not all of them are valid."""
    made = {name for statement in program.statements for name in statement.results}
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield tidied(replace(program, outputs=(output,)))
        for output in program.outputs:
            rest = tuple(other for other in program.outputs if other is not output)
            yield tidied(replace(program, outputs=rest))
    for name, alias in program.outputs:
        if alias:
            plain = tuple((n, "" if n == name else a) for n, a in program.outputs)
            yield tidied(replace(program, outputs=plain))
    names = [name for name, _ in program.outputs]
    for statement in reversed(program.statements):  # an operand becomes the output
        if len(names) == 1 and names[0] in statement.results:
            for name in statement.reads():
                if name in made:
                    yield tidied(replace(program, outputs=((name, ""),)))
    for statement in reversed(program.statements):
        yield from _without(program, statement)
    yield from _with_smaller_sizes(program)
    yield from _with_plainer_inputs(program)


def _without(program: Program, statement: Statement) -> Iterator[Program]:
    """An operand takes the place of the result; or the result becomes an input."""
    values = _values(program)
    rest = tuple(other for other in program.statements if other is not statement)
    if len(statement.results) == 1:
        result = statement.results[0]
        for name in dict.fromkeys(statement.reads()):
            if name in values:
                renamed = tuple(_renamed(other, result, name) for other in rest)
                outputs = tuple((name if n == result else n, a) for n, a in program.outputs)
                if len(set(outputs)) == len(outputs):
                    yield tidied(replace(program, statements=renamed, outputs=outputs))
    given = tuple(
        Input(name, values[name].dtype, values[name].dims, seed=number)
        for number, name in enumerate(statement.results)
        if name in values
    )
    yield tidied(replace(program, inputs=(*program.inputs, *given), statements=rest))


def _with_smaller_sizes(program: Program) -> Iterator[Program]:
    for name, size in program.sizes.items():
        for extent in _EXTENTS:
            if extent < size.extent:
                yield _resized(program, name, Size(extent, size.static))
        if size.extent > 40:
            yield _resized(program, name, Size(size.extent // 2, size.static))
        if size.static:
            yield _resized(program, name, Size(size.extent))


def _resized(program: Program, name: str, size: Size) -> Program:
    return replace(program, sizes={**program.sizes, name: size})


def _with_plainer_inputs(program: Program) -> Iterator[Program]:
    for position, given in enumerate(program.inputs):
        before, after = program.inputs[:position], program.inputs[position + 1 :]
        if isinstance(given, ScalarInput):
            statements = tuple(_with_number(s, given) for s in program.statements)
            yield replace(program, inputs=(*before, *after), statements=statements)
            continue
        plainer = [replace(given, layout=Layout())]
        layout = given.layout
        plainer += [replace(given, layout=replace(layout, offset=0))]
        plainer += [replace(given, layout=replace(layout, gaps=()))]
        plainer += [replace(given, layout=replace(layout, repeated=()))]
        plainer += [replace(given, layout=replace(layout, order=()))]
        if given.dtype in (DataType.BFloat16, DataType.Half, DataType.Double):
            plainer.append(replace(given, dtype=DataType.Float))
        plainer.append(replace(given, values="normal"))
        for other in plainer:
            if other != given:
                yield replace(program, inputs=(*before, other, *after))
    if any(isinstance(given, Input) for given in program.inputs):
        inputs = tuple(
            replace(given, dtype=DataType.Float)
            if isinstance(given, Input) and given.dtype.is_float
            else given
            for given in program.inputs
        )
        yield replace(program, inputs=inputs)


def tidied(program: Program) -> Program:
    """Without statements and inputs that no output needs."""
    needed = {name for name, _ in program.outputs} | {alias for _, alias in program.outputs}
    kept: list[Statement] = []
    for statement in reversed(program.statements):
        if needed.intersection(statement.results):
            kept.append(statement)
            needed.update(statement.reads())
    statements = tuple(reversed(kept))
    spelled = {
        dim
        for s in statements
        for value in s.args
        if isinstance(value, Shape | Extent)
        for dim in (value.dims if isinstance(value, Shape) else (value.dim,))
    }
    sizes = {name for dim in spelled for name in dim}
    inputs = tuple(
        given
        for given in program.inputs
        if given.name in needed
        or (
            isinstance(given, Input)
            and any(sizes.intersection(dim) for dim in given.dims)
            and not _told(program, needed, sizes)
        )
    )
    return replace(program, inputs=inputs, statements=statements)


def _told(program: Program, needed: set[str], sizes: set[str]) -> bool:
    """Whether the needed inputs tell all of these sizes."""
    told = {
        dim[0]
        for given in program.inputs
        if isinstance(given, Input) and given.name in needed
        for dim in given.dims
        if len(dim) == 1
    }
    return all(name in told or program.sizes[name].static for name in sizes)


def _values(program: Program) -> dict[str, object]:
    return dict(ran(program).values)


def _renamed(statement: Statement, old: str, new: str) -> Statement:
    def changed(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return Ref(new) if value == Ref(old) else value

    return replace(statement, args=tuple(map(changed, statement.args)))


def _with_number(statement: Statement, given: ScalarInput) -> Statement:
    def changed(value: object) -> object:
        return given.value if value == Ref(given.name) else value

    options = tuple((name, changed(value)) for name, value in statement.options)
    return replace(statement, args=tuple(map(changed, statement.args)), options=options)
