"""`fuse`: a plain function of tensors as one fusion.

The function is traced: it runs once with tensors that record what is done to them. A trace serves
all calls whose arguments have the same types, ranks, memory layouts and alignment; sizes and
numbers may differ from call to call. Extents of 0 and 1 are sizes like others, but where a
dimension of 1 is repeated along another tensor's: `reuse.may_serve` states the rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, overload

from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.argument_keys import (
    NUMBERS,
    Default,
    Unusual,
    classified,
    exact,
    is_array,
    kind_of,
    of_their_library,
    usable,
)
from warpsmith.frontends.inputs import define_like, define_scalar_input
from warpsmith.frontends.outputs import add_output
from warpsmith.frontends.reuse import may_serve
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.knobs import Specialize, scope, scoped_plan
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.values import Deferred
from warpsmith.runtime.kept import PLANS, TRACES
from warpsmith.runtime.launcher import Shortcut, called
from warpsmith.runtime.recent import Recent
from warpsmith.values import dataclass

if TYPE_CHECKING:
    from warpsmith.frontends.lowered import Lowered


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced function.

    Attributes:
        fusion: the program.
        positions: which arguments are its inputs, in order.
        executable: runs it.
        single: whether the function returned a tensor and not a sequence of them.
    """

    fusion: Fusion
    positions: tuple[int, ...]
    executable: Any
    single: bool


@dataclass(frozen=True, slots=True)
class _Route:
    """The short way for calls of one form: which values go to the executable.

    Attributes:
        places: positions of the inputs among arguments, keyword arguments and `defaults`.
    """

    run: Callable[[Sequence[Any]], list[Any]]
    places: tuple[int, ...]
    defaults: tuple[Any, ...]
    single: bool


class Fused:
    """A function that runs as a fusion. Results carry no gradients.

    Arguments are tensors (PyTorch's, NumPy's, or any with DLPack, such as JAX's and CuPy's, whose
    results are theirs, too), numbers, which may differ from call to call, and static values such as
    None, strings and tuples, which are traced for anew. So is a number that a call leaves to its
    default: the function gets it as it is.

    Attributes:
        shortcut: the way of its calls past Python.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        warp_specialize: Specialize | None = None,
        autotune: bool | None = None,
    ) -> None:
        update_wrapper(self, function)
        self._function, self._name = function, getattr(function, "__name__", repr(function))
        asked = {"warp_specialize": warp_specialize, "autotune": autotune}
        self._knobs = {name: value for name, value in asked.items() if value is not None}
        self._signature = inspect.signature(function)
        self._names = tuple(
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        )
        self._known: Recent[tuple[object, ...], _Route] = Recent(PLANS)
        self._classes: Recent[tuple[object, ...], Trace] = Recent(TRACES)
        self._traces: Recent[tuple[object, ...], Trace] = Recent(TRACES)
        self.shortcut = Shortcut()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns: a tensor, or a tuple of tensors."""
        if not kwargs:
            done = self.shortcut.launch(args)
            if done is not NotImplemented:
                return done
        return self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The same through Python."""
        values, names = (*args, *kwargs.values()), tuple(kwargs)
        try:
            key = (exact(values), names, scoped_plan())
            route = self._known.get(key)
        except (Unusual, TypeError, RuntimeError):  # no hash, no memory: the slow way refuses it
            return self._run_slowly(args, kwargs)
        if route is None:
            route = self._known.put(key, self._route(args, kwargs))
            if not kwargs and key[-1] is None:
                kept = self.shortcut.keep(args, route.run, route.places, int(route.single))
                if kept and type(self) is Fused:
                    self.__class__ = called(Fused)
        if route.defaults:
            values += route.defaults
        results = route.run([values[place] for place in route.places])
        return results[0] if route.single else tuple(results)

    def known(self, args: tuple[Any, ...]) -> _Route | None:
        """The short way of such calls, used hereby; None before the first one, or in a scope."""
        try:
            key = (exact(args), (), scoped_plan())
            return None if key[-1] is not None else self._known.get(key)
        except (Unusual, TypeError, RuntimeError):  # as in a call
            return None

    def _run_slowly(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call with arguments that have to be converted, which no key can hold.

        Where all arrays are of other libraries, results are of that of the first one.
        """
        complete = self._complete(args, kwargs)
        trace = self._find(complete)
        with self._asked():
            results = trace.executable.run([complete[position] for position in trace.positions])
        results = of_their_library(results, (*args, *kwargs.values()))
        return results[0] if trace.single else tuple(results)

    def _route(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Route:
        complete = self._complete(args, kwargs)
        trace = self._find(complete)
        order = {name: len(args) + k for k, name in enumerate(kwargs)}
        names = list(self._names)
        order.update({name: k for k, name in enumerate(names[: len(args)])})
        defaults = [name for name in names if name not in order]
        order.update({name: len(args) + len(kwargs) + k for k, name in enumerate(defaults)})
        values = dict(zip(names, complete, strict=True))
        return _Route(
            run=self._prepared(trace, [complete[place] for place in trace.positions]),
            places=tuple(order[names[position]] for position in trace.positions),
            defaults=tuple(values[name] for name in defaults),
            single=trace.single,
        )

    def _prepared(self, trace: Trace, inputs: Sequence[Any]) -> Callable[..., list[Any]]:
        with self._asked():
            ready: Callable[..., list[Any]] = trace.executable.prepared(inputs)
        run = trace.executable.run
        if ready != run or not self._knobs:
            return ready

        def asked(inputs: Sequence[Any]) -> list[Any]:
            with self._asked():
                results: list[Any] = run(inputs)
            return results

        return asked

    def _asked(self) -> AbstractContextManager[object]:
        """The scope in which calls are planned."""
        return scope(**self._knobs) if self._knobs else nullcontext()

    def __reduce__(self) -> str:
        """As of a function: a copy is the same one, and pickles have its name."""
        return getattr(self, "__qualname__", self._name)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The lowered stage for such arguments; `.compile()` it to look at kernels."""
        from warpsmith.frontends.lowered import lower_call

        args = self._complete(args, kwargs)
        trace = self._find(args)
        inputs = [args[position] for position in trace.positions]
        return lower_call(trace.fusion, inputs, self._knobs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What is chosen for such arguments, and why, and the classes of sizes that calls of the
        same trace have met; compiles, but does not run.
        """
        complete = self._complete(args, kwargs)
        trace = self._find(complete)
        with self._asked():
            trace.executable.plan_for([complete[position] for position in trace.positions])
        text: str = trace.executable.explain()
        return text

    @property
    def traces(self) -> int:
        """How many times the function was traced."""
        return self._traces.made

    def _complete(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter, defaults included, that the key functions can read."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as mismatch:
            raise ArgumentError(
                f"{self._name}: {mismatch}",
                code="WS0301",
                remedy=f"its parameters are {self._signature}",
            ) from None
        given = frozenset(bound.arguments)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name not in self._names and value:
                raise ArgumentError(
                    f"{self._name} got arguments for its parameter *{name}",
                    code="WS0314",
                    remedy="give each tensor a parameter of its own",
                )
        checked = ((name, usable(name, bound.arguments[name])) for name in self._names)
        return tuple(
            value if name in given or type(value) not in NUMBERS else Default(value, type(value))
            for name, value in checked
        )

    def _find(self, args: tuple[Any, ...]) -> Trace:
        key = tuple(classified(value) for value in args)
        trace = self._classes.get(key)
        if trace is None:
            trace = self._classes.put(key, self._served(args))
        return trace

    def _served(self, args: tuple[Any, ...]) -> Trace:
        """A trace of earlier calls that serves these arguments, or a new one."""
        kind = tuple(map(kind_of, args))
        number = 0
        made: Trace | None = None
        while True:
            trace = self._traces.get((kind, number))
            if trace is None:
                made = made or self._trace(args)
                trace = self._traces.put((kind, number), made)  # another thread's, if it was faster
            if trace is made or _serves(trace, args):
                return trace
            number += 1

    def _trace(self, args: tuple[Any, ...]) -> Trace:
        from warpsmith.engine.executable import Executable

        fusion = Fusion(tensor_type=Tensor)
        positions: list[int] = []
        given: dict[str, Any] = {}
        for position, (name, value) in enumerate(zip(self._names, args, strict=True)):
            given[name] = value.number if isinstance(value, Default) else value
            if type(value) in NUMBERS:
                given[name] = define_scalar_input(fusion, NUMBERS[type(value)])
            elif is_array(value):
                given[name] = define_like(fusion, value)
            else:
                continue
            positions.append(position)
        result = self._call(given)
        single = not isinstance(result, tuple | list)
        for value in (result,) if single else result:
            if not isinstance(value, TensorView | Deferred):
                raise DefinitionError(
                    f"{self._name} returned a value of type {type(value).__name__}",
                    code="WS0104",
                    remedy="return a tensor or a tuple of tensors",
                )
            add_output(fusion, value)
        fusion.check_not_empty()
        remove_dead(fusion)
        return Trace(fusion, tuple(positions), Executable(fusion), single)

    def _call(self, given: Mapping[str, Any]) -> Any:
        """Call the function with one value for each parameter, by position where it must be."""
        kinds, keyword = self._signature.parameters, inspect.Parameter.KEYWORD_ONLY
        plain = [value for name, value in given.items() if kinds[name].kind is not keyword]
        named = {name: value for name, value in given.items() if kinds[name].kind is keyword}
        return self._function(*plain, **named)


@overload
def fuse(
    function: Callable[..., Any],
    *,
    warp_specialize: Specialize | None = None,
    autotune: bool | None = None,
) -> Fused: ...


@overload
def fuse(
    *, warp_specialize: Specialize | None = None, autotune: bool | None = None
) -> Callable[[Callable[..., Any]], Fused]: ...


def fuse(
    function: Callable[..., Any] | None = None,
    *,
    warp_specialize: Specialize | None = None,
    autotune: bool | None = None,
) -> Fused | Callable[[Callable[..., Any]], Fused]:
    """Make a function of tensors one fusion; usable as a decorator, with or without arguments.

    Args:
        warp_specialize: whether kernels of rows have warps of their own that load: `"auto"` where
            that is faster, True in each of them, or calls are refused (WS0401), False in none. By
            default the knob of this name decides.
        autotune: whether the first call of each class of sizes times the first few candidates of
            products and scans on the GPU, and the fastest is kept on disk for later processes. On
            the simulator nothing is timed. By default the knob of this name decides.

    Example:
        @warpsmith.fuse
        def silu_mul(x, y):
            return ops.silu(x) * y
    """
    if function is None:
        return partial(Fused, warp_specialize=warp_specialize, autotune=autotune)
    return Fused(function, warp_specialize=warp_specialize, autotune=autotune)


def _serves(trace: Trace, args: Sequence[Any]) -> bool:
    """Whether an earlier trace of the same kinds serves a call: see `may_serve`."""
    inputs = [args[position] for position in trace.positions]
    return may_serve(trace.fusion.input_tensors, inputs) and bool(trace.executable.takes(inputs))
