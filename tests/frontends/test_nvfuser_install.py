"""Programs that import nvFuser's module find warpsmith's."""

import importlib
import sys
import warnings
from typing import Any

import pytest
import torch

import warpsmith
from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import ops

PROGRAM = """
import torch
from nvfuser_direct import DataType, FusionDefinition, LruFusionCache
from nvfuser_direct.pytorch_utils import torch_dtype_to_nvfuser_dtype

x = torch.arange(12, dtype=torch.float32).reshape(3, 4)


@LruFusionCache(max_fusions=2)
def defined(factor):
    with FusionDefinition() as fd:
        t0 = fd.define_tensor(
            shape=[-1, -1], contiguity=[True, True], dtype=torch_dtype_to_nvfuser_dtype(x.dtype)
        )
        s0 = fd.define_scalar(None, dtype=DataType.Int)
        t1 = fd.ops.mul(t0, fd.define_scalar(factor))
        t2 = fd.ops.reshape(t1, [s0, 2])
        fd.add_output(fd.ops.sum(t2, dims=[-1], keepdim=False, dtype=DataType.Null))
    return fd


results = [defined(factor).execute([x, 6])[0] for factor in (2.0, 3.0, 2.0)]
kept = defined.num_fusions()
said = defined.stats()
"""


def test_a_program_for_nvfuser_runs_as_it_is() -> None:
    before = {name for name in sys.modules if name.startswith("nvfuser")}
    names: dict[str, Any] = {}
    with warpsmith.install_as_nvfuser():
        exec(PROGRAM, names)
    x = names["x"]
    for factor, found in zip((2, 3, 2), names["results"], strict=True):
        torch.testing.assert_close(found, (x * factor).reshape(6, 2).sum(-1))
    assert names["kept"] == 2
    assert "Hits: 1\nMisses: 2" in names["said"]
    assert {name for name in sys.modules if name.startswith("nvfuser")} == before


def test_a_program_that_imports_both_is_warned() -> None:
    with warpsmith.install_as_nvfuser(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        direct = importlib.import_module("nvfuser_direct")
        assert not said
        for _ in range(2):
            assert importlib.import_module("nvfuser") is direct is nvfuser
    (warning,) = said
    assert warning.category is UserWarning
    assert str(warning.message) == (
        "Be careful! You've imported nvfuser when the nvfuser_direct module is already imported."
    )
    with warpsmith.install_as_nvfuser():
        importlib.import_module("nvfuser")
        with pytest.warns(UserWarning, match="imported nvfuser_direct when the nvfuser module"):
            importlib.import_module("nvfuser_direct.ops")


def test_what_was_there_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    other: Any = object()
    monkeypatch.setitem(sys.modules, "nvfuser_direct", other)
    installed = warpsmith.install_as_nvfuser()
    assert importlib.import_module("nvfuser_direct.ops") is ops
    assert sys.modules["nvfuser_direct"] is nvfuser
    installed.undo()
    assert sys.modules["nvfuser_direct"] is other
