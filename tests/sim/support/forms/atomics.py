"""atom, in memory that no other thread sees."""

from collections.abc import Iterator
from itertools import product

from tests.sim.support.forms.form import HALVES, WIDTH, Form
from warpsmith.sim.isa import Mode, Op, Type

# In global memory the GPU flushes subnormals of f32 (PTX says so) and does not quieten NaNs of f64;
# in shared memory ptxas 13.0 takes the wrong high half of pairs.
SHARED_ONLY = ("f32", "f64")
GLOBAL_ONLY = ("f16x2", "bf16x2")


def atomics() -> Iterator[Form]:
    """atom: A is what lies in memory, D what lies there afterwards."""
    kinds = {
        "add": ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
        **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")),
    }
    for space, (mode, types) in product(("global", "shared"), kinds.items()):
        for type_ in types:
            if mode == "add" and type_ in (SHARED_ONLY if space == "global" else GLOBAL_ONLY):
                continue
            width = WIDTH[type_]
            noftz = ".noftz" if type_ in HALVES else ""
            third = f", C{width}" if mode == "cas" else ""
            yield Form(
                text=f"atom.{space}.{mode}{noftz}.{type_} O{width}, [%slot], B{width}{third};",
                op=Op.ATOM,
                type=Type[type_.upper()],
                pools=(type_,) * (3 if third else 2),
                fields={"mode": Mode[mode.upper()]},
                atomic=True,
            )
