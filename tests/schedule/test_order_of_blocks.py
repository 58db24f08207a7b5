"""What orders blocks of the grid that scan a row: without each of it, something goes wrong."""

import numpy as np
import pytest

from tests.schedule.test_scans import LOOPS, scheduled
from tests.support.launching import values_of
from tests.support.lowering import lowered
from tests.support.simulating import reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.targets.hopper import H200

RACE, WRONG, LEFT = "race", "wrong results", "words that are not 0"

NEEDED = {
    "nothing": ("", "", "the grid", None),
    "release": ("st.release.gpu", "st.relaxed.gpu", "the grid", RACE),
    "acquire": ("ld.acquire.gpu", "ld.relaxed.gpu", "the grid", RACE),
    "threads that give meet": (
        "if (kept > 1) __syncthreads();\n        if",
        "if",
        "columns over the grid",
        RACE,
    ),
    "threads that read have waited": (
        "if (kept > 1) __syncthreads();\n    T",
        "T",
        "columns over the grid",
        RACE,
    ),
    "lanes that waited meet": (
        "__syncwarp();\n    const bool last",
        "const bool last",
        "warps of the grid",
        RACE,
    ),
    "lanes that reset meet": (
        "parts));\n    __syncwarp();",
        "parts));",
        "the grid",
        RACE,
    ),
    "words are reset": ("words[p] = 0;", ";", "the grid", LEFT),
    "groups follow each other": (
        "ends = inside == group - 1",
        "ends = false",
        "groups of blocks",
        WRONG,
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_orders_blocks_is_needed(name: str) -> None:
    right, without, loops, found = NEEDED[name]
    fusion = scheduled(LOOPS[loops]).fusion
    kernel = lowered(fusion)
    text = cuda_text(kernel, H200)
    assert right in text
    faults = _faults(loops, text.replace(right, without))
    assert found in faults if found else not faults


def _faults(loops: str, text: str) -> set[str]:
    """What is wrong with a text of the kernel that sums rows."""
    fusion = scheduled(LOOPS[loops]).fusion
    kernel = lowered(fusion)
    x = np.random.default_rng(0).integers(-9, 9, (3, 600)).astype(np.float32)
    (source,), (output,) = fusion.input_tensors, fusion.outputs
    memory = {source.name: x}
    report = reported(kernel, values_of(fusion, memory), memory, text=text)
    assert report.verdict != "incomplete", report
    found = {finding.kind for finding in report.findings}
    words = (array for name, array in report.arrays.items() if name.endswith("_arrivals"))
    wanted = 2 * np.cumsum(x, 1) + 1
    same = np.array_equal(report.arrays[output.value.name].reshape(x.shape), wanted)
    return found | ({LEFT} if any(map(np.any, words)) else set()) | (set() if same else {WRONG})
