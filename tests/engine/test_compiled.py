"""From a Kernel with roles to machine code: its registers, its name, and ptxas's remarks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.hungry_roles import hungry
from tests.support.role_code import confirmed
from tests.support.role_kernels import streaming
from warpsmith import FusionDefinition
from warpsmith.engine import emission
from warpsmith.engine.compiled import CompiledKernel, compile_fusion
from warpsmith.engine.executable import Executable
from warpsmith.errors import CompileError, SpillWarning
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.kernel import Budgets, Kernel
from warpsmith.knobs import Knobs
from warpsmith.targets.hopper import H200


def compiled(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, knobs: Knobs) -> CompiledKernel:
    """The kernel in place of what lowering makes of some fusion."""
    monkeypatch.setattr(emission, "lower", lambda *arguments, **named: kernel)
    return compile_fusion(Fusion, "manual", DataType.Int32, knobs, target=H200)


def test_roles_get_registers_and_the_kernel_a_name_for_its_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    knobs = Knobs(cache_dir=tmp_path)
    result = compiled(hungry(180, budgets=Budgets()).kernel, monkeypatch, knobs)
    assert "role `compute` 240 (needs " in result.budgets
    assert "__launch_bounds__(384, 1)" in result.cuda
    assert f" {result.name}(" in result.cuda
    assert result.n_spills == 0
    assert confirmed(result).register_changes == 2
    off = compiled(hungry(100).kernel, monkeypatch, knobs)
    assert (off.budgets, confirmed(off).register_changes) == ("", 0)
    assert off.name != result.name


def test_spills_of_roles_are_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.warns(SpillWarning, match="role `compute` needs .* registers and has 168"):
        compiled(hungry(180).kernel, monkeypatch, Knobs(cache_dir=tmp_path))


def test_a_remark_fails_the_build_also_out_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = replace(streaming().kernel, budgets=Budgets(pair=(24, 240)))
    knobs = Knobs(cache_dir=tmp_path / "cache", override_dir=tmp_path)
    right = compiled(kernel, monkeypatch, knobs)
    wrong = right.cuda.replace("__launch_bounds__(384, 1)", "__launch_bounds__(384)")
    assert wrong != right.cuda
    (tmp_path / f"{right.name}.cu").write_text(wrong)
    for _ in range(2):
        with pytest.raises(CompileError, match=rf"WS0510.*`{right.name}`: .*C7508.*ignored"):
            compiled(kernel, monkeypatch, knobs)


def test_a_kernel_that_was_compiled_is_lowered_again_where_more_is_asked_of_it() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1], contiguity=[True])))
    executable, x = Executable(fd.fusion), np.ones(64, np.float32)
    knobs = Knobs(device="sim")
    first, again, thorough = (
        executable.plan_for([x], asking).launches[0].compiled
        for asking in (knobs, knobs, knobs.replace(verify="all"))
    )
    assert again is first
    assert thorough is not first
    assert thorough.cuda == first.cuda
