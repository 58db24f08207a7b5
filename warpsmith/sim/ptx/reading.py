"""PTX text to a program: the stages of reading, in order."""

from __future__ import annotations

from functools import lru_cache

from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Space, Window
from warpsmith.sim.program import Program
from warpsmith.sim.ptx.expand import Expansion
from warpsmith.sim.ptx.flow import with_meetings
from warpsmith.sim.ptx.layout import Layout, parameters_of
from warpsmith.sim.ptx.names import Bank, Memory, Scope
from warpsmith.sim.ptx.parse import parse
from warpsmith.sim.ptx.reach import reached
from warpsmith.sim.ptx.refusal import refuse
from warpsmith.sim.ptx.registers import share_slots
from warpsmith.sim.ptx.syntax import Function, Module

_MOST_PARAMETERS = 32764  # bytes, sm_70 and later


@lru_cache(maxsize=16)
def read(text: str, kernel: str | None = None) -> Program:
    """Read one kernel out of a PTX text, its calls put in place; of the last texts, once.

    Args:
        text: the whole PTX, from any compiler.
        kernel: name of the entry; needed where there are several.

    Raises SimulationError, which names the line and the word, for a text that does not parse and
    for an instruction of this kernel that is unknown or not supported.
    """
    module = parse(text)
    entry = _entry(module, kernel)
    assert entry.body is not None
    bank = Bank()
    scope = Scope(bank)
    layout = Layout()
    dynamic_start = _declare(module, entry, scope, layout)
    parameters = parameters_of(entry)
    inner = Scope(bank, scope)
    for parameter in parameters:
        inner.define(parameter.name, Memory(Space.PARAM, parameter.offset, parameter.size))
    size = max((p.offset + p.size for p in parameters), default=0)
    if size > _MOST_PARAMETERS:
        refuse(
            entry.line,
            f"`{entry.name}` takes {size} bytes of parameters; at most {_MOST_PARAMETERS} "
            "can be passed",
        )
    expansion = Expansion(module, scope, layout)
    expansion.block(entry.body, inner)
    instructions = with_meetings(expansion.finished())
    slots, names = share_slots(instructions, bank.names)
    layout.initialize(scope)
    directives = entry.directives
    return Program(
        name=entry.name,
        version=module.version,
        target=module.target,
        instructions=instructions,
        parameters=parameters,
        slots=slots,
        registers=len(names),
        register_names=names,
        variables=tuple(layout.variables),
        shared_bytes=layout.areas["shared"].end - int(Window.SHARED_START),
        local_bytes=expansion.local_bytes,
        global_bytes=layout.areas["global"].end,
        const_bytes=layout.areas["const"].end,
        dynamic_start=dynamic_start,
        bound=_volume(directives.get(".reqntid") or directives.get(".maxntid")),
        min_blocks=directives.get(".minnctapersm", (0,))[0],
        max_registers=directives.get(".maxnreg", (0,))[0],
        cluster=_extent(directives.get(".reqnctapercluster")),
    )


def _declare(module: Module, entry: Function, scope: Scope, layout: Layout) -> int | None:
    """Name the functions and place the variables; where dynamic shared memory starts.

    Of the shared variables only those that the kernel uses take room: first those of the module,
    then those of functions, last the dynamic ones.
    """
    functions: dict[str, Function] = {}
    for function in module.functions:
        if function.body is not None or function.name not in functions:
            functions[function.name] = function
    for name, function in functions.items():
        scope.define(name, function)
    used = reached(entry, functions)
    outer = [
        variable
        for variable in module.variables
        if variable.space in ("global", "const") or variable.name in used.names
    ]
    dynamic = [v for v in (*outer, *used.declarations) if v.external and v.space == "shared"]
    for variable in (*outer, *used.declarations):
        if variable not in dynamic:
            layout.static(variable)
    start = layout.dynamic(dynamic)
    for variable in outer:
        scope.define(variable.name, layout.static(variable))
    return start


def _entry(module: Module, kernel: str | None) -> Function:
    """The function to run: the one of that name, or the only one."""
    entries = {f.name: f for f in module.functions if f.is_entry and f.body is not None}
    names = ", ".join(f"`{name}`" for name in entries) or "none"
    if kernel is None:
        if len(entries) == 1:
            return next(iter(entries.values()))
        if not entries:
            raise SimulationError("the PTX has no kernel: no `.entry` with a body")
        raise SimulationError(
            f"the PTX has {len(entries)} kernels, and none was named",
            remedy=f"name one of {names}",
        )
    if kernel not in entries:
        raise SimulationError(f"the PTX has no kernel `{kernel}`", remedy=f"it has {names}")
    return entries[kernel]


def _volume(numbers: tuple[int, ...] | None) -> int:
    x, y, z = _extent(numbers) or (0, 0, 0)
    return x * y * z


def _extent(numbers: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    if not numbers:
        return None
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z
