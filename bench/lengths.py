"""Norms and softmaxes of rows beyond the tables' sizes: of no whole vectors, very long or short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench import norm_backward, norms
from bench.pointwise import DTYPES
from bench.problem import Problem

ODD, LONG, SHORT = "odd_rows", "long_rows", "short_rows"
"""Suites: rows whose length is no multiple of 8, rows longer than a multiprocessor holds, and very
many rows that a warp could have, as the heads of attention are normalized."""

SIZES = {
    ODD: ((8192, 4097), (8192, 4100), (8192, 5002), (8192, 12340)),
    LONG: ((1024, 131072), (512, 262144)),
    SHORT: ((524288, 64), (262144, 128), (131072, 196), (65536, 512)),
}
"""Rows and columns. The odd ones are multiples of 1, 4, 2 and 4."""

MAKES = (
    norms.layer_norm,
    norms.rms_norm,
    norms.softmax,
    norms.softmax_bwd,
    norm_backward.layer_norm_bwd,
    norm_backward.rms_norm_bwd,
)


def odd_problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of `odd_rows`, in the order of its tables."""
    return _problems(ODD, quick=quick)


def long_problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of `long_rows`, in the order of its tables."""
    return _problems(LONG, quick=quick)


def short_problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of `short_rows`, in the order of its tables."""
    return _problems(SHORT, quick=quick)


def _problems(suite: str, *, quick: bool) -> Iterator[Problem]:
    for dtype in DTYPES:
        for make in MAKES:
            for rows, columns in SIZES[suite][:1] if quick else SIZES[suite]:
                yield replace(make(rows, columns, dtype), suite=suite)
