"""One measurement, and files of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from warpsmith.errors import ArgumentError

OPTIONAL = ("error", "limit_us", "seed")
"""What files only have where there is any."""


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
    us: float | None
    ceiling_us: float | None = None
    pct_ceiling: float | None = None
    rel_err: float | None = None
    gpu: str
    versions: tuple[tuple[str, str], ...]
    date: str
    error: str | None = None
    limit_us: float | None = None
    seed: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as JSON has it; `error`, `limit_us` and `seed` only where there is one."""
        content = asdict(self)
        content["shape"] = list(self.shape)
        content["versions"] = dict(self.versions)
        for name in OPTIONAL:
            if content[name] is None:
                del content[name]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Row:
        """The inverse of `as_json`. Raises ArgumentError for what is no row."""
        known = {declared.name for declared in fields(cls)}
        needed = known - {"ceiling_us", "pct_ceiling", "rel_err", *OPTIONAL}
        wrong = sorted(set(content) - known) or sorted(needed - set(content))
        if wrong:
            raise ArgumentError(f"not a row of a benchmark: {wrong[0]!r} is unknown or missing")
        versions = tuple(sorted(content["versions"].items()))
        return cls(**{**content, "shape": tuple(content["shape"]), "versions": versions})


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write one list of rows, whole or not at all."""
    lines = ",\n".join(json.dumps(row.as_json(), allow_nan=False) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(path.suffix + ".part")
    aside.write_text(f"[\n{lines}\n]\n")
    os.replace(aside, path)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `write_rows` wrote."""
    return [Row.from_json(content) for content in json.loads(path.read_text())]
