"""Steps that move, reduce and norm."""

from collections.abc import Sequence
from typing import Any

from tests.programs.growth import Growth
from tests.programs.program import Dim, InvalidProgramError, Ref, Shape
from warpsmith.ir.dtypes import DataType


def move(g: Growth) -> None:
    name = g.pick()
    dims = g.value(name).dims
    rank = len(dims)
    kinds = [_broadcast]
    if rank:
        kinds += [_merge, _split_again, _expand]
    if rank > 1:
        kinds += [_permute, _permute]
    if () in dims:
        kinds += [_squeeze, _expand, _squeeze]
    g.choice.choice(kinds)(g, name, dims)


def _permute(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    if g.chance(0.3):
        pair = g.choice.sample(range(len(dims)), 2)
        g.add("transpose", Ref(name), *pair)
        return
    order = list(range(len(dims)))
    g.choice.shuffle(order)
    op = "stride_order" if g.chance(0.1) else "permute"
    g.add(op, Ref(name), tuple(order))


def _broadcast(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    place = g.choice.randint(0, len(dims))
    flags = [False] * len(dims)
    flags.insert(place, True)
    wide = g.add("broadcast", Ref(name), tuple(flags))
    if g.chance(0.5):
        _expand(g, wide, g.value(wide).dims)


def _expand(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    names = [(size,) for size in g.meaning.program.sizes if (size,) not in dims]
    if () not in dims or not names:
        raise InvalidProgramError("nothing to expand")
    place = list(dims).index(())
    wanted = [*dims[:place], g.choice.choice(names), *dims[place + 1 :]]
    if g.chance(0.3):
        kept = [d for d in range(len(dims)) if d != place or g.chance(0.5)]
        if place not in kept:
            narrow = g.add("squeeze", Ref(name), (place,))
            g.add("broadcast_in_dim", Ref(narrow), Shape(tuple(wanted)), tuple(kept))
            return
    g.add("expand", Ref(name), Shape(tuple(wanted)))


def _squeeze(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    g.add(
        "squeeze",
        Ref(name),
        (g.choice.choice([d for d, dim in enumerate(dims) if not dim]),),
    )


def _merge(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    """Some neighbours become one dimension."""
    first = g.choice.randrange(len(dims))
    last = g.choice.randint(first, len(dims) - 1)
    merged = sum(dims[first : last + 1], ())
    wanted = (*dims[:first], merged, *dims[last + 1 :])
    if g.chance(0.2):
        wanted = (*wanted, ())
    g.add("reshape", Ref(name), Shape(tuple(wanted)))


def _split_again(g: Growth, name: str, dims: Sequence[Dim]) -> None:
    """A dimension of several sizes comes apart, or all of them are laid out anew."""
    long = [d for d, dim in enumerate(dims) if len(dim) > 1]
    if not long:
        raise InvalidProgramError("nothing to split")
    d = g.choice.choice(long)
    cut = g.choice.randint(1, len(dims[d]) - 1)
    wanted = (*dims[:d], dims[d][:cut], dims[d][cut:], *dims[d + 1 :])
    g.add("reshape", Ref(name), Shape(tuple(wanted)))


def _gone(g: Growth, dims: Sequence[Dim]) -> tuple[int, ...]:
    if g.chance(0.5):
        return (g.choice.choice((len(dims) - 1, g.choice.randrange(len(dims)))),)
    found = tuple(d for d in range(len(dims)) if g.chance(0.5))
    return found or (len(dims) - 1,)


def reduce(g: Growth) -> None:
    op = g.choice.choice(
        ("sum", "sum", "sum", "mean", "max", "min", "prod", "var", "var_mean", "welford")
    )
    floats = op in ("mean", "var", "var_mean", "welford", "prod")
    name = g.pick(lambda v: bool(v.dims) and (v.dtype.is_float or not floats))
    gone: Any = _gone(g, g.value(name).dims)
    keepdim = g.chance(0.5)
    if op == "prod" and g.elements(g.value(name).dims) > 64:
        name = g.add("add", Ref(g.add("mul", Ref(name), 0.05)), 1.0)
    if op == "welford":
        g.add(op, Ref(name), gone, results=3)
        return
    if g.chance(0.05):
        gone = None
    options: dict[str, Any] = {"keepdim": True} if keepdim else {}
    if op in ("var", "var_mean") and g.chance(0.4):
        options["correction"] = g.choice.choice((0, 1, 0.5))
    if op in ("sum", "prod") and g.chance(0.1):
        options["dtype"] = g.choice.choice((DataType.Float, DataType.Double))
    reduced = g.add(op, Ref(name), gone, results=2 if op == "var_mean" else 1, **options)
    if keepdim and g.chance(0.5) and op in ("sum", "mean", "max", "min"):
        g.add("sub", Ref(name), Ref(reduced))


def carried(g: Growth) -> None:
    """A scan, the log of a sum of exponentials, or where an extreme is."""
    op = g.choice.choice(("cumsum", "cumsum", "cumsum", "logsumexp", "argmax", "argmin"))
    name = g.pick(lambda v: bool(v.dims) and (v.dtype.is_float or op != "logsumexp"))
    dim = g.choice.choice((-1, g.choice.randrange(len(g.value(name).dims))))
    if op == "logsumexp":
        g.add(op, Ref(name), _gone(g, g.value(name).dims), keepdim=g.chance(0.5))
        return
    options = {key: True for key in ("exclusive", "reverse") if g.chance(0.3)}
    if op == "cumsum":
        g.add(op, Ref(name), dim, **options)
    else:
        g.add(op, Ref(name), dim, keepdim=g.chance(0.5))


def norm(g: Growth) -> None:
    """A softmax or a norm over one or more dimensions, written out."""
    name = g.pick(lambda value: bool(value.dims) and value.dtype.is_float)
    dtype = g.value(name).dtype
    gone = _gone(g, g.value(name).dims)
    kind = g.choice.choice(("softmax", "log_softmax", "layer", "rms"))
    if kind in ("softmax", "log_softmax"):
        top = g.add("max", Ref(name), gone, keepdim=True)
        low = g.add("sub", Ref(name), Ref(top))
        power = g.add("exp", Ref(low))
        total = g.add("sum", Ref(power), gone, keepdim=True)
        if kind == "softmax":
            g.add("div", Ref(power), Ref(total))
        else:
            g.add("sub", Ref(low), Ref(g.add("log", Ref(total))))
        return
    if kind == "layer":
        variance = g.add("var_mean", Ref(name), gone, results=2, correction=0, keepdim=True)
        mean = g.meaning.program.statements[-1].results[1]
        centered = g.add("sub", Ref(name), Ref(mean))
    else:
        variance = g.add("mean", Ref(g.add("mul", Ref(name), Ref(name))), gone, keepdim=True)
        centered = name
    scale = g.add("rsqrt", Ref(g.add("add", Ref(variance), 1e-3)))
    scaled = g.add("mul", Ref(centered), Ref(scale))
    if g.chance(0.6):
        kept = tuple(dim if d in gone else () for d, dim in enumerate(g.value(name).dims))[
            min(gone) :
        ]
        weight = g.new_input(dtype, kept)
        g.add("mul", Ref(scaled), Ref(weight))
