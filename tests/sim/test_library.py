"""The machine in the cache directory: kept, damaged, and where nothing can be kept."""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith import knobs
from warpsmith.sim import library as module
from warpsmith.sim.library import library


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """As in a process that has loaded nothing yet: the path that the machine will have."""
    monkeypatch.setattr(module, "_LOADED", {})
    with knobs.scope(cache_dir=tmp_path / "cache"):
        yield module._path(tmp_path / "cache")


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_what_is_whole_is_loaded(forgotten: Path, whole: bytes, quick: list[Path]) -> None:
    put(forgotten, whole)
    said: list[int] = []
    assert library(lambda: said.append(1)).sim_run
    assert not said
    assert not quick


@pytest.mark.parametrize("kept", [0, 3, 100, 5000, 100_000, -33, -1])
def test_a_cut_off_one_is_compiled_again_and_kept(
    forgotten: Path, whole: bytes, quick: list[Path], kept: int
) -> None:
    put(forgotten, whole[:kept])
    with pytest.warns(RuntimeWarning, match=r"the simulator in .*\.so is damaged, and is compiled"):
        assert library().sim_run
    assert forgotten.read_bytes() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library().sim_run
        module._LOADED.clear()
        assert library().sim_run
    assert len(quick) == 1


def test_without_a_place_in_the_cache_it_is_compiled_elsewhere(
    forgotten: Path, quick: list[Path]
) -> None:
    forgotten.parent.write_text("a file is in the way")
    with pytest.warns(RuntimeWarning, match="cannot be kept in .*; set WARPSMITH_CACHE_DIR"):
        assert library().sim_run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library().sim_run
    assert len(quick) == 1
    assert not quick[0].exists()


@pytest.mark.slow
def test_a_run_goes_on_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    program = (
        "import numpy as np, warpsmith\n"
        "x = np.ones((8, 8), np.float32)\n"
        "for _ in range(2):\n"
        "    print(warpsmith.fuse(lambda x: x + 1.0)(x).sum())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", program],
        env={
            "WARPSMITH_CACHE_DIR": str(tmp_path / "cache"),
            "WARPSMITH_DEVICE": "sim",
            "PYTHONPATH": ":".join(sys.path),
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["128.0", "128.0"]
    assert done.stderr.count("the simulator cannot be kept") == 1
    assert done.stderr.count("cannot keep compiled kernels") == 1
