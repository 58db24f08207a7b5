"""One program defined, planned or run, and held against its meaning."""

import re
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal
from unittest import mock

import numpy as np

from tests.programs import bounds
from tests.programs.meaning import Meaning, Value
from tests.programs.program import Input, InvalidProgramError, Program
from tests.support.binaries import uncompiled
from warpsmith import knobs
from warpsmith.errors import PlanWarning, WarpsmithError
from warpsmith.runtime import arrays

Mode = Literal["plan", "sim", "reference", "gpu"]
Kind = Literal["passed", "skipped", "refused", "wrong", "crashed", "hung"]

_MOST_LEFT_OUT = 0.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a program.

    Attributes:
        code: of the error: `WS0400`, or the class of one that is no user's.
        message: of the error, or what is wrong where.
        left_out: share of the results' elements whose value is not known well enough.
    """

    kind: Kind
    code: str = ""
    message: str = ""
    left_out: float = 0.0
    seconds: float = 0.0

    @property
    def group(self) -> tuple[str, str, str]:
        """Equal for failures of one kind: without names and numbers."""
        line = self.message.split("\n")[0]
        plain = re.sub(r"\b(T\d+\w*|\w+_[0-9a-f]{10})\b", "T", line)
        plain = re.sub(r"i[TS]?\d+\b", "i", plain)
        return self.kind, self.code, re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", plain)


def judged(program: Program, mode: Mode) -> Verdict:
    """The verdict on a program; nothing is raised but InvalidProgramError.

    It crashed where a scheduler took a part of it, and then had no schedule: PlanWarning.
    """
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        verdict = _judged(program, mode)
    return replace(verdict, seconds=time.perf_counter() - began)


def _judged(program: Program, mode: Mode) -> Verdict:
    space: dict[str, Any] = {}
    try:
        with np.errstate(all="ignore"):
            exec(compile(program.definition(), "<program>", "exec"), space)
        fd, inputs = space["fd"], space["inputs"]
        if mode == "plan":
            plan_only(fd, inputs)
            return Verdict("passed")
        results = _run(fd, inputs, mode)
    except WarpsmithError as refusal:
        kind: Kind = "crashed" if refusal.code.startswith(("WS05", "WS06", "WS08")) else "refused"
        text = re.sub(rf"^\[{refusal.code}\] ", "", str(refusal))
        return Verdict(kind, refusal.code, text)
    except Exception as failure:
        return Verdict("crashed", type(failure).__name__, f"{failure} {_place(failure)}")
    return compared(program, inputs, results)


def _place(failure: Exception) -> str:
    frames = traceback.extract_tb(failure.__traceback__)
    own = [frame for frame in frames if "/warpsmith/" in frame.filename] or frames
    name = own[-1].filename.rsplit("/warpsmith/", 1)[-1]
    return f"[{name}: {own[-1].name}]"


def _run(fd: Any, inputs: Sequence[Any], mode: Mode) -> list[np.ndarray]:
    """What the call returns, on the host; aliased results are left in `inputs`."""
    if mode != "gpu":
        with knobs.scope(device=mode):
            return [arrays.to_numpy(result) for result in fd.execute(inputs)]
    return _on_gpu(fd, inputs)


def _on_gpu(fd: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """As PyTorch's tensors on the GPU; what is allocated for results holds NaNs."""
    import torch

    given = [_on_device(x, torch) if isinstance(x, np.ndarray) else x for x in inputs]
    with ExitStack() as stack:
        for name in ("empty", "empty_strided"):
            stack.enter_context(mock.patch.object(torch, name, _poisoned(getattr(torch, name))))
        results = fd.execute(given)
    torch.cuda.synchronize()
    for host, device in zip(inputs, given, strict=True):
        if isinstance(host, np.ndarray) and host.flags.writeable and host.size:
            host[...] = arrays.to_numpy(device.cpu())
    return [arrays.to_numpy(result.cpu()) for result in results]


def _on_device(array: np.ndarray, torch: Any, device: str = "cuda") -> Any:
    """A tensor with the strides and the misalignment of a host array."""
    like = arrays.from_numpy(np.array(array, order="C"), torch.zeros(()))
    strides = [step // array.itemsize for step in array.strides]
    last = sum((e - 1) * s for e, s in zip(array.shape, strides, strict=True) if e)
    lead = array.ctypes.data % 64 // array.itemsize
    whole = torch.zeros(lead + last + 1, dtype=like.dtype, device=device)
    placed = torch.as_strided(whole, array.shape, strides, lead)
    if array.size and 0 not in strides:
        placed.copy_(like)
    elif array.size:  # memory that elements share is written once
        steps = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)
        placed[steps].copy_(like[steps])
    return placed


def _poisoned(allocate: Any) -> Any:
    def made(*args: Any, **options: Any) -> Any:
        tensor = allocate(*args, **options)
        if tensor.dtype.is_floating_point:
            return tensor.fill_(float("nan"))
        bytes_of_nans = str(tensor.dtype) == "torch.uint8"
        return tensor.fill_(255 if bytes_of_nans else 1)

    return made


def compared(program: Program, inputs: Sequence[Any], results: Sequence[np.ndarray]) -> Verdict:
    """The verdict on the results of a call."""
    meaning = Meaning(program)
    meaning.run()
    returned = iter(results)
    names = [given.name for given in program.inputs]
    left_out = total = 0
    for position, (name, alias) in enumerate(program.outputs):
        got = inputs[names.index(alias)] if alias else next(returned)
        value = meaning.values[name]
        complaint, unknown = differences(value, got)
        if complaint:
            return Verdict("wrong", "WRONG", f"output {position} ({name}): {complaint}")
        left_out += unknown
        total += got.size
    share = left_out / total if total else 0.0
    return Verdict("skipped" if share > _MOST_LEFT_OUT else "passed", left_out=share)


def differences(value: Value, got: np.ndarray) -> tuple[str, int]:
    """What is wrong with a result, or nothing, and how many elements were left out."""
    want = value.narrow()
    kind = arrays.NUMPY_DTYPES[value.dtype.value]
    if got.dtype != kind or got.shape != want.value.shape:
        return f"is {got.dtype}{got.shape}, and should be {kind}{want.value.shape}", 0
    left_out = int(want.unknown.sum())
    if not value.dtype.is_float:
        bad = (got != want.value) & ~want.unknown
        return _worst(bad, got, want.value, want.error), left_out
    held = got.astype(np.float64)
    allowed = want.error + bounds.SMALLEST[value.dtype] * (want.error > 0)
    with np.errstate(all="ignore"):
        near = np.abs(held - want.value) <= allowed
    same = (held == want.value) | (np.isnan(held) & np.isnan(want.value))
    bad = ~(near | same | want.unknown)
    return _worst(bad, held, want.value, allowed), left_out


def _worst(bad: np.ndarray, got: np.ndarray, want: np.ndarray, allowed: np.ndarray) -> str:
    if not bad.any():
        return ""
    with np.errstate(all="ignore"):
        away = np.abs(got.astype(np.float64) - want.astype(np.float64)) / (allowed + 1e-300)
    away = np.where(bad, np.where(np.isnan(away), np.inf, away), -1.0)
    place = np.unravel_index(int(away.argmax()), bad.shape)
    at = tuple(int(index) for index in place)
    return (
        f"{int(bad.sum())} of {bad.size} elements are wrong; worst at {at}: got "
        f"{got[place].item()!r}, expected {want[place].item()!r} within {float(allowed[place]):.3g}"
    )


def plan_only(fd: Any, inputs: Sequence[Any]) -> Any:
    """Plan, choose parameters and lower each kernel for these inputs; compile nothing."""
    with uncompiled():
        return fd._ready(False).plan_for(inputs)


def ran(program: Program) -> Meaning:
    """What a program means: at small sizes, where it has a meaning at these.

    Raises:
        InvalidProgramError: where it has none.
    """
    meaning = Meaning(program.small())
    try:
        meaning.run()
    except InvalidProgramError:  # as of indices inside of larger ones
        meaning = Meaning(program)
        meaning.run()
    return meaning


def valid(program: Program) -> bool:
    """Whether a program keeps all rules, has outputs, and can be written down."""
    try:
        program.definition()
        meaning = ran(program)
    except InvalidProgramError:
        return False
    inputs = {given.name for given in program.inputs if isinstance(given, Input)}
    known = all(name in meaning.values for name, _ in program.outputs)
    return (
        bool(program.outputs)
        and known
        and all(not alias or alias in inputs for _, alias in program.outputs)
    )
