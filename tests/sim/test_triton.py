"""Kernels that Triton compiled: the right numbers, and no finding but the listed ones."""

import pytest

from tests.sim.support.catalog import TRITON, TRITON_FINDINGS, read_ptx, read_spec
from tests.sim.support.judge import judge, kinds_of


@pytest.mark.parametrize("name", TRITON)
def test_right_numbers_and_the_listed_findings(name: str) -> None:
    report = judge(read_ptx(name), read_spec(name), name)
    assert kinds_of(report) == set(TRITON_FINDINGS.get(name, ())), str(report)


def test_at_least_five_are_clean() -> None:
    assert len(set(TRITON) - set(TRITON_FINDINGS)) >= 5


@pytest.mark.parametrize("name", ["triton/matmul_pointers", "triton/split_k"])
def test_wgmma_reads_what_cp_async_wrote_unfenced(name: str) -> None:
    for finding in judge(read_ptx(name), read_spec(name), count=1).findings:
        assert finding.site.text.startswith("wgmma.mma_async")
        assert finding.other is not None
        assert finding.other.text.startswith("cp.async")


def test_barriers_are_initialized_again_and_overwritten() -> None:
    name = "triton/matmul_warp_specialized"
    report = judge(read_ptx(name), read_spec(name), count=1)
    for finding in report.findings:
        init = finding.site if finding.kind == "barrier-reinitialized" else finding.other
        assert init is not None
        assert "mbarrier.init" in init.text
