"""`warpsmith.sim.run`: what it takes, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.sim.support.small import ADD_ONE, add_one_spec
from warpsmith import knobs, sim
from warpsmith.errors import SimulationError

TWO = ADD_ONE + ADD_ONE.partition(".address_size 64\n")[2].replace("add_one", "other")


def test_text_or_path_mapping_or_path(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(ADD_ONE)
    (tmp_path / "spec.json").write_text(json.dumps(add_one_spec()))
    for ptx in (ADD_ONE, tmp_path / "k.ptx"):
        for spec in (add_one_spec(), tmp_path / "spec.json"):
            report = sim.run(ptx, spec, schedules=1)
            assert report.verdict == "clean"
            assert (report.arrays["x"] == np.arange(32) + 1).all()


def test_the_argument_names_the_kernel_before_the_spec() -> None:
    assert sim.run(TWO, add_one_spec(), kernel="other").kernel == "other"
    assert sim.run(TWO, add_one_spec(kernel="other")).kernel == "other"
    assert sim.run(TWO, add_one_spec(kernel="other"), kernel="add_one").kernel == "add_one"
    with pytest.raises(SimulationError, match="2 kernels, and none was named"):
        sim.run(TWO, add_one_spec())


def test_as_many_schedules_as_asked() -> None:
    report = sim.run(ADD_ONE, add_one_spec(), schedules=5, seed=10)
    fixed = ("round-robin", "producer-first", "consumer-first")
    assert report.schedules == (*fixed, "random 13", "random 14")


def test_progress_says_what_begins(tmp_path: Path, quick: list[Path]) -> None:
    said: list[str] = []
    sim.run(ADD_ONE, add_one_spec(), schedules=2, progress=said.append)
    assert said[-2:] == ["schedule round-robin", "schedule producer-first"]
    said.clear()
    with knobs.scope(cache_dir=tmp_path):
        sim.run(ADD_ONE, add_one_spec(), schedules=1, progress=said.append)
    assert "compiling the machine, once a version" in said
    assert len(quick) == 1


def test_arrays_are_left_alone() -> None:
    x = np.zeros(32, np.float32)
    report = sim.run(ADD_ONE, add_one_spec(), arrays={"x": x})
    assert not x.any()
    assert report.arrays["x"].all()


@pytest.mark.parametrize(
    ("ptx", "said"),
    [
        ("kernel.ptx", "is no PTX text; give a Path"),
        ("", "is no PTX text"),
        (Path("gone.ptx"), "gone.ptx cannot be read"),
        (Path(), "cannot be read"),
        (ADD_ONE.replace("add.f32", "add.f33"), "line 15"),
        (ADD_ONE.replace("add.f32", "frobnicate"), "`frobnicate`"),
        (ADD_ONE[:300], "line"),
        ("\n", "no PTX text"),
    ],
)
def test_texts_that_are_refused(ptx: str | Path, said: str) -> None:
    with pytest.raises(SimulationError) as caught:
        sim.run(ptx, add_one_spec())
    assert said in str(caught.value)


def test_a_cubin_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(SimulationError, match="is not UTF-8: byte 4"):
        sim.run(tmp_path / "k.cubin", add_one_spec())


@pytest.mark.parametrize("option", ["seed", "schedules", "budget"])
@pytest.mark.parametrize("value", [-1, 1.5, "3", 1 << 70])
def test_options_that_are_refused(option: str, value: object) -> None:
    with pytest.raises(SimulationError, match=f"`{option}`"):
        sim.run(ADD_ONE, add_one_spec(), **{option: value})  # type: ignore[arg-type]


def test_a_machine_that_cannot_be_built(tmp_path: Path) -> None:
    program = (
        "from warpsmith import sim\nfrom tests.sim.support.small import ADD_ONE, add_one_spec\n"
        "from warpsmith.errors import SimulationError\n"
        "try: sim.run(ADD_ONE, add_one_spec())\nexcept SimulationError as e: print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"WARPSMITH_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/nowhere"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the simulator needs a C compiler, and none of cc, gcc, clang" in done.stdout


def test_public_names() -> None:
    for name in sim.__all__:
        assert getattr(sim, name) is not None
    assert set(sim.__all__) <= set(dir(sim))
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        sim.walk  # noqa: B018  # the access is what is tested
