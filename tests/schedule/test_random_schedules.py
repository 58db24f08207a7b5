"""Every schedule by hand is either refused, in words, or computes the right numbers."""

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from tests.support.launching import check, launched, random_inputs, reference, values_of
from tests.support.lowering import lowered
from tests.support.scheduling import FACTOR, Chooser
from tests.support.templates import TEMPLATES
from warpsmith.errors import ScheduleError
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.printer import kernel_text

EXAMPLES = (24, pytest.param(80, marks=pytest.mark.slow))


def outcome(name: str, data: st.DataObject) -> str:
    """`right`, or the code of the refusal; an AssertionError is a wrong kernel."""
    extents = st.integers(1, 9)
    rows, columns = data.draw(extents), data.draw(extents)
    program, shapes = TEMPLATES[name](data.draw(st.booleans()), rows, columns)
    scheduled = program.fusion.draft()
    chooser = Chooser(data.draw, scheduled)
    factor = data.draw(st.sampled_from([1, 2, 3, 5]))
    try:
        chooser.apply()
        kernel = lowered(scheduled)
    except ScheduleError as refusal:
        return refusal.code if refusal.remedy else "a refusal without a remedy"
    note("\n".join(chooser.steps))
    note(kernel_text(kernel))
    inputs = random_inputs(program.fusion, shapes)
    values = {**values_of(program.fusion, inputs), FACTOR: factor}
    assume(np.prod([evaluate(extent, values) for extent in kernel.launch.block]) <= 1024)
    assume(all(evaluate(expr, values) % divisor == 0 for expr, divisor in kernel.requirements))
    results = launched(scheduled, kernel, inputs, values)
    known = reference(program.fusion, inputs, values)
    for output, result in zip(program.fusion.outputs, results, strict=True):
        check(result, known[output.value.name], output.value.dtype, terms=100)
    return "right"


@pytest.mark.few(8)
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_refused_or_right(name: str, examples: int) -> None:
    outcomes: list[str] = []

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        outcomes.append(outcome(name, data))

    run()
    assert "a refusal without a remedy" not in outcomes
    assert outcomes.count("right") >= examples // 40, outcomes  # few are, of some templates


def test_one_program_is_scheduled_in_many_ways() -> None:
    """The chooser reaches kernels that differ, or the test above would say little."""
    texts: set[str] = set()

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        program, _ = TEMPLATES["biased"](True, 4, 8)
        try:
            Chooser(data.draw, program.fusion).apply()
            texts.add(kernel_text(lowered(program)))
        except ScheduleError:
            pass

    run()
    assert len(texts) >= 5
