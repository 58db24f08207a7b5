"""Functions that may hang or lose the GPU run in a process of their own, for so long and no longer.

A new kernel is launched for the first time like this: whatever it does, the tests go on.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_KILLED_WITHIN = 5.0
"""Seconds to wait for a process that was killed: one that the driver holds may stay."""


class RaisedApartError(Exception):
    """The function raised; the text is the type's name and the words of what it raised."""


class DiedApartError(Exception):
    """The process ended without a result, or had none in time; the text has its last output."""


def apart(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    """The result of `function(*args)`, called in a new process.

    Args:
        function: a name at the top of a module, which the process imports.
        args: and the result: what can be pickled.
        timeout: seconds, the start of the process included, after which it is killed.

    Raises:
        RaisedApartError: the function raised.
        DiedApartError: the process was killed, by this function or by something else.
    """
    with tempfile.TemporaryDirectory() as folder:
        call, answer, output = (Path(folder) / name for name in ("call", "answer", "output"))
        call.write_bytes(pickle.dumps((function.__module__, function.__qualname__, args)))
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.apart", str(call), str(answer)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
            try:
                ended = f"ended with {process.wait(timeout)}"
            except subprocess.TimeoutExpired:
                ended = f"had no result after {timeout} s"
                _kill(process)
        if not answer.is_file():
            last = output.read_text(errors="replace")[-2000:]
            raise DiedApartError(f"the process {ended}\n{last}")
        raised, result = pickle.loads(answer.read_bytes())
    if raised:
        raise RaisedApartError(result)
    return result


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    try:
        process.wait(_KILLED_WITHIN)
    except subprocess.TimeoutExpired:
        return


def _answer(call: Path, answer: Path) -> None:
    """What the process does: the answer is there as a whole or not at all."""
    module, name, args = pickle.loads(call.read_bytes())
    try:
        outcome = (False, getattr(import_module(module), name)(*args))
    except Exception as error:
        outcome = (True, f"{type(error).__name__}: {error}")
    writing = answer.with_suffix(".writing")
    writing.write_bytes(pickle.dumps(outcome))
    writing.rename(answer)


if __name__ == "__main__":
    _answer(Path(sys.argv[1]), Path(sys.argv[2]))
