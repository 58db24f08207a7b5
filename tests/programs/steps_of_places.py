"""Steps that read elements at other places, join tensors, and scan by other rules than sums."""

from dataclasses import replace

from tests.programs.growth import Growth
from tests.programs.program import Extent, InvalidProgramError, Ref, Size
from warpsmith.ir.dtypes import DataType

INTEGERS = (DataType.Int, DataType.Int32)


def scan(g: Growth) -> None:
    """A scan that is no sum, or whether any or all elements are true."""
    op = g.choice.choice(("cummax", "cummin", "cumprod", "logcumsumexp", "any", "all"))
    floats = op in ("cumprod", "logcumsumexp")
    name = g.pick(lambda v: bool(v.dims) and (v.dtype.is_float or not floats))
    dim = g.choice.randrange(len(g.value(name).dims))
    if op in ("any", "all"):
        if g.value(name).dtype is not DataType.Bool and g.chance(0.8):
            name = g.add("gt", Ref(name), 1)
        g.add(op, Ref(name), (dim,) if g.chance(0.8) else None, keepdim=g.chance(0.4))
    elif op in ("cummax", "cummin"):
        g.add(op, Ref(name), dim, results=2)
    else:
        if op == "cumprod":
            name = g.add("add", Ref(g.add("mul", Ref(g.add("tanh", Ref(name))), 0.05)), 1.0)
        g.add(op, Ref(name), dim)


def elsewhere(g: Growth) -> None:
    """Elements in another order, several times, or in part."""
    name = g.pick(lambda v: bool(v.dims))
    dims = g.value(name).dims
    dim = g.choice.randrange(len(dims))
    match g.choice.choice(("flip", "roll", "select", "corner", "repeat", "join", "join", "fill")):
        case "flip":
            both = tuple(d for d in range(len(dims)) if d == dim or g.chance(0.3))
            g.add("flip", Ref(name), both)
        case "roll":
            g.add("roll", Ref(name), (g.choice.randint(-9, 9),), (dim,))
        case "select":
            g.add("select", Ref(name), g.choice.choice((0, -1, 1)), dim)
        case "corner":
            g.add(g.choice.choice(("tril", "triu")), Ref(name), g.choice.randint(-2, 2))
        case "repeat":
            g.add("repeat_interleave", Ref(name), Extent((count_of(g),)), dim)
        case "join":
            join(g, name, dim)
        case "fill":
            value = g.value(name)
            mask = g.new_input(DataType.Bool, value.dims)
            number = 2 if not value.dtype.is_float else -1.5
            if value.dtype is DataType.Bool:
                raise InvalidProgramError("of numbers")
            g.add("masked_fill", Ref(name), Ref(mask), number)


def count_of(g: Growth) -> str:
    """A size of two or three by definition."""
    count = g.choice.choice((2, 3))
    program = g.meaning.program
    sizes = {**program.sizes, f"c{count}": Size(count, static=True, fixed=True)}
    g.meaning.program = replace(program, sizes=sizes)
    return f"c{count}"


def join(g: Growth, name: str, dim: int) -> None:
    """A tensor and others like it, behind each other, or along a new dimension."""
    value = g.value(name)
    alike = [
        other
        for other, each in g.meaning.values.items()
        if (each.dims, each.dtype) == (value.dims, value.dtype)
    ]
    count = count_of(g)
    parts = [Ref(name)]
    while len(parts) < g.meaning.program.sizes[count].extent:
        other = g.choice.choice(alike) if len(alike) > 1 or g.chance(0.3) else ""
        parts.append(Ref(other or g.new_input(value.dtype, value.dims)))
    g.choice.shuffle(parts)
    op = g.choice.choice(("stack", "cat"))
    g.add(op, tuple(parts), dim)


def chosen(g: Growth) -> None:
    """Elements that indices choose; these are made to lie inside at each larger size, too."""
    kind = g.choice.choice(("index_select", "embedding", "gather", "take_along_axis", "one_hot"))
    name = g.pick(lambda v: bool(v.dims) and (kind != "embedding" or len(v.dims) == 2))
    dims = g.value(name).dims
    dim = 0 if kind == "embedding" else g.choice.randrange(len(dims))
    extent = g.meaning.program.extent(dims[dim])
    if extent == 0:
        raise InvalidProgramError("there is nothing to choose")
    free = [(size,) for size in g.meaning.program.sizes]
    shape = {
        "index_select": (g.choice.choice(free),),
        "embedding": tuple(g.choice.sample(free, g.choice.choice((1, 1, 2)))),
        "one_hot": (g.choice.choice(free),),
    }.get(kind, dims)
    drawn = Ref(g.new_input(g.choice.choice(INTEGERS), shape))
    if kind == "one_hot":
        g.add("one_hot", drawn, Extent(g.choice.choice(free)))
        return
    index = Ref(g.add("remainder", drawn, extent))
    if kind == "embedding":
        g.add(kind, index, Ref(name))
    else:
        g.add(kind, Ref(name), index, dim)


def made(g: Growth) -> None:
    """Tensors of one number, and all products of two vectors."""
    name = g.pick(lambda v: v.dtype.is_float)
    op = g.choice.choice(("zeros_like", "ones_like", "outer", "segment_set"))
    if op != "outer":
        g.add(op, Ref(name))
        return
    vectors = [g.pick(lambda v: v.dtype.is_float and len(v.dims) == 1) for _ in range(2)]
    g.add("outer", *map(Ref, vectors))
