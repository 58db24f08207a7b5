"""Calls of tensors on a GPU, on a machine that has none: launches are noted, and computed nowhere.

Tensors of the host pass for those of one GPU, `device_told`, for Python (`FakeDriver`) and for the
launcher in C (`stand_in.c`) alike, so that what both launch can be compared.
"""

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs import judge
from tests.programs.generate import generate
from tests.support.fake_driver import CONTEXT, ELSEWHERE, OK, FakeDriver, install, no_kernels_loaded
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.runtime import launcher

SIZES = {"P": 8, "q": 8, "d": 8, "i": 4, "f": 4, "?": 1, "T": 128}

_Config = type(
    "_Config",
    (ctypes.Structure,),
    {
        "_fields_": [
            ("grid", ctypes.c_uint * 3),
            ("block", ctypes.c_uint * 3),
            ("shared_bytes", ctypes.c_uint),
            ("stream", ctypes.c_void_p),
            ("attributes", ctypes.c_void_p),
            ("attribute_count", ctypes.c_uint),
        ]
    },
)
_SEEN = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Config), ctypes.c_void_p, ctypes.c_void_p)


@cache
def library() -> ctypes.CDLL:
    """The stand-in, compiled; skips tests where there is no compiler."""
    made = Path(mkdtemp(prefix="warpsmith-stand-in-")) / "stand_in.so"
    source = Path(__file__).with_name("stand_in.c")
    include = Path(launcher.__file__).parent / "native"
    command = ["cc", "-O1", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(made)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    return ctypes.CDLL(str(made))


def told(name: str, kind: Any = ctypes.c_int) -> Any:
    """A variable of the stand-in; `.value` of it can be read and written."""
    return kind.in_dll(library(), name)


@dataclass
class StandIn:
    """What was launched and allocated since it was last asked.

    Attributes:
        formats: letters of the arguments of each kernel, by its name.
        made: tensors, in order.
    """

    driver: FakeDriver
    formats: dict[str, str] = field(default_factory=dict)
    made: list[Any] = field(default_factory=list)
    launches: list[tuple[Any, ...]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def knows(self, plan: CallPlan) -> None:
        """Have the arguments of a plan's kernels read."""
        self.formats |= {each.compiled.name: each.formats for each in plan.launches}

    def note(self, function: int, parameters: int, *form: int) -> None:
        name = self.names[function]
        formats = self.formats.get(name, "")
        at = (ctypes.c_void_p * max(len(formats), 1)).from_address(parameters)
        values = tuple(
            (letter, ctypes.string_at(at[k] or 0, SIZES[letter]))
            for k, letter in enumerate(formats)
        )
        self.launches.append((name, form, values))

    def taken(self, inputs: Sequence[Any]) -> list[Any]:
        """What was launched and allocated, addresses as what they are of; it is forgotten then."""
        known = [(f"input {k}", x) for k, x in enumerate(inputs) if hasattr(x, "data_ptr")]
        known += [(f"made {k}", x) for k, x in enumerate(self.made)]
        spans = [(x.data_ptr(), _bytes(x), name) for name, x in known]

        def read(letter: str, value: bytes) -> Any:
            if letter not in "PT":
                return value
            address = int.from_bytes(value[:8], "little")
            for start, count, name in spans:
                if start == address or start <= address < start + count:
                    return name, address - start, value[8:]
            return ("nowhere", value)

        form = [(tuple(x.shape), x.stride(), x.dtype) for x in self.made]
        found = [
            (name, form, tuple(read(*each) for each in values))
            for name, form, values in self.launches
        ]
        self.launches, self.made = [], []
        return [form, found]


class _Driver(FakeDriver):
    """Kernels of one context, whose launches a stand-in notes."""

    noted: StandIn

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, int]:  # noqa: N802
        self.noted.names[module] = name.decode()
        return OK, module

    def cuLaunchKernel(self, function: int, *form: Any) -> tuple[Any]:  # noqa: N802
        *numbers, stream, parameters, _ = form
        if self.is_elsewhere(function):
            return (ELSEWHERE,)
        self.noted.note(function, parameters, *numbers, int(stream), 0)
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, function: int, *more: Any) -> tuple[Any]:  # noqa: N802
        if self.is_elsewhere(function):
            return (ELSEWHERE,)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        stream = int(config.hStream)
        numbers = (*grid, *block, config.sharedMemBytes, stream, config.numAttrs)
        self.noted.note(function, more[0], *numbers)
        return (OK,)

    def cuTensorMapEncodeTiled(self, *told: Any) -> tuple[Any, Any]:  # noqa: N802
        kind, rank, address, *lists, interleave, swizzle, promotion, fill = told
        made = ctypes.create_string_buffer(128)
        types = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        arrays = [(t * 5)(*map(int, each)) for t, each in zip(types, lists, strict=True)]
        codes = map(int, (interleave, swizzle, promotion, fill))
        library().cuTensorMapEncodeTiled(
            made, int(kind), rank, ctypes.c_void_p(address), *arrays, *codes
        )
        return OK, SimpleNamespace(getPtr=lambda: ctypes.addressof(made), kept=made)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A GPU that computes nothing, for tensors of the host."""
    torch = pytest.importorskip("torch")
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None or launcher.module() is None:
        pytest.skip("the launcher cannot be made here")
    from warpsmith.engine import bind, counters, loaded, runners
    from warpsmith.runtime import arrays, driver, tensor_maps
    from warpsmith.runtime.kept import WORKSPACES
    from warpsmith.runtime.recent import Recent

    fake = _Driver()
    noted = fake.noted = StandIn(fake)
    install(monkeypatch, fake)
    no_kernels_loaded(monkeypatch)
    monkeypatch.setattr(driver, "device_count", lambda: 2)
    monkeypatch.setattr(tensor_maps, "initialized", lambda: fake)
    described = arrays.describe
    monkeypatch.setattr(loaded, "_buffer", loaded._buffer.__wrapped__)

    def as_on_gpu(array: object) -> Any:
        place = told("device_told", ctypes.c_int32).value
        return described(array)._replace(device_kind="cuda", ordinal=place)

    def device_told(tensor: Any) -> int:
        return int(told("device_told", ctypes.c_int32).value)

    monkeypatch.setattr(torch.Tensor, "get_device", device_told)
    for place in (bind, arrays):
        monkeypatch.setattr(place, "describe", as_on_gpu)
    monkeypatch.setattr(arrays, "torch_device", lambda kind, ordinal: torch.device("cpu"))
    told("device_told", ctypes.c_int32).value = 0
    stream = told("stream_told", ctypes.c_void_p)
    stream.value, told("capture_told").value = None, 0
    told("context_told", ctypes.c_void_p).value = CONTEXT
    told("refuse_launch").value = -1
    monkeypatch.setattr(runners, "current_stream", lambda ordinal: stream.value or 0)
    monkeypatch.setattr(counters, "_COUNTERS", Recent(WORKSPACES))

    def noting(allocate: Any) -> Any:
        def made(*args: Any, **options: Any) -> Any:
            tensor = allocate(*args, **options)
            noted.made.append(tensor)
            return tensor

        return made

    for name in ("empty", "empty_strided"):
        monkeypatch.setattr(torch, name, noting(getattr(torch, name)))
    monkeypatch.setattr(launcher, "host", cache(lambda: _host(torch, exchange, noted, noting)))
    return noted


def _host(torch: Any, exchange: object, noted: StandIn, noting: Any) -> Any:
    made = library()
    unwrapped = ctypes.pythonapi.PyCapsule_GetPointer
    unwrapped.restype, unwrapped.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    wrapped = ctypes.pythonapi.PyCapsule_New
    wrapped.restype = ctypes.py_object
    wrapped.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    made.exchange_over.restype = ctypes.c_void_p
    name = b"dlpack_exchange_api"
    over = made.exchange_over(ctypes.c_void_p(unwrapped(exchange, name)))

    def seen(config: Any, function: int, parameters: int) -> None:
        form = config.contents
        numbers = (*form.grid, *form.block, form.shared_bytes, form.stream or 0)
        noted.note(function, parameters, *numbers, form.attribute_count)

    callback = _SEEN(seen)
    made.seen_by = callback  # lives as long as the library
    told("seen", ctypes.c_void_p).value = ctypes.cast(callback, ctypes.c_void_p).value
    here = noting(torch._C._dynamo.guards._empty_strided_cpu)
    functions = tuple(launcher.addresses(made, launcher._FUNCTIONS))
    return launcher.made_host(launcher.module(), torch, wrapped(over, name, None), here, functions)


def _bytes(tensor: Any) -> int:
    if 0 in tensor.shape:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int((1 + sum((e - 1) * s for e, s in steps)) * tensor.element_size())


def random_call(seed: int) -> tuple[Executable, list[Any]]:
    """The random program of a seed, and its arguments as tensors of PyTorch."""
    import torch

    space: dict[str, Any] = {}
    exec(compile(generate(seed).definition(), "<program>", "exec"), space)
    drawn = space["inputs"]
    given = [judge._on_device(x, torch, "cpu") if hasattr(x, "ctypes") else x for x in drawn]
    return space["fd"]._ready(False), given


def taken_by_c(made: Any, *args: Any) -> bool:
    """Whether the launcher in C takes such a call of a fused function."""
    return made.shortcut.launch(args) is not NotImplemented
