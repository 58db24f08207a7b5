"""One measurement, and files of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from warpsmith.errors import ArgumentError

RUN = ("suite", "gpu", "versions", "date", "seed")
"""What the rows of a run have in common; files say it once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one implementation reached on one problem.

    Attributes:
        suite: `pointwise`, `reduction`, `compile`, `host` or `sim`.
        problem: name of the work, such as `silu_mul`.
        shape: extents of the first input.
        dtype: dtype of the inputs.
        impl: who did it, such as `warpsmith` or `torch_compile`.
        us: median time in microseconds; None when it failed.
        ceiling_us: what the machine needs to move the same bytes, None where that says nothing.
        pct_ceiling: `100 * ceiling_us / us`.
        rel_err: `||out - ref|| / ||ref||` against float64, the worst of the outputs.
        gpu: name of the device, or of the processor's kind where none is used.
        versions: of what took part.
        date: day of the measurement, ISO.
        error: why there is no time, in one line.
        limit_us: the most that `us` may be; None where nothing is promised.
        seed: what said the size; None where somebody chose it.
    """

    suite: str
    problem: str
    shape: tuple[int, ...]
    dtype: str
    impl: str
    us: float | None = None
    ceiling_us: float | None = None
    pct_ceiling: float | None = None
    rel_err: float | None = None
    gpu: str
    versions: tuple[tuple[str, str], ...]
    date: str
    error: str | None = None
    limit_us: float | None = None
    seed: int | None = None

    @property
    def run(self) -> dict[str, Any]:
        """What it has in common with other rows of its run, as JSON has it."""
        found = {name: getattr(self, name) for name in RUN}
        return _known({**found, "versions": dict(self.versions)})

    def as_json(self) -> dict[str, Any]:
        """The rest, as JSON has it."""
        own = {name: value for name, value in asdict(self).items() if name not in RUN}
        return _known({**own, "shape": list(self.shape)})

    @classmethod
    def from_json(cls, run: dict[str, Any], content: dict[str, Any]) -> Row:
        """The row of what `run` and `as_json` say. Raises ArgumentError for what is no row."""
        said = {**run, **content}
        declared = {each.name: each.default for each in fields(cls)}
        needed = {name for name, default in declared.items() if default is MISSING}
        wrong = sorted(set(said) - set(declared)) or sorted(needed - set(said))
        if wrong:
            raise ArgumentError(f"not a row of a benchmark: {wrong[0]!r} is unknown or missing")
        versions = tuple(sorted(said["versions"].items()))
        return cls(**{**said, "shape": tuple(said["shape"]), "versions": versions})


def _known(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the rows run by run, whole or not at all."""
    runs = (
        {**run, "rows": [row.as_json() for row in group]}
        for run, group in groupby(rows, key=lambda row: row.run)
    )
    content = json.dumps(list(runs), allow_nan=False).replace('{"problem"', '\n{"problem"')
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(path.suffix + ".part")
    aside.write_text(f"{content}\n")
    os.replace(aside, path)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `write_rows` wrote."""
    return [
        Row.from_json({name: value for name, value in run.items() if name != "rows"}, content)
        for run in json.loads(path.read_text())
        for content in run["rows"]
    ]
