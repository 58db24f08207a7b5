"""What `make test` runs: which cases of a test stand for all, and how long a test may take."""

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest


class Case(SimpleNamespace):
    """A case as pytest collects it, as far as `few` looks at it."""

    __hash__ = object.__hash__


def cases(*values: tuple[str, ...]) -> list[Any]:
    """All cases of a test with these values of its parameters."""
    names = ["-".join(chosen) for chosen in itertools.product(*values)]
    return [Case(name=f"test[{name}]", callspec=SimpleNamespace(id=name)) for name in names]


@pytest.mark.parametrize("count", [4, 6, 24])
def test_few_cases_have_all_values(count: int) -> None:
    values = (("a", "b"), ("tma", "bulk", "cp_async", "shared"), ("1", "2", "3"))
    chosen = [case.callspec.id.split("-") for case in conftest.spread(cases(*values), count)]
    assert len(chosen) == count
    assert [set(column) for column in zip(*chosen, strict=True)] == [set(v) for v in values]


def test_words_of_a_name_are_values_too() -> None:
    names = tuple(f"{kind}_of_{count}_groups" for kind in ("rows", "sums") for count in range(9))
    chosen = {case.callspec.id.split("_")[0] for case in conftest.spread(cases(names), 2)}
    assert chosen == {"rows", "sums"}


def test_the_same_cases_are_chosen_in_any_order() -> None:
    made = cases(("a", "b", "c"), ("1", "2", "3", "4"))
    first = {case.name for case in conftest.spread(made, 5)}
    assert first == {case.name for case in conftest.spread(made[::-1], 5)}


@pytest.mark.parametrize(
    ("spent", "marked", "folder"),
    [(1.0, False, "lower"), (1e3, True, "lower"), (1e3, False, "gpu"), (1e3, False, "lower")],
)
def test_a_test_that_takes_long_fails_unless_make_test_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, spent: float, marked: bool, folder: str
) -> None:
    clock = iter([0.0, spent])
    path = Path("tests", folder, "test_x.py")
    item: Any = SimpleNamespace(get_closest_marker=lambda name: marked or None, path=path)
    with monkeypatch.context() as patch:
        patch.setattr(time, "process_time", lambda: next(clock))
        call = conftest.pytest_runtest_call(item)
        next(call)
        with pytest.raises(
            StopIteration if spent == 1 or marked or folder == "gpu" else pytest.fail.Exception
        ) as e:
            call.send("done")
    if isinstance(e.value, StopIteration):
        assert e.value.value == "done"
    else:
        assert "1000 s of processor time" in str(e.value)
        assert "mark it slow" in str(e.value)
