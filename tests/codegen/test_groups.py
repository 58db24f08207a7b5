"""Numbers of the parts of a grouped product's rows, as a warp finds them and as a thread does."""

import random

import numpy as np
import pytest

from warpsmith import sim
from warpsmith.codegen.prelude import prelude_text
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source

SIZE = 8
BODY = """
    const int all = ws_group_parts<int>(ends, 1, count, rows, SIZE);
    const int singles = ws_group_singles<int>(ends, 1, count, rows, SIZE);
    for (int part = 0; part < numbers; part++) {
        const int by_warp = ws_group_row<int>(ends, 1, count, rows, SIZE, all, singles, part);
        if (threadIdx.x == 0) {
            const int number = ws_group_parts<int>(ends, 1, count, rows, SIZE);
            const int alone = ws_group_singles<int>(ends, 1, count, rows, SIZE);
            out[2 * part] = by_warp;
            out[2 * part + 1] =
                ws_group_row<int>(ends, 1, count, rows, SIZE, number, alone, part);
        }
        __syncwarp();
    }
"""
PARAMETERS = "const int* ends, int* out, int count, int rows, int numbers"


def in_order(counts: list[int]) -> list[int]:
    """First rows of all parts: of each so many one is of a group with no other."""
    begin, singles, others = 0, [], []
    for count in counts:
        parts = list(range(begin, begin + count, SIZE))
        (singles if len(parts) == 1 else others).extend(parts)
        begin += count
    every = (len(singles) + len(others)) // max(len(singles), 1)
    found = []
    while singles or others:
        take = singles and (len(found) % every == every - 1 or not others)
        found.append((singles if take else others).pop(0))
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(12))
def test_parts_of_groups(seed: int) -> None:
    source = random.Random(seed)
    groups = source.choice((1, 5, 16, 31, 32, 33, 70))
    counts = [round(source.choice((8, 64)) ** source.random()) - 1 for _ in range(groups)]
    counts.append(source.choice((0, 3, 20)))  # behind all groups
    ends = [sum(counts[: place + 1]) for place in range(groups)]
    wanted = in_order(counts)
    numbers = len(wanted) + 3
    text = f'{prelude_text(["groups"])}\nextern "C" __global__ void k({PARAMETERS}) {{{BODY}}}\n'
    text = text.replace("SIZE", str(SIZE))
    ptx = compile_source(Source(text=text, entry="k", arch="sm_90a")).ptx
    spec = {
        "grid": [1],
        "block": [32],
        "buffers": {
            "ends": {"dtype": "int32", "shape": [groups], "init": "zeros"},
            "out": {"dtype": "int32", "shape": [2 * numbers], "init": "zeros"},
        },
        "params": [{"ptr": "ends"}, {"ptr": "out"}]
        + [{"i32": number} for number in (groups, sum(counts), numbers)],
        "outputs": ["out"],
    }
    report = sim.run(ptx, spec, schedules=1, arrays={"ends": np.array(ends, np.int32)})
    assert report.verdict == "clean", str(report)
    found = report.arrays["out"].reshape(numbers, 2).tolist()
    assert found == [[row, row] for row in (*wanted, *[sum(counts)] * 3)]
