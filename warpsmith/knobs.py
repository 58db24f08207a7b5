"""Every option of warpsmith, and the environment variable that sets it, declared once.

`current()` is what holds now: the innermost `scope(...)`, or else the environment. No other module
reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from warpsmith.errors import KnobError
from warpsmith.knob_kinds import (
    COUNT,
    DIRECTORY,
    NAMES,
    OPTIONAL_DIRECTORY,
    SECONDS,
    SWITCH,
    SWITCH_OR_AUTO,
    Kind,
    Unfit,
    one_of,
)
from warpsmith.targets.known import KNOWN
from warpsmith.values import dataclass

Device = Literal["auto", "gpu", "sim", "reference"]
Rings = Literal["auto", "prefer", "never"]
Verify = Literal["off", "protocol", "all"]
Specialize = Literal["auto"] | bool

PREFIX = "WARPSMITH_"


def _knob(kind: Kind, default: Any, meaning: str, shown: str = "", *, plans: bool = True) -> Any:
    """One declaration: its kind, its default, one sentence, the default in words where these are
    not plain, and whether calls are planned by it, so that one with another value is planned anew.
    """
    metadata = {"kind": kind, "meaning": meaning, "shown": shown or _shown(default), "plans": plans}
    return field(default=default, metadata=metadata)


def _shown(default: object) -> str:
    match default:
        case bool():
            return "on" if default else "off"
        case str():
            return f"`{default}`"
        case int() | float():
            return f"{default:.12g}"
    return "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The value of every option. The environment variable is the name in capitals after `PREFIX`.

    Values are checked and converted wherever they come from, so `Knobs(device="gpu")`, `replace`
    and the environment obey one rule. Raises KnobError for a value that a knob cannot have.
    """

    cache_dir: Path = _knob(
        DIRECTORY,
        Path("~/.cache/warpsmith"),
        "Where compiled kernels are kept between processes.",
        "`$XDG_CACHE_HOME/warpsmith`, or `~/.cache/warpsmith`",
        plans=False,
    )
    dump: tuple[str, ...] = _knob(
        NAMES,
        (),
        "Passes after which the program is written to `dump_dir`, separated by commas, or `all`.",
        plans=False,
    )
    dump_dir: Path = _knob(
        DIRECTORY,
        Path("warpsmith_dump"),
        "Where dumps are written, one numbered file a pass.",
        "`warpsmith_dump` in the working directory",
        plans=False,
    )
    override_dir: Path | None = _knob(
        OPTIONAL_DIRECTORY,
        None,
        "Where edited CUDA is looked for: a file `<kernel name>.cu` there replaces the emitted "
        "text.",
        plans=False,
    )
    always_compile: bool = _knob(
        SWITCH, False, "Compile even what the cache holds, and store it again.", plans=False
    )
    keep_emitted: Literal["auto"] | bool = _knob(
        SWITCH_OR_AUTO,
        "auto",
        "Whether kernels are kept in `cache_dir` as they were before NVRTC, too, with what was "
        "proved of them, how calls were cut into them, and, in torch's own cache, graphs of "
        "`torch.compile`, so that another process need not make them again; `auto` does not where "
        "warpsmith runs from a checkout, which may be changed in memory.",
        plans=False,
    )
    device: Device = _knob(
        one_of("auto", "gpu", "sim", "reference"),
        "auto",
        "What runs a fusion: the GPU, the simulator, the NumPy reference; `auto` takes the GPU "
        "where there is one, else the simulator.",
    )
    target: str = _knob(
        one_of("auto", *(target.name for target in KNOWN)),
        "auto",
        "The model of a GPU that kernels are made for; `auto` is the GPU that calls run on, and "
        f"`{KNOWN[0].name}` where there is none.",
    )
    rings: Rings = _knob(
        one_of("auto", "prefer", "never"),
        "auto",
        "Whether schedulers let loads run ahead through circular buffers in shared memory: where "
        "that is faster, wherever it can be, or nowhere.",
    )
    pace: bool = _knob(
        SWITCH,
        True,
        "Let no block that loops over many bytes of rows, or fills stages while the kernel before "
        "still runs, ask for more before the memory could have served all blocks so far: blocks "
        "that run ahead of each other slow it down, and what others read waits behind them.",
    )
    early_launch: bool = _knob(
        SWITCH,
        True,
        "Let each kernel of a call but the first start while the one before it ends, and wait "
        "there for what that one writes.",
    )
    autotune: bool = _knob(
        SWITCH,
        False,
        "Time the first few candidates of products, of scans and of kernels that keep rows or "
        "columns, as norms, softmaxes and losses, on the GPU, at the first call of each class of "
        "sizes, and keep the fastest in `cache_dir`. Of tensors on the host, and on the simulator, "
        "nothing is timed: what was kept, or the model, decides.",
    )
    warp_specialize: Specialize = _knob(
        SWITCH_OR_AUTO,
        "auto",
        "Whether kernels of rows have warps of their own that load: where that is faster, in each "
        "of them or the call is refused, or in none.",
    )
    verify: Verify = _knob(
        one_of("off", "protocol", "all"),
        "protocol",
        "What is proved of a kernel with circular buffers before it is launched: that "
        "its warps cannot hang or race at these sizes, or nothing. With `all`, also after every "
        "pass that what orders its accesses still does.",
    )
    watchdog: bool = _knob(
        SWITCH,
        False,
        "Give up waits in kernels after `watchdog_seconds`, and raise what was waited for; every "
        "launch is then waited for.",
    )
    watchdog_seconds: float = _knob(
        SECONDS, 2.0, "How long one wait in a kernel may take where the watchdog is on."
    )
    cache_mib: int = _knob(
        COUNT,
        4096,
        "MiB of files that `cache_dir` may hold; beyond, those that were not used for longest go.",
        plans=False,
    )
    kept_traces: int = _knob(
        COUNT,
        1024,
        "Traces of functions that a process keeps, one for each class of arguments; beyond, here "
        "and below, those that were not used for longest are forgotten.",
        plans=False,
    )
    kept_plans: int = _knob(
        COUNT,
        4096,
        "Signatures of calls that can be run again at once; through `fuse`, each counts twice.",
        plans=False,
    )
    kept_kernels: int = _knob(
        COUNT,
        512,
        "Compiled kernels that a process keeps in all their forms, to be launched at other sizes.",
        plans=False,
    )
    loaded_kernels: int = _knob(
        COUNT,
        512,
        "Kernels that a process keeps on its devices, but for those that a captured graph holds.",
        plans=False,
    )
    kept_maps: int = _knob(
        COUNT,
        16384,
        "Tensor maps that are kept encoded, one for each address that a launch met.",
        plans=False,
    )
    kept_workspaces: int = _knob(
        COUNT,
        256,
        "Counters in device memory that are kept at zero for the kernels of a stream.",
        plans=False,
    )
    progress: bool = _knob(
        SWITCH,
        True,
        "Show a bar on standard error, if that is a terminal, while the kernels of a call are "
        "compiled for more than two seconds.",
        plans=False,
    )

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = _parsed(declared, getattr(self, declared.name), declared.name)
            object.__setattr__(self, declared.name, value)

    @property
    def wait_limit(self) -> int | None:
        """Nanoseconds that a wait in a kernel may take; None where nobody watches."""
        return round(self.watchdog_seconds * 1e9) if self.watchdog else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Knobs:
        """The knobs that `environment` sets, and defaults for the rest."""
        chosen: dict[str, Any] = {}
        home = environment.get("XDG_CACHE_HOME", "")
        if os.path.isabs(home):  # a relative path is to be ignored, says the XDG specification
            chosen["cache_dir"] = Path(home) / "warpsmith"
        for declared in fields(cls):
            variable = variable_name(declared.name)
            text = environment.get(variable)
            if text:  # a variable set to nothing is one that is not set
                chosen[declared.name] = _parsed(declared, text, variable)
        return cls(**chosen)

    def replace(self, **changes: object) -> Knobs:
        """These knobs with some values changed. Raises KnobError for an unknown name."""
        names = [declared.name for declared in fields(self)]
        for name in changes:
            if name not in names:
                raise KnobError(
                    f"there is no knob `{name}`", remedy=f"the knobs are {', '.join(names)}"
                )
        return replace(self, **changes)  # type: ignore[arg-type]  # __post_init__ checks them


def variable_name(knob: str) -> str:
    """The environment variable of a knob: `cache_dir` -> `WARPSMITH_CACHE_DIR`."""
    return PREFIX + knob.upper()


def _parsed(declared: Field[Any], value: object, name: str) -> object:
    try:
        parsed = declared.metadata["kind"].parse(value)
    except Unfit as unfit:
        raise KnobError(f"{name}={value!r} is not allowed", remedy=f"allowed: {unfit}") from None
    return parsed.expanduser() if isinstance(parsed, Path) else parsed


# The one context variable in warpsmith. A scope has to reach the compiles that happen inside a
# caller's own functions, per thread and per asyncio task, without every user function passing it
# on. `warpsmith` reads it at its doors only; what runs behind them is given a `Knobs`.
SCOPED: ContextVar[Knobs | None] = ContextVar("warpsmith_knobs", default=None)


def current() -> Knobs:
    """The knobs of the innermost scope, or those of the environment where there is none."""
    return SCOPED.get() or Knobs.from_environment(os.environ)


scoped: Callable[[], Knobs | None] = SCOPED.get
"""The knobs of the innermost scope, None outside: what `within` restores elsewhere."""


@contextmanager
def within(knobs: Knobs) -> Iterator[None]:
    """The scope of these knobs for what belongs to it and runs later, or in another thread."""
    token = SCOPED.set(knobs)
    try:
        yield
    finally:
        SCOPED.reset(token)


planned_by: Callable[[Knobs], tuple[object, ...]] = attrgetter(
    *(declared.name for declared in fields(Knobs) if declared.metadata["plans"])
)


def scoped_plan() -> tuple[object, ...] | None:
    """What a scope asks for that calls are planned by, None outside; cheap, for every call."""
    scoped = SCOPED.get()
    return None if scoped is None else planned_by(scoped)


@contextmanager
def scope(**changes: object) -> Iterator[Knobs]:
    """Change some knobs for the code inside a `with` block, in this thread or task only.

    Example:
        with knobs.scope(cache_dir="/tmp/kernels", always_compile=True):
            fused(x)
    """
    changed = current().replace(**changes)
    token = SCOPED.set(changed)
    try:
        yield changed
    finally:
        SCOPED.reset(token)
