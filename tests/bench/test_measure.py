"""How results are checked before their times count."""

from typing import Any

import pytest
import torch

from bench.measure import checked, one_line, significant

REFERENCE = (torch.arange(1.0, 9.0, dtype=torch.float64),)


def test_a_right_result_is_called_with_its_error() -> None:
    call, error = checked(
        lambda inputs: lambda: inputs[0].clone(), (REFERENCE[0].float(),), REFERENCE, "float"
    )
    assert error == 0.0
    assert torch.equal(call().double(), REFERENCE[0])


def test_elements_left_unwritten_are_seen() -> None:
    """The output was right once, and its memory keeps the numbers unless it is poisoned."""
    output = torch.zeros(8)

    def lazy(inputs: tuple[Any, ...]) -> Any:
        output.copy_(inputs[0])

        def call() -> torch.Tensor:
            output[:4] = inputs[0][:4]
            return output

        return call

    with pytest.raises(ValueError, match="wrong result, relative error nan"):
        checked(lazy, (REFERENCE[0].float(),), REFERENCE, "float")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (torch.ones(8), "wrong result, relative error 0"),
        (torch.ones(8, 1), r"shape \(8, 1\) in place of \(8,\)"),
        ((torch.ones(8), torch.ones(8)), "2 outputs in place of 1"),
    ],
)
def test_what_is_wrong_is_refused(result: Any, text: str) -> None:
    def call() -> Any:
        if isinstance(result, tuple):
            return tuple(tensor.clone() for tensor in result)
        return result.clone()

    with pytest.raises(ValueError, match=text):
        checked(lambda inputs: call, (), REFERENCE, "float")


def test_failures_fit_one_line() -> None:
    assert one_line(RuntimeError("out of memory\nat frame 3")) == "RuntimeError: out of memory"
    assert one_line(KeyError()) == "KeyError: "
    assert len(one_line(ValueError("x" * 5000))) == 300


def test_numbers_keep_the_digits_that_mean_something() -> None:
    assert significant(17.912345) == 17.912
    assert significant(0.00165432, 3) == 0.00165
    assert significant(None) is None
