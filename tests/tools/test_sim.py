"""`warpsmith sim`: what it prints, what it writes, how it ends."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.sim.support.catalog import read_ptx, read_spec
from tests.sim.support.corpus import BUGS
from tests.sim.support.small import ADD_ONE, add_one_spec, ptx_of
from warpsmith.tools.cli import app


@pytest.fixture
def call(tmp_path: Path) -> Any:
    """Runs the command on a text and a spec, in a folder of their own."""

    def run(ptx: str, spec: Any, *options: object) -> Result:
        (tmp_path / "k.ptx").write_text(ptx)
        (tmp_path / "spec.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
        files = ("sim", tmp_path / "k.ptx", "--spec", tmp_path / "spec.json")
        return CliRunner().invoke(app, [str(word) for word in (*files, *options)])

    return run


def bug(name: str) -> tuple[str, dict[str, Any]]:
    found = next(bug for bug in BUGS if bug.name == name)
    return found.ptx(), next(iter(found.specs()))


def test_a_clean_kernel(call: Any) -> None:
    result = call(ADD_ONE, add_one_spec(), "--schedules", 2)
    assert result.exit_code == 0, result.output
    assert "add_one: clean under 2 schedules: round-robin, producer-first" in result.stdout
    assert "11 warp instructions" in result.stdout
    assert "bytes: 128 read from global memory, 128 written to global memory" in result.stdout


def test_a_finding_has_both_sides_their_lines_and_the_schedule(call: Any) -> None:
    result = call(*bug("ring/no_init_sync"))
    assert result.exit_code == 1
    for text in (
        "ring: findings under 4 schedules: round-robin, producer-first, consumer-first, random 3",
        "\nrace\n  uses the mbarrier at shared address 0xb80 of CTA 0 with nothing that orders",
        "    at  line ",
        "    and line ",
        "ptx.cuh:50 in ring.cu:47",
        "        mbarrier.init.shared::cta.b64 [",
        "mbarrier 0xb80, phase 0; 8 times; first in schedule round-robin",
        "\ndeadlock\n",
    ):
        assert text in result.stdout


def test_no_more_than_a_few_of_each_kind(call: Any) -> None:
    body = "extern __shared__ int x[];" + "".join(
        f"if (threadIdx.x % 32 == 0) x[{i}] = threadIdx.x; __syncthreads();" for i in range(6)
    )
    body += "for (int i = 0; i < 6; ++i) if (x[i] == 77) __trap();"
    result = call(ptx_of(body), {"grid": [1], "block": [64], "shared_bytes": 64})
    assert result.exit_code == 1
    assert "  and 3 more of this kind\n" in result.stdout
    assert result.stdout.count("    at  ") == 3


def test_an_instruction_that_is_not_simulated_is_named(call: Any) -> None:
    result = call(ADD_ONE.replace("add.f32 %f, %f, 0f3F800000", "tex.1d.v4.f32.f32"), {})
    assert result.exit_code == 2
    assert "line 15" in result.stderr
    assert "tex" in result.stderr
    assert "Traceback" not in result.output


def test_a_budget_that_is_spent_is_not_clean(call: Any) -> None:
    result = call(read_ptx("ws_ring"), read_spec("ws_ring"), "--budget", 100)
    assert result.exit_code == 2
    assert "ws_ring: incomplete under 4 schedules" in result.stdout
    assert "the budget of 100 warp instructions is spent" in result.stdout


def test_what_the_kernel_prints_is_shown_as_it_is(call: Any) -> None:
    ptx = ptx_of(r'if (threadIdx.x < 2) printf("[bold]%d[/bold]\n", threadIdx.x);')
    result = call(ptx, {"grid": [1], "block": [32]})
    assert result.exit_code == 0
    assert "the kernel printed\n[bold]0[/bold]\n[bold]1[/bold]\n" in result.stdout


def test_json_has_the_report(call: Any, tmp_path: Path) -> None:
    assert call(*bug("ring/no_init_sync"), "--json", tmp_path / "out.json").exit_code == 1
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["verdict"] == "findings"
    finding = content["findings"][0]
    assert (finding["kind"], finding["barrier"], finding["phase"]) == ("race", 0xB80, 0)
    assert finding["site"]["caller"].endswith("ring.cu:72")
    assert finding["other"]["text"].startswith("mbarrier.init")
    assert content["stats"]["copied_in"] > 0


def test_json_says_why_nothing_could_be_judged(call: Any, tmp_path: Path) -> None:
    result = call(ADD_ONE, add_one_spec(grid=[0]), "--json", tmp_path / "out.json")
    assert result.exit_code == 2
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["verdict"] == "incomplete"
    assert "`grid`[0] is 0" in content["error"]


def test_the_timeline_is_written(call: Any, tmp_path: Path) -> None:
    result = call(ADD_ONE, add_one_spec(), "--trace", tmp_path / "trace.json")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("option", ["--json", "--trace"])
def test_files_that_cannot_be_written_are_refused_first(
    call: Any, tmp_path: Path, option: str
) -> None:
    for path in (tmp_path, tmp_path / "gone" / "out.json", Path("/proc/out.json")):
        result = call(ADD_ONE, add_one_spec(), option, path)
        assert result.exit_code == 2, path
        assert str(path) in result.stderr
        assert result.stderr.count("\n") == 1
        assert not result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--schedules", "0"), "--schedules"),
        (("--schedules", "1.5"), "--schedules"),
        (("--seed", "-1"), "--seed"),
        (("--budget", "many"), "--budget"),
        (("--kernel", "other"), "no kernel `other`"),
        (("--schedules", "20000"), "`schedules` is 20000"),
    ],
)
def test_options_that_are_refused(call: Any, options: tuple[str, ...], said: str) -> None:
    result = call(ADD_ONE, add_one_spec(), *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{}")
    (tmp_path / "k.ptx").write_text(ADD_ONE)
    for ptx, spec, missing in (("gone.ptx", "spec.json", "gone.ptx"), ("k.ptx", "gone", "gone")):
        result = CliRunner().invoke(
            app, ["sim", str(tmp_path / ptx), "--spec", str(tmp_path / spec)]
        )
        assert result.exit_code == 2
        assert missing in result.stderr
        assert "Traceback" not in result.output


def test_two_entries_of_one_name_in_a_spec(call: Any) -> None:
    result = call(ADD_ONE, '{"grid": [1], "grid": [2]}')
    assert result.exit_code == 2
    assert "two entries `grid`" in result.stderr


def test_a_fault_of_ours_is_one_line_too(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("warpsmith.sim.door.run", broken)
    result = call(ADD_ONE, add_one_spec(), "--json", tmp_path / "out.json")
    assert result.exit_code == 2
    assert "the simulator broke: IndexError: tuple index out of range" in result.stderr
    assert "please report it" in result.stderr
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "incomplete"


def test_an_interrupt_stops_it_at_once(tmp_path: Path) -> None:
    endless = "__shared__ volatile unsigned x; for (unsigned i = 0;; ++i) x = i;"
    (tmp_path / "k.ptx").write_text(ptx_of(endless))
    (tmp_path / "spec.json").write_text('{"grid": [1], "block": [32]}')
    files = (str(tmp_path / "k.ptx"), "--spec", str(tmp_path / "spec.json"))
    budget = ("--budget", str(10**15))
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsmith", "sim", *files, *budget],
        stderr=subprocess.PIPE,
        text=True,
        # a shell's job in the background ignores interrupts, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        maps = Path(f"/proc/{process.pid}/maps")
        until = time.monotonic() + 60
        while "/machine-" not in maps.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stopped" in said
    assert "Traceback" not in said
