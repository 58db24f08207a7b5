"""The bench of epilogues: its programs are right, and one kernel each where that is so today."""

import pytest

import warpsmith
from bench.epilogues import Program, Row, check, inputs_of, line, main, plain_inputs, programs
from warpsmith import knobs

SMALL = (72, 136, 64)


@pytest.mark.few(2)
@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_programs_are_right(program: Program) -> None:
    inputs = inputs_of(program, SMALL, "cpu")
    with knobs.scope(device="sim"):
        results = warpsmith.fuse(program.fused)(*inputs)
    check(program, inputs, results)
    wrong = [2 * r for r in results] if isinstance(results, tuple | list) else 2 * results
    with pytest.raises(ValueError, match="relative error|are kept"):
        check(program, inputs, wrong)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_the_plain_product_multiplies_as_much(program: Program) -> None:
    """Both weights of a gated unit count: the one product is as large as its two."""
    x, weight = plain_inputs(program, inputs_of(program, SMALL, "cpu"))
    m, n, k = SMALL
    assert x.shape == (m, k)
    assert weight.shape == ((2 if program.name == "swiglu" else 1) * n, k)


def test_rows_and_failures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("x", (1, 2, 3), {"plain": 10.0, "fused": 11.0, "torch": 22.0, "cublas": 9.0}, 1)
    assert "over plain 1.100  over torch 2.00" in line(row)
    assert line(Row("x", (1, 2, 3), error="why")).endswith("why")
    assert main(["--seconds", "-1"]) == 0
    assert capsys.readouterr().out == ""
