"""Random programs, grown statement by statement from one seed."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.programs.growth import LARGE, MIDDLE, SMALL, Budget, Growth
from tests.programs.program import Input, InvalidProgramError, Program, Ref
from tests.programs.steps import cast, choose, dropout, from_scalars, pointwise
from tests.programs.steps_of_orders import ordered, parts, written
from tests.programs.steps_of_places import chosen, elsewhere, made, scan
from tests.programs.steps_of_products import by_group, of_bytes, of_rows, product
from tests.programs.steps_of_shapes import carried, move, norm, reduce

SIMULATED = Budget(operations=(2, 12), elements=1024, products=2**15, extents=(*SMALL, *MIDDLE))
"""What the simulator runs in about a second."""

TINY = Budget(operations=(1, 3), elements=256, products=2**12, extents=(1, 2, 3, 5, 8, 16, 17, 33))
"""What the simulator runs in an instant: most of the time is the compiler's."""

_MOST_OUTPUTS, _TRIES = 6, 12

Step = Callable[[Growth], None]

_STEPS: tuple[tuple[int, Step], ...] = (
    (40, pointwise),
    (8, cast),
    (14, move),
    (16, reduce),
    (14, product),
    (2, of_bytes),
    (2, by_group),
    (3, of_rows),
    (8, norm),
    (8, carried),
    (4, scan),
    (5, elsewhere),
    (4, chosen),
    (3, ordered),
    (3, written),
    (5, parts),
    (2, made),
    (4, from_scalars),
    (3, dropout),
    (4, choose),
)
"""How often each kind of step is taken."""


def siblings(g: Growth) -> None:
    """Several steps that read the same tensor, as one kernel may take them together."""
    name = g.pick(lambda value: bool(value.dims) and value.dtype.is_float)
    some = (reduce, reduce, norm, carried, scan, product, chosen, elsewhere, written, parts)
    with g.reading(name):
        for step in g.choice.sample(some, g.choice.choice((2, 2, 3))):
            attempted(g, step)


FULL = Budget()

WIDE = Budget(
    operations=(2, 12), elements=2**17, products=2**24, extents=(*SMALL, *MIDDLE, *LARGE, 40000)
)
"""What takes many blocks, and a GPU."""


def generate(seed: int, budget: Budget = FULL) -> Program:
    """The program of this seed."""
    g = Growth(random.Random(seed), budget, seed)
    first = g.new_input(g.float_type(), g.some_dims())
    for _ in range(g.choice.randint(*budget.operations)):
        _step(g)
    if not g.meaning.program.statements:
        g.add("neg", Ref(first))
    program = g.meaning.program
    return replace(program, outputs=tuple(_outputs(g, program)))


def enlarged(program: Program, most: int = 2**26) -> Program:
    """The program at sizes of real models, for planning; inputs have at most so many elements."""
    choice = random.Random(program.seed)
    given = [each for each in program.inputs if isinstance(each, Input)]
    inputs = tuple(
        replace(each, values="unset") if isinstance(each, Input) else each
        for each in program.inputs
    )
    program = replace(program, inputs=inputs)
    for name, size in program.sizes.items():
        if size.fixed:
            continue
        factor = choice.choice((1, 8, 37, 64, 128))
        sizes = {**program.sizes, name: replace(size, extent=size.extent * factor)}
        wider = replace(program, sizes=sizes)
        if all(math.prod(wider.shape(each.dims)) <= most for each in given):
            program = wider
    return program


def _outputs(g: Growth, program: Program) -> Iterable[tuple[str, str]]:
    made = [name for statement in program.statements for name in statement.results]
    used = {name for statement in program.statements for name in statement.reads()}
    ends = [name for name in made if name not in used and name != made[-1]]
    between = [name for name in made[:-1] if name in used and g.chance(0.15)]
    inputs = [given.name for given in program.inputs if isinstance(given, Input)]
    chosen = [made[-1], *(name for name in ends if g.chance(0.8)), *between]
    if g.chance(0.03):
        chosen.append(g.choice.choice(inputs))
    aliased: set[str] = set()
    written = 0.6 if g.chance(0.1) else 0.04
    for name in chosen[:_MOST_OUTPUTS]:
        alias = ""
        if g.chance(written):
            alias = _alias(g, name, program, aliased)
        aliased.add(alias)
        yield name, alias


def _alias(g: Growth, name: str, program: Program, taken: set[str]) -> str:
    value = g.meaning.values[name]
    if any(s.op == "stride_order" and name in s.results for s in program.statements):
        return ""  # it says how it lies, and an input lies as it does
    for given in program.inputs:
        if isinstance(given, Input) and given.name not in taken and not given.layout.repeated:
            same = (given.dtype, given.dims) == (value.dtype, value.dims)
            if same and given.name != name:
                return given.name
    return ""


def _step(g: Growth) -> None:
    """Take one step; what breaks a rule is taken back, and another one tried."""
    weights, steps = zip(*_STEPS, (5, siblings), strict=True)
    for _ in range(_TRIES):
        if attempted(g, g.choice.choices(steps, weights)[0]):
            return


def attempted(g: Growth, step: Step) -> bool:
    """Whether a step adds something; what breaks a rule is taken back."""
    before = (g.meaning.program, dict(g.meaning.values), g.count)
    scalars = dict(g.meaning.scalars)
    try:
        step(g)
    except InvalidProgramError:
        pass
    else:
        if len(g.meaning.program.statements) > len(before[0].statements):
            return True
    g.meaning.program, g.meaning.values, g.count = before
    g.meaning.scalars = scalars
    return False
