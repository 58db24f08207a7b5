"""Every example runs as it stands, without a GPU, and prints what its reader came for."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SHOWN = {
    "norm": ("largest error: 1.9e-03", "scheduler   inner_persistent", "clean under 2 schedules"),
    "fused_mlp": ("kernel 1:", "wgmma in its text", "a launch of 2.5 µs"),
    "roles_by_hand": ("role        load: copy, warp 0, one thread", "write after read", "clean"),
    "nvfuser_style": ("fd.ops.sum(tv1", "scheduled by hand", "clean under 2 schedules"),
    "nvfuser_program": ("tv4 = fd.ops.sum(tv3, dims=[1], keepdim=True", "Hits: 1", "lines of CUDA"),
    "train_llama": ("learned", "forward: ", "backward: ", "2 of attention", "99% taken"),
    "check_kernel": ("missing-proxy-fence", "race", "doubled: clean under 8 schedules"),
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in SHOWN[name] if words not in printed] == []


def test_each_says_what_it_shows() -> None:
    for path in EXAMPLES.glob("*.py"):
        doc = path.read_text().partition('"""')[2].partition('"""')[0]
        assert f"python examples/{path.name}" in doc
        assert len(path.read_text().splitlines()) <= 100
