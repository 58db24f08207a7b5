"""Machine code that lacks what the PTX asked for is told from machine code that has it."""

import pytest

from tests.support.role_code import Counts, missing_from_ptx, ptx_counts, sass_counts
from tests.support.role_sources import WAITS, product, two_budgets
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Source


def forms(text: str) -> tuple[str, str]:
    """PTX and SASS of the kernel `k`."""
    binary = compile_source(Source(text=text, entry="k", arch="sm_90a"))
    return binary.ptx, disassemble(binary.cubin)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        (two_budgets("__launch_bounds__(384, 1)", 24, 240), (2, 0, 0), (2, 0, 0)),
        (product(), (0, 1, 0), (0, 1, 0)),
        (WAITS, (0, 0, 2), (0, 0, 2)),
        # Unrolled by four, with what is left over, and again where the first try fails.
        (WAITS.replace("#pragma unroll 1", ""), (0, 0, 6), (0, 0, 12)),
    ],
)
def test_instructions_of_roles_are_counted(
    text: str, asked: tuple[int, int, int], found: tuple[int, int, int]
) -> None:
    ptx, sass = forms(text)
    names = ("register_changes", "products", "waits")
    assert ptx_counts(ptx) == Counts(**dict(zip(names, asked, strict=True)))
    assert sass_counts(sass) == Counts(**dict(zip(names, found, strict=True)))
    assert missing_from_ptx(ptx, sass) == ""


def test_budgets_that_ptxas_dropped_are_missed() -> None:
    ptx, sass = forms(two_budgets("__launch_bounds__(384)", 24, 240))
    assert missing_from_ptx(ptx, sass) == "0 USETMAXREG for 2 setmaxnreg"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (product(), "HGMMA", "0 HGMMA for 1 wgmma.mma_async"),
        (WAITS, "SYNCS.PHASECHK", "0 SYNCS.PHASECHK for 2 mbarrier.try_wait"),
    ],
)
def test_missing_products_and_waits_are_missed(text: str, line: str, words: str) -> None:
    ptx, sass = forms(text)
    without = "\n".join(each for each in sass.splitlines() if line not in each)
    assert missing_from_ptx(ptx, without) == words
