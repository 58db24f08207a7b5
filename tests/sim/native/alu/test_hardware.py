"""Every form of every instruction against what an H200 gave for the same operands."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support.alu import Alu
from tests.sim.support.forms.every import FAMILIES, all_forms
from tests.sim.support.forms.form import Form
from tests.sim.support.forms.pools import sources
from tests.sim.support.forms.recording import Recorded, digest, load
from tests.sim.support.forms.replay import replay
from warpsmith.sim.isa import Op, Type

Values = npt.NDArray[np.uint64]

FORMS = all_forms()
# Width, infinity.
LAYOUTS = {
    Type.F32: (32, 0x7F800000),
    Type.F64: (64, 0x7FF << 52),
    Type.F16: (16, 0x7C00),
    Type.BF16: (16, 0x7F80),
}
# Beyond these the functions are only promised to be near absolutely, not by their own size.
ABSOLUTE = {Op.SIN: 2.0**-20, Op.COS: 2.0**-20, Op.LG2: 2.0**-21}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Recorded]:
    counts = [sources(form.pools)[0].size for form in FORMS]
    return load(Path(__file__).with_name("h200.npz"), FORMS, counts)


def difference(
    form: Form, operands: tuple[Values, ...], d: Values, q: Values, kept: Recorded
) -> str:
    """The first sample that differs, for a message."""
    for index, at in enumerate(kept.at):
        if d[at] != kept.d[index] or q[at] != kept.q[index]:
            shown = ", ".join(hex(array[at]) for array in operands)
            gpu, ours = (kept.d[index], kept.q[index]), (d[at], q[at])
            return f"{form.name}: for {shown} the GPU gives {gpu}, we give {ours}"
    return f"{form.name}: differs from the GPU, in none of the samples"


@pytest.mark.few(4)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_exact_forms_agree_to_the_last_bit(
    alu: Alu, recorded: dict[str, Recorded], family: Callable[[], Iterator[Form]]
) -> None:
    wrong = []
    for form in family():
        if form.ulps is not None:
            continue
        operands = sources(form.pools)
        d, q = replay(alu, form, operands)
        kept = recorded[form.name]
        if digest(d, q) != kept.digest:
            wrong.append(difference(form, operands, d, q, kept))
    assert not wrong, "\n".join(wrong)


def parts(form: Form, values: Values) -> list[tuple[Type, Values]]:
    """The numbers of a register, each with its type."""
    if form.type in (Type.F16X2, Type.BF16X2):
        single = Type.F16 if form.type is Type.F16X2 else Type.BF16
        return [(single, values & np.uint64(0xFFFF)), (single, values >> np.uint64(16))]
    return [(form.type, values)]


def steps(type_: Type, values: Values) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Numbers counted from zero by their last bit, and which are neither infinite nor NaN."""
    width, infinity = LAYOUTS[type_]
    magnitude = (values & np.uint64((1 << (width - 1)) - 1)).astype(np.int64)
    negative = (values >> np.uint64(width - 1)).astype(bool)
    return np.where(negative, -magnitude, magnitude), magnitude < infinity


@pytest.mark.parametrize("form", [form for form in FORMS if form.ulps is not None], ids=str)
def test_approximate_forms_are_near(alu: Alu, recorded: dict[str, Recorded], form: Form) -> None:
    kept = recorded[form.name]
    operands = sources(form.pools)
    ours, _ = replay(alu, form, tuple(array[kept.at] for array in operands))
    assert form.ulps is not None
    for (type_, mine), (_, theirs) in zip(parts(form, ours), parts(form, kept.d), strict=True):
        mine_at, mine_finite = steps(type_, mine)
        their_at, their_finite = steps(type_, theirs)
        assert (mine[~their_finite] == theirs[~their_finite]).all()
        assert (mine_finite == their_finite).all()
        near = np.abs(mine_at - their_at) <= form.ulps
        if form.op in ABSOLUTE:
            a, b = (bits.astype(np.uint32).view(np.float32) for bits in (mine, theirs))
            with np.errstate(invalid="ignore"):
                near |= np.abs(a - b) <= ABSOLUTE[form.op]
            # The GPU's argument of sin and cos, far out, is itself no nearer.
            near |= form.op is not Op.LG2
        assert near[their_finite].all()
