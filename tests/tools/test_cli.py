"""The command line, run as users run it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from warpsmith.tools import demo
from warpsmith.tools.cli import app

PROGRAM = """
from warpsmith import fuse, ops

@fuse
def gate(x, y, scale):
    return ops.silu(x) * y * scale

def plain(x):
    return x.sum([0])

def broken(x):
    return ops.permute(x, [0, 5])

def turned(x):
    return ops.permute(x, [1, 0]) * 2.0

number = 3
"""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WARPSMITH_DEVICE", "reference")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_demo_shows_the_choice_the_kernels_and_a_right_answer() -> None:
    result = call("demo", "--rows", 32, "--columns", 64)
    assert result.exit_code == 0, result.output
    for text in ("scheduler ", 'extern "C" __global__', " registers, ", "compiled for sm_90a"):
        assert text in result.output
    assert result.output.count(": right") == 2
    assert "struct ws_bfloat16" not in result.output  # of the prelude


def test_demo_prints_the_prelude_when_asked() -> None:
    short = call("demo", "--rows", 32, "--columns", 64)
    full = call("demo", "--rows", 32, "--columns", 64, "--full")
    assert len(full.output) > len(short.output)
    assert full.exit_code == 0


def test_demo_fails_when_the_answer_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = demo.reference

    def other(*inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dx, dweight = truth(*inputs)
        return dx, 1.01 * dweight

    monkeypatch.setattr(demo, "reference", other)
    result = call("demo", "--rows", 32, "--columns", 64)
    assert result.exit_code == 1
    assert result.output.count(": right") == 1
    assert "dweight  relative error against float64 " in result.output
    assert "WRONG, more than 3.9e-03" in result.output


def test_demo_needs_no_torch() -> None:
    block = "import sys; sys.modules['torch'] = None; from warpsmith.tools.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", block, "demo", "--rows", "32", "--columns", "64"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": right") == 2


def test_help_imports_neither_arrays_nor_drivers() -> None:
    listing = (
        "import sys; from warpsmith.tools.cli import app\n"
        "print([m for m in ('numpy', 'torch', 'cuda.bindings') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_explain_says_what_is_chosen(program: Path) -> None:
    result = call("explain", f"{program}:gate", "bfloat16[64,256]", "bfloat16[64,256]", 0.5)
    assert result.exit_code == 0, result.output
    assert "scheduler   pointwise" in result.output
    assert "not reduction: it does not reduce" in result.output
    assert "extern" not in result.output


@pytest.mark.parametrize(("target", "arch"), [("h100", "sm_90a"), ("b200", "sm_100a")])
def test_explain_is_for_the_target_that_is_named(program: Path, target: str, arch: str) -> None:
    given = [f"{program}:gate", "bfloat16[64,256]", "bfloat16[64,256]", 0.5]
    result = call("explain", "--target", target, *given)
    assert result.exit_code == 0, result.output
    assert f"made for {target} ({arch})" in result.output
    assert "made for h200 (sm_90a)" in call("explain", *given).output


def test_explain_takes_plain_functions_and_prints_kernels(program: Path) -> None:
    result = call("explain", f"{program}:plain", "float[64,256]", "--cuda")
    assert result.exit_code == 0, result.output
    assert "scheduler   reduction" in result.output
    assert 'extern "C" __global__' in result.output


def test_explain_lists_what_orders_accesses(program: Path) -> None:
    result = call("explain", f"{program}:turned", "float[1024,2048]", "--sync")
    assert result.exit_code == 0, result.output
    assert ": read after write, straight on" in result.output
    assert "by        barrier of the block: other threads wrote it" in result.output
    assert "__syncthreads();" in result.output
    assert "edge" not in call("explain", f"{program}:turned", "float[1024,2048]").output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["explain", "{}:gate", "bfloat16[4,8]"], "missing"),
        (["explain", "{}:gate", "bf16[4,8]", "float[8]", "1"], "'bf16[4,8]' is neither an array"),
        (["explain", "{}:nothing", "float[8]"], "no function 'nothing'; it has broken, fuse"),
        (["explain", "{}:number", "float[8]"], "no function 'number'"),
        (["explain", "--target", "h800", "{}:plain", "float[8]"], "target='h800' is not allowed"),
        (["explain", "{}", "float[8]"], "names no function; write FILE.py:FUNCTION"),
        (["explain", "absent.py:f", "float[8]"], "there is no file absent.py"),
        (["explain", "{}:broken", "float[8,8]"], "permute"),
        (["bench", "pointwize"], "there is no suite 'pointwize'"),
        (["bench", "pointwise", "--peers", "all"], "peers='all' is not known"),
        (["bench", "pointwise", "--sizes", "8192*4"], "'8192*4' is no shape"),
    ],
)
def test_mistakes_are_one_line_and_status_2(program: Path, arguments: list[str], text: str) -> None:
    result = call(*(argument.format(program) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("error: [WS0")


def test_suites_may_be_named_with_hyphens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.gpu_name", lambda: "none")
    result = call("bench", "norm-fwd", "norm-bwd", "softmax")
    assert result.exit_code == 2, result.output
    assert "suite norm_fwd needs a GPU" in result.stderr


@pytest.mark.parametrize(
    ("text", "place"), [("x = 1\ny = 1 / 0\n", ":2 raised Zero"), ("def f(:\n", ":1 raised Syntax")]
)
def test_a_file_that_fails_is_named_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "failing.py"
    path.write_text(text)
    result = call("explain", f"{path}:f", "float[8]")
    assert result.exit_code == 2
    assert f"{path}{place}" in result.stderr


def test_a_function_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text("def f(x):\n    return helper(x)\n\ndef helper(x):\n    return x.nonsense\n")
    result = call("explain", f"{path}:f", "float[8]")
    assert result.exit_code == 2, result.output
    assert f"error: [WS0140] {path}:5 raised AttributeError: " in result.stderr
    assert " (at " not in result.stderr  # a line of warpsmith's own


def test_a_failure_of_warpsmith_is_not_blamed_on_the_user(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.ops.elementwise.rounded", None)
    result = call("explain", f"{program}:gate", "bfloat16[4,8]", "bfloat16[4,8]", 0.5)
    assert isinstance(result.exception, TypeError)


def test_cache_is_listed_and_pruned_by_age(program: Path, tmp_path: Path) -> None:
    assert "0 files, 0.00 MiB" in call("cache", "ls").output
    call("explain", f"{program}:plain", "float[64,256]")
    listed = call("cache", "ls").output
    assert "1 file, " in listed
    (entry,) = (tmp_path / "cache").glob("*.cubin")
    assert entry.stem[:16] in listed
    assert "removed 0 files" in call("cache", "prune").output
    last_year = time.time() - 365 * 86400
    os.utime(entry, (last_year, last_year))
    assert "removed 1 file, " in call("cache", "prune").output
    assert not entry.exists()


def test_cache_prune_of_zero_days_removes_everything(program: Path, tmp_path: Path) -> None:
    call("explain", f"{program}:plain", "float[64,256]")
    (tmp_path / "cache" / ".writing-left-behind").write_bytes(b"x")
    assert "removed 2 files" in call("cache", "prune", "--days", 0).output
    assert list((tmp_path / "cache").iterdir()) == []


def test_cache_says_what_is_held_and_is_cleared(program: Path, tmp_path: Path) -> None:
    call("explain", f"{program}:plain", "float[64,256]")
    said = call("cache").output
    assert "1 file, 0.0" in said
    assert f"MiB of 4096 in {tmp_path / 'cache'}" in said.replace("\n", "")
    assert "at most 1024 traces, 4096 plans, " in said
    assert "removed 1 file, " in call("cache", "--clear").output
    assert list((tmp_path / "cache").iterdir()) == []


def test_demo_verifies_its_kernels_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_DEVICE", "sim")
    monkeypatch.delenv("WARPSMITH_CACHE_DIR")  # the simulator is there already
    result = call("demo", "--rows", 32, "--columns", 64)
    assert result.exit_code == 0, result.output
    assert result.output.count(": right") == 2
    assert result.output.count("clean under 4 schedules") == 2
    assert "run by the simulator" in result.output
