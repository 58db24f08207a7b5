"""The process in which risky kernels are launched first: results, errors, and its end."""

import os
import time

import pytest

from tests.support.apart import DiedApartError, RaisedApartError, apart


def double(number: int) -> int:
    return 2 * number


def refuse(word: str) -> None:
    raise ValueError(f"not {word}")


def die() -> None:
    print("last words", flush=True)
    os._exit(3)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def test_a_result_comes_back() -> None:
    assert apart(double, 21, timeout=60) == 42


def test_an_exception_comes_back_in_words() -> None:
    with pytest.raises(RaisedApartError, match=r"^ValueError: not now$"):
        apart(refuse, "now", timeout=60)


def test_a_process_that_dies_says_how() -> None:
    with pytest.raises(DiedApartError, match=r"(?s)ended with 3.*last words"):
        apart(die, timeout=60)


def test_a_process_that_hangs_is_killed() -> None:
    start = time.monotonic()
    with pytest.raises(DiedApartError, match=r"no result after 1\.0 s"):
        apart(sleep, 60.0, timeout=1.0)
    assert time.monotonic() - start < 30
