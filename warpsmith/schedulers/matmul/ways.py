"""Schedules of a matrix product as columns of numbers: those of all are priced at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsmith.schedulers.matmul.params import MatmulParams, Numbers
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

Times = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ways:
    """Schedules, of each a number in every column; what all have in common once.

    Attributes:
        rows, columns, depth: of a tile.
        down, across: blocks of a cluster along m and n.
        kept: columns of a tile whose results a block has.
        lines, stages, chunk, group, blocks, splits, parts, once, ping_pong, passes, stream: as of
            `MatmulParams`.
        load_stages, store_stages: also.
        swapped, scaled, fours, loaded, staged, by_rows, pairs: of all; the last four are those of a
            schedule with chunks.
    """

    rows: Numbers
    columns: Numbers
    depth: Numbers
    lines: Numbers
    down: Numbers
    across: Numbers
    splits: Numbers
    ping_pong: Numbers
    passes: Numbers
    stages: Numbers
    chunk: Numbers
    kept: Numbers
    group: Numbers
    blocks: Numbers
    once: Numbers
    load_stages: Numbers
    store_stages: Numbers
    parts: Numbers
    stream: Numbers
    swapped: bool = False
    scaled: int = 0
    fours: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    by_rows: tuple[tuple[str, int], ...] = ()
    pairs: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: MatmulParams) -> Ways:
        """One schedule."""
        rows, columns, depth = params.tile
        down, across = params.cluster
        given: dict[str, Any] = {
            "rows": rows,
            "columns": columns,
            "depth": depth,
            "down": down,
            "across": across,
        }
        numbers: dict[str, Any] = {
            name: np.array([given.get(name, getattr(params, name, 0))], np.int64)
            for name in COLUMNS
        }
        return cls(**numbers, swapped=params.swapped, scaled=params.scaled)

    @property
    def groups(self) -> Numbers:
        """Warp groups of a block that multiply."""
        return np.where(self.ping_pong, self.ping_pong, self.rows // (ROWS * self.passes))

    def at(self, places: npt.NDArray[Any], **also: Numbers) -> Ways:
        """Those of some places, or where a condition holds, with other columns."""
        taken = {name: getattr(self, name)[places] for name in COLUMNS}
        return replace(self, **{**taken, **also})

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[MatmulParams]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> MatmulParams:
        """One of them."""
        has: dict[str, Any] = {name: int(getattr(self, name)[place]) for name in SAME}
        rows, columns, depth, down, across = (int(getattr(self, n)[place]) for n in SHAPE)
        staged = self.staged if has["chunk"] else ()
        return MatmulParams(
            **has,
            tile=(rows, columns, depth),
            cluster=(down, across),
            once=bool(self.once[place]),
            stream=bool(self.stream[place]),
            swapped=self.swapped,
            scaled=self.scaled,
            fours=self.fours,
            loaded=self.loaded if has["chunk"] else (),
            staged=staged,
            by_rows=self.by_rows if has["chunk"] else (),
            pairs=tuple(name for name in self.pairs if name not in staged),
        )


COLUMNS = tuple(each.name for each in fields(Ways) if each.type == "Numbers")
SHAPE = ("rows", "columns", "depth", "down", "across")
SAME = tuple(name for name in COLUMNS if name not in (*SHAPE, "kept", "once", "stream"))


def joined(ways: Sequence[Ways], order: Numbers) -> Ways:
    """Several columns below each other, each schedule at the place that `order` gives it."""
    places = np.argsort(order, kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in ways])[places] for name in COLUMNS
    }
    return replace(ways[0], **columns)
