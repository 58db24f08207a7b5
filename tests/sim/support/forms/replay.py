"""Apply a form of `forms` by the simulator's arithmetic, as a kernel of `form_kernels` does."""

import ctypes

import numpy as np
import numpy.typing as npt

from tests.sim.support.alu import Alu
from tests.sim.support.forms.form import LETTER_OF, Form
from tests.sim.support.forms.kernels import source_letters
from warpsmith.sim.isa import Flag, Op, Type

Values = npt.NDArray[np.uint64]


def letters_of(text: str) -> tuple[str, ...]:
    """The source letters of one instruction, in the order they stand in it."""
    return tuple(LETTER_OF.findall(text))


def replay(alu: Alu, form: Form, operands: tuple[Values, ...]) -> tuple[Values, Values]:
    """Both destinations; the second is zeros where a form has none."""
    by_letter = dict(zip(source_letters(form), operands, strict=True))
    if form.atomic:
        return apply_atomic(alu, form, operands), np.zeros_like(operands[0])
    if form.first is None:
        named = [by_letter[letter] for letter in letters_of(form.text)]
        rows = [*named[:3], *(np.full_like(named[0], c) for c in form.constants), *named[3:]]
        result = alu.run(form.op, form.type, *rows, **form.fields)
        return result.d, result.d2 if "Qp" in form.text else np.zeros_like(result.d)
    first = form.first
    named = [by_letter[letter] for letter in letters_of(first.text)]
    before = alu.run(first.op, first.type, *named, **first.fields)
    named = [by_letter[letter] for letter in letters_of(form.text)]
    result = alu.run(form.op, form.type, *named, carry=before.carry, **form.fields)
    zeros = np.zeros_like(named[0])
    after = alu.run(Op.ADDC, Type.U32, zeros, zeros, carry=result.carry, flags=Flag.CARRY)
    return result.d, after.d


def apply_atomic(alu: Alu, form: Form, operands: tuple[Values, ...]) -> Values:
    """What lies in memory after one atomic operation for each operand."""
    rows = [array.tolist() for array in (*operands, np.zeros_like(operands[0]))][:3]
    mode, type_ = form.fields["mode"], int(form.type)
    word = ctypes.c_uint64
    call = alu.library.atomic_apply
    return np.array(
        [call(mode, type_, *map(word, row)) for row in zip(*rows, strict=True)], np.uint64
    )
