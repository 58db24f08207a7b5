"""Runs a fusion on the CPU: the PTX of every kernel on the simulator, which also judges it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.meaning import Wanted, meaning
from warpsmith.engine.runners import handed_back, is_array, on_host, refuse_gradients, wholes_of
from warpsmith.engine.verification import Verification
from warpsmith.errors import SimulationError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import parts_of, written_part
from warpsmith.runtime import arrays
from warpsmith.runtime.memory import host_arrays, span
from warpsmith.runtime.tensor_maps import MAP_BYTES, TiledMap
from warpsmith.sim import machine
from warpsmith.sim.program import Program
from warpsmith.sim.records import pack
from warpsmith.sim.report import Report
from warpsmith.sim.simulate import Judge, simulate
from warpsmith.sim.tensor_maps import TensorMap
from warpsmith.values import dataclass

_ALIGNMENT: Final = 16
_POISON: Final = 0xFF  # a NaN of every float type
_SHOWN: Final = 3  # findings of a kernel in an error


@dataclass(slots=True)
class _Place:
    """An array as a buffer: its bytes, gaps included, behind a lead that keeps its alignment."""

    content: np.ndarray[Any, np.dtype[np.uint8]]
    offset: int  # of the first element
    defined: bool


@dataclass(frozen=True, slots=True)
class _Output:
    """What a result must be that lies in memory just as an array, from an offset in bytes on."""

    array: np.ndarray[Any, Any]
    offset: int
    wanted: Wanted

    def wrong(self, name: str, content: np.ndarray[Any, Any], /) -> str:
        return self.wanted.wrong(_elements(content, self.offset, self.array))


def _elements(
    content: np.ndarray[Any, Any], offset: int, like: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """A view of bytes as an array of the type, shape and strides of another one."""
    return np.ndarray(like.shape, like.dtype, content.data, offset, like.strides)


class Memory:
    """The arrays of one call by name, as the simulator's global memory."""

    def __init__(self, parts: Mapping[str, str] = MappingProxyType({})) -> None:
        """Args:
        parts: names that stand for parts of other arrays, with those.
        """
        self._places: dict[str, _Place] = {}
        self._parts = parts

    def add(self, name: str, array: np.ndarray[Any, Any], *, defined: bool) -> None:
        """Take in what an array spans; unless `defined`, as bytes that kernels must write first."""
        low, size = span(array)
        start = array.__array_interface__["data"][0] + low
        lead = start % _ALIGNMENT if size else 0
        content = np.full(lead + size, _POISON, np.uint8)
        if defined:
            content[lead:] = np.frombuffer(ctypes.string_at(start, size), np.uint8)
        self._places[name] = _Place(content, lead - low, defined)

    def take_out(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Copy back into the array that was added under this name, or one just like it."""
        place = self._places[name]
        array[...] = _elements(place.content, place.offset, array)

    def judge(
        self, name: str, array: np.ndarray[Any, Any], wanted: Wanted, start: int = 0
    ) -> Judge:
        """Holds what a run leaves of an array that was added against what is wanted of it.

        Args:
            array: it, or a part of it that begins so many bytes behind its start.
        """
        return _Output(array, self._places[name].offset + start, wanted)

    def run(
        self,
        launch: Launch,
        scalars: Mapping[str, Any],
        schedules: int,
        expected: Mapping[str, Judge] | None = None,
    ) -> Report:
        """Simulate one kernel; its results are those of the first schedule.

        Args:
            expected: judges, by array, what each schedule leaves.
        """
        report = simulate(self._launch(launch, scalars), count=schedules, expected=expected)
        for name in self._wholes(launch):
            place = self._places[name]
            place.content = report.arrays[name]
            place.defined = True
        return report

    def trace(
        self, launch: Launch, scalars: Mapping[str, Any], budget: int
    ) -> tuple[machine.Launch, machine.Outcome]:
        """What happens when, as one kernel runs once; results are left alone.

        Args:
            budget: instructions of warps after which the run is broken off.
        """
        made = self._launch(launch, scalars)
        order = machine.Order.ROUND_ROBIN
        packed = pack(made.program)
        return made, machine.run_once(made, packed, order=order, seed=0, budget=budget, traced=True)

    def _wholes(self, launch: Launch) -> list[str]:
        return [self._parts.get(name, name) for name in launch.pointers]

    def _launch(self, launch: Launch, scalars: Mapping[str, Any]) -> machine.Launch:
        kernel, wholes = launch.compiled.kernel, self._wholes(launch)
        pairs = zip(kernel.parameters, wholes, strict=True)
        settled = {whole for buffer, whole in pairs if buffer.name in kernel.settled}
        names = dict.fromkeys(wholes)
        buffers = tuple(
            machine.Buffer(
                name=name,
                array=place.content,
                defined=place.defined,
                open=True,
                settled=name in settled,
            )
            for name, place in ((name, self._places[name]) for name in names)
        )
        addresses = {
            name: machine.address_of(position) + self._places[name].offset
            for position, name in enumerate(names)
        }
        values: list[Any] = [addresses[name] for name in wholes]
        values += [encoded(each, addresses[each.tensor]) for each in launch.maps]
        for name, constant in zip(launch.scalars, launch.constants, strict=True):
            values.append(scalars[name] if constant is None else constant)
        program = launch.compiled.program
        return machine.Launch(
            program=program,
            grid=launch.grid,
            block=launch.block,
            cluster=kernel.launch.cluster,
            dynamic_shared=launch.shared_bytes,
            registers=max(launch.compiled.n_regs, 16),
            buffers=buffers,
            early=kernel.early,
            together=kernel.launch.together,
            target=launch.compiled.target,
            parameters=parameter_bytes(program, launch.formats, values),
        )


def encoded(each: TiledMap, address: int) -> bytes:
    """The 128 bytes of a map as the simulator reads them; all zeros for an empty tensor.

    Raises ArgumentError for an address that the TMA unit cannot start at.
    """
    if each.is_empty:
        return bytes(MAP_BYTES)
    each.check_address(address)
    return TensorMap(
        address=address - each.before,
        dtype=_mapped_type(each),
        dims=each.sizes,
        strides_bytes=each.strides,
        box=each.spans,
        element_strides=each.steps,
        swizzle=f"{each.swizzle}B" if each.swizzle else "none",
    ).encode()


def _mapped_type(each: TiledMap) -> str:
    if each.rounds:
        return "tfloat32"
    return "uint8" if each.dtype == "bool" else arrays.NUMPY_DTYPES[each.dtype].name


def parameter_bytes(program: Program, formats: str, values: Sequence[Any]) -> bytes:
    """The parameter buffer of a launch: a value a parameter, in the `formats` of its arguments."""
    image = bytearray(max((p.offset + p.size for p in program.parameters), default=0))
    for parameter, code, value in zip(program.parameters, formats, values, strict=True):
        packed = {"P": "Q", "T": f"{MAP_BYTES}s"}.get(code, code)
        struct.pack_into(f"<{packed}", image, parameter.offset, value)
    return bytes(image)


class Simulated:
    """The call of one signature on the simulator."""

    def __init__(self, fusion: Fusion, call: CallPlan) -> None:
        self._fusion = fusion
        self._call = call

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        """Results of the call. Raises SimulationError when a kernel is not clean."""
        for position, value in enumerate(inputs):
            if getattr(value, "requires_grad", False):
                refuse_gradients(position)
        host, wanted = on_host(self._fusion, inputs), wholes_of(self._fusion, self._call)
        written = {name: array for name, array in host.items() if name in wanted}
        results, reports = self._run(inputs, 1, {}, written)
        for report in reports:
            _insist(report)
        return handed_back(self._fusion, inputs, results)

    def verify(self, inputs: Sequence[object], *, schedules: int) -> Verification:
        """A report for each kernel, under so many schedules each.

        The outputs that a kernel completes are held against the meaning of the program.
        """
        host = [arrays.to_numpy(given) if is_array(given) else given for given in inputs]
        wanted = meaning(self._fusion, host)
        return Verification(self._run(inputs, schedules, wanted, {})[1])

    def _run(
        self,
        inputs: Sequence[object],
        schedules: int,
        wanted: Mapping[str, Wanted],
        written: Mapping[str, np.ndarray[Any, Any]],
    ) -> tuple[dict[str, np.ndarray[Any, Any]], tuple[Report, ...]]:
        """Results by name, and the kernels' reports.

        Args:
            written: inputs that get what kernels wrote into parts of them, by name.
        """
        parts = parts_of(self._fusion)
        memory, scalars = Memory(parts), {}
        for value, given in zip(self._fusion.inputs, inputs, strict=True):
            if is_array(given):
                memory.add(value.name, arrays.to_numpy(given), defined=True)
            else:
                scalars[value.name] = given
        results = host_arrays((*self._call.outputs, *self._call.temporaries))
        for name, host in results.items():
            memory.add(name, host, defined=False)
        reports = []
        complete = {name: launch for launch in self._call.launches for name in _written(launch)}
        for name, whole in self._call.here.items():
            complete[name], parts[name] = complete[whole], whole
        for launch in self._call.launches:
            for space in launch.workspaces:
                zeros = np.zeros(space.elements, arrays.NUMPY_DTYPES[space.dtype])
                memory.add(space.name, zeros, defined=space.zeroed)
            judges = {
                parts.get(name, name): self._judge(memory, name, results, inputs, output)
                for name, output in wanted.items()
                if complete.get(name) is launch
            }
            reports.append(memory.run(launch, scalars, schedules, judges))
        for name, host in (*results.items(), *written.items()):
            memory.take_out(name, host)
        return results, tuple(reports)

    def _judge(
        self,
        memory: Memory,
        name: str,
        results: Mapping[str, np.ndarray[Any, Any]],
        inputs: Sequence[object],
        wanted: Wanted,
    ) -> Judge:
        """Holds a result, or the part of an input that it is written into, against its meaning."""
        if name in results:
            return memory.judge(name, results[name], wanted)
        given = on_host(self._fusion, inputs)
        output = next(o for o in self._fusion.outputs if o.value.name == name)
        assert output.alias_of is not None
        whole, part = given[output.alias_of.name], written_part(output, given)
        start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        return memory.judge(output.alias_of.name, part, wanted, start)


def _written(launch: Launch) -> list[str]:
    """Names of the arrays that a kernel writes."""
    pairs = zip(launch.compiled.kernel.parameters, launch.pointers, strict=True)
    return [name for buffer, name in pairs if buffer.written]


def _insist(report: Report) -> None:
    if report.verdict == "clean":
        return
    shown = "\n".join(map(str, report.findings[:_SHOWN]))
    raise SimulationError(
        f"kernel `{report.kernel}` is not clean on the simulator ({report.verdict}):\n{shown}",
        code="WS0820",
        remedy="`warpsmith.verify` gives the whole report; device `reference` runs NumPy instead",
    )
