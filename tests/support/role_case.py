"""What a schedule with roles is for: its loads, its inputs, and the meaning of its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tests.support.ring_cases import EXTENTS
from tests.support.ring_loads import INTO_SHARED, Kind, Ring
from tests.support.role_feeds import Feed
from warpsmith import FusionDefinition
from warpsmith.ir.tensor import TensorView

Array = np.ndarray
Shapes = Callable[[int], tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class Case:
    """A fusion with its schedule.

    Attributes:
        schedule: makes and schedules it; sizes are left to the calls.
        shapes: of its inputs, where the dimension that roles walk has the given extent.
        meaning: what it computes, of float64 arrays: one array or several.
        kinds: of load that the schedule is made for.
        stages: numbers of stages.
        terms: added up in float for one element of a result, or so.
        extents: of the dimension that roles walk.
        dtype: of inputs and results.
    """

    name: str
    schedule: Callable[[Feed], FusionDefinition]
    shapes: Shapes
    meaning: Callable[..., Array | tuple[Array, ...]]
    kinds: tuple[Kind, ...] = INTO_SHARED
    stages: tuple[int, ...] = (2, 3, 8)
    terms: Callable[[int], int] = lambda extent: 1
    extents: tuple[int, ...] = EXTENTS
    dtype: type = np.float32

    def feeds(self) -> Iterator[Feed]:
        """Every load of the matrix."""
        for kind in self.kinds:
            for stages in self.stages:
                yield Feed(kind, stages)

    def inputs(self, extent: int, seed: int) -> list[Array]:
        """Fresh random arrays."""
        random = np.random.default_rng([seed, extent])
        return [random.uniform(-2, 2, shape).astype(self.dtype) for shape in self.shapes(extent)]

    def wanted(self, inputs: list[Array]) -> tuple[Array, ...]:
        """The results in float64."""
        results = self.meaning(*(array.astype(np.float64) for array in inputs))
        return results if isinstance(results, tuple) else (results,)

    def check(self, results: list[Array], inputs: list[Array], extent: int) -> None:
        """Hold results against the meaning."""
        rounding = float(ml_dtypes.finfo(self.dtype).eps)
        tolerance = 8 * rounding * self.terms(extent) ** 0.5
        for result, wanted in zip(results, self.wanted(inputs), strict=True):
            actual = result.astype(np.float64)
            np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


@dataclass(frozen=True)
class RoleRing(Ring):
    """As the schedules of `ring_cases` want it, and a role fills it."""

    def load(self, tensor: TensorView, *, ring: str = "") -> TensorView:
        copy = super().load(tensor, ring=ring)
        copy.set_role("load")
        return copy


def vectors(count: int, step: int = 1) -> Shapes:
    """So many inputs of one dimension."""
    return lambda n: ((step * n,),) * count


def columns(count: int = 1, rows: int = 3, step: int = 1) -> Shapes:
    """So many inputs whose rows have the extent."""
    return lambda n: ((rows, step * n),) * count


def rows(columns: int, count: int = 1) -> Shapes:
    """So many inputs with as many rows as the extent."""
    return lambda n: ((n, columns),) * count


def double(x: Array) -> Array:
    return 2 * x


def add(*inputs: Array) -> Array:
    return sum(inputs[1:], inputs[0])


def multiply(x: Array, y: Array) -> Array:
    return x * y


def halved(x: Array, times: int) -> Array:
    """What `role_chains.transformed` computes."""
    return np.exp(x * (-0.5) ** times)


def centered(x: Array) -> Array:
    return x - x.sum(1, keepdims=True)


def normalized(x: Array) -> Array:
    away = x - x.mean(1, keepdims=True)
    return away / np.sqrt((away * away).mean(1, keepdims=True) + 1e-5)


def squares(x: Array) -> Array:
    """What `role_sums.welford` computes."""
    return 2 * ((x - x.mean(1, keepdims=True)) ** 2).sum(1)


def named(count: int) -> tuple[str, ...]:
    """Names of so many roles that load."""
    return tuple(f"load_{letter}" for letter in "abcde"[:count])
