"""Damaged texts and specs end in a report or a SimulationError; nothing else, and no crash."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.sim.support.catalog import read_ptx, read_spec
from warpsmith import sim
from warpsmith.errors import SimulationError
from warpsmith.tools.cli import app

KERNELS = ("ws_ring", "atomics_shuffles", "tma_store", "corpus/wgmma", "cp_async")
HOSTILE = st.one_of(
    st.sampled_from(
        (None, True, -1, 0, 1, 3, 0.5, 1e300, float("nan"), float("inf"), 1 << 31, 1 << 32)
    ),
    st.sampled_from((1 << 62, 1 << 64, 10**400, "", "x", "randn", "bfloat16", "object", "U9")),
    st.sampled_from(([], [[]], [1, 1], [1 << 20] * 3, [0, 0], {}, {"ptr": "x"}, {"u32": -1})),
    st.integers(-(1 << 40), 1 << 40),
    st.text(max_size=5),
)
WORDS = ("0", "1", "7", "-1", "4294967295", "0x7fffffff", "%r1", "%rd1", "%p1", "_", "[", "}", ";")
WORDS += (".v2", ".cluster", ".shared::cta", "2147483648", "0f7F800000", "bar.sync", "ret", "$L__1")
MOST = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a spec."""
    yield at
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, inner in entries:
        yield from paths(inner, (*at, key))


def damage_spec(draw: st.DrawFn, spec: Any) -> Any:
    """One value replaced, removed or put in twice."""
    spec = copy.deepcopy(spec)
    *home, last = draw(st.sampled_from([path for path in paths(spec) if path] or [("grid",)]))
    inner = spec
    for key in home:
        inner = inner[key]
    match draw(st.sampled_from(("replace", "remove", "again"))):
        case "replace":
            inner[last] = draw(HOSTILE)
        case "remove":
            inner.pop(last, None) if isinstance(inner, dict) else inner.pop(last)
        case _ if isinstance(inner, list):
            inner.insert(last, copy.deepcopy(inner[last]))
        case _:
            inner[draw(st.text(max_size=3))] = inner.get(last)
    return spec


def damage_text(draw: st.DrawFn, text: str) -> str:
    """One word replaced, removed, doubled or moved; or the text cut off."""
    words = [match.span() for match in re.finditer(r"[\w.%$:]+|[^\s\w]", text)] or [(0, 0)]
    start, end = draw(st.sampled_from(words))
    match draw(st.sampled_from(("word", "other", "remove", "again", "cut", "character"))):
        case "word":
            return text[:start] + draw(st.sampled_from(WORDS)) + text[end:]
        case "other":
            other = slice(*draw(st.sampled_from(words)))
            return text[:start] + text[other] + text[end:]
        case "remove":
            return text[:start] + text[end:]
        case "again":
            return text[:end] + " " + text[start:]
        case "cut":
            return text[:start]
        case _:
            return text[:start] + draw(st.characters()) + text[start:]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Any]:
    """A text and a spec, of which one or both are damaged a little."""
    name = draw(st.sampled_from(KERNELS))
    ptx, spec = read_ptx(name), read_spec(name)
    what = draw(st.sampled_from(("spec", "text", "both")))
    for _ in range(draw(st.integers(1, 3))):
        ptx = damage_text(draw, ptx) if what != "spec" else ptx
        spec = damage_spec(draw, spec) if what != "text" else spec
    return ptx, spec


@MOST
@given(damaged())
def test_only_errors_of_ours(case: tuple[str, Any]) -> None:
    ptx, spec = case
    try:
        report = sim.run(ptx, spec, schedules=2, budget=20_000)
    except SimulationError:
        return
    assert report.exit_code in (0, 1, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@settings(parent=MOST, max_examples=20)
@given(damaged())
def test_the_command_never_shows_a_traceback(folder: Path, case: tuple[str, Any]) -> None:
    ptx, spec = case
    (folder / "k.ptx").write_text(ptx, "utf-8", errors="replace")
    (folder / "spec.json").write_text(json.dumps(spec))
    arguments = ("--schedules", "1", "--budget", "20000", "--json", str(folder / "out.json"))
    result = CliRunner().invoke(
        app, ["sim", str(folder / "k.ptx"), "--spec", str(folder / "spec.json"), *arguments]
    )
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1, 2)
    verdict = json.loads((folder / "out.json").read_text())["verdict"]
    assert {"clean": 0, "findings": 1, "incomplete": 2}[verdict] == result.exit_code
