"""Reports: verdicts, sides, what JSON holds, and where findings say that they are."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sim.support.catalog import read_ptx, read_spec
from tests.sim.support.small import ADD_ONE, add_one_spec, ptx_of, run_body
from warpsmith import sim
from warpsmith.sim import Finding, Report, Site
from warpsmith.sim.report import KINDS, WRONG_OUTPUT

RACE = """
  __shared__ int x;
  if (threadIdx.x == 0) x = 1;
  if (threadIdx.x == 32) x = 2;
  __syncthreads();
  if (x == 3) __trap();
"""


def report_of(*kinds: str) -> Report:
    findings = tuple(Finding(kind=kind, message="what", site=Site(line=3)) for kind in kinds)
    return Report(kernel="k", findings=findings, schedules=("round-robin",), stats={}, arrays={})


@pytest.mark.parametrize(
    ("kinds", "verdict", "code"),
    [
        ((), "clean", 0),
        (("race",), "findings", 1),
        (("race", "budget"), "findings", 1),
        (("budget",), "incomplete", 2),
        (("unsupported",), "incomplete", 2),
        (("wrong-output",), "findings", 1),
    ],
)
def test_verdicts_and_exit_codes(kinds: tuple[str, ...], verdict: str, code: int) -> None:
    assert (report_of(*kinds).verdict, report_of(*kinds).exit_code) == (verdict, code)


def test_a_race_has_two_sides_and_an_address() -> None:
    report = run_body(RACE, block=64)
    (finding,) = report.findings
    assert (finding.kind, finding.buffer, finding.address) == ("race", None, 0x400)
    other = finding.other
    assert other
    assert {(finding.site.warp, finding.site.lane), (other.warp, other.lane)} == {(0, 0), (1, 0)}
    assert finding.site.text.startswith("st.shared")
    assert finding.site.source
    assert finding.site.source.endswith("k.cu:6")
    assert str(finding).count("\n") == 2


def test_a_report_is_json_values() -> None:
    content: dict[str, Any] = json.loads(json.dumps(run_body(RACE, block=64).to_json()))
    assert content["verdict"] == "findings"
    (finding,) = content["findings"]
    assert finding["site"]["block"] == [0, 0, 0]
    assert finding["other"]["warp"] in (0, 1)
    assert content["stats"]["instructions"] > 0
    assert content["schedules"] == ["round-robin"]


def test_out_of_bounds_names_the_buffer_and_the_offset() -> None:
    spec = add_one_spec(block=[64], params=[{"ptr": "x"}, {"u32": 64}])
    findings = {f.kind: f for f in sim.run(ADD_ONE, spec).findings}
    finding = findings["out-of-bounds"]
    assert (finding.buffer, finding.address) == ("x", 128)
    assert (finding.site.cta, finding.site.warp, finding.site.lane) == (0, 1, 0)


def test_a_misaligned_address_is_an_offset_in_its_buffer() -> None:
    spec = add_one_spec(params=[{"ptr": {"buffer": "x", "offset": 2}}, {"u32": 1}])
    (finding,) = [f for f in sim.run(ADD_ONE, spec).findings if f.kind == "misaligned"][:1]
    assert (finding.buffer, finding.address) == ("x", 2)


def test_a_copy_from_behind_all_buffers_names_none_of_them() -> None:
    spec = read_spec("bulk_ring")
    first = next(at for at, param in enumerate(spec["params"]) if "ptr" in param)
    spec["params"][first] = {"u64": 0x7699_0000_0000}
    kinds = {f.kind: f for f in sim.run(read_ptx("bulk_ring"), spec, schedules=1).findings}
    assert kinds["out-of-bounds"].buffer is None


def test_blocks_are_block_indices_also_in_clusters() -> None:
    body = "if (blockIdx.x == 1 && blockIdx.y == 2 && threadIdx.x == 0) __trap();"
    spec = {"grid": [4, 4], "block": [32]}
    for cluster in ([1, 1], [2, 1], [2, 2]):
        ptx = ptx_of(body)
        (finding,) = sim.run(ptx, {**spec, "cluster": cluster}, schedules=1).findings
        assert finding.kind == "trap"
        assert finding.site.block == (1, 2, 0)
        assert "(1, 2, 0), warp 0, lane 0" in str(finding.site)


def test_wrong_outputs_name_the_first_element() -> None:
    right = np.arange(32, dtype=np.float32) + 1
    assert sim.run(ADD_ONE, add_one_spec(), expect={"x": right}).verdict == "clean"
    wrong = right.copy()
    wrong[[5, 7]] = (0, np.nan)
    (finding,) = sim.run(ADD_ONE, add_one_spec(), expect={"x": wrong}).findings
    assert (finding.kind, finding.buffer) == ("wrong-output", "x")
    assert "x[5] is 6.0, expected 0.0" in finding.message
    assert "2 of 32 elements are wrong" in finding.message


def test_a_budget_that_is_spent_says_where_the_warps_stand() -> None:
    body = "volatile __shared__ int x; x = 0; for (int i = 0;; ++i) x = i;"
    report = sim.run(ptx_of(body), {"grid": [1], "block": [32]}, schedules=1, budget=10_000)
    assert report.verdict == "incomplete"
    (finding,) = report.findings
    assert finding.kind == "budget"
    assert "the budget of 10000 warp instructions is spent: warp 0 of CTA 0 at line" in (
        finding.message
    )


def test_every_kind_is_in_the_manual_once() -> None:
    page = Path(__file__).parents[2] / "docs" / "simulator_findings.md"
    table = page.read_text().partition("| kind | what it means |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)) == sorted(
        (*KINDS, WRONG_OUTPUT)
    )
