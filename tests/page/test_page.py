"""The page is well-formed, whole and by itself, whatever its names are."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.compiling import compiled, four_layers
from warpsmith import FusionDefinition, ParallelType, ops
from warpsmith.engine.facts import facts_of
from warpsmith.frontends.lowered import Compiled
from warpsmith.page.listing import where
from warpsmith.page.markup import joined, tag
from warpsmith.page.program import size_text
from warpsmith.page.sources import sources_of
from warpsmith.tools.cli import app

HERE = Path(__file__)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.matmul(q, ops.permute(k, [0, 2, 1])) * 0.125  # scores
    e = ops.exp(scores - ops.max(scores, [2], keepdim=True))
    return ops.matmul(e / ops.sum(e, [2], keepdim=True), v)


@pytest.fixture(scope="module")
def call() -> Compiled:
    return compiled(attention, (2, 128, 64), (2, 128, 64), (2, 128, 64))


@pytest.fixture(scope="module")
def text(call: Compiled) -> str:
    return call.explain_html("attention")


def parsed(page: str) -> Tree.Element:
    return Tree.fromstring(page.removeprefix("<!DOCTYPE html>"))


def classed(root: Tree.Element, kind: str) -> list[Tree.Element]:
    return [e for e in root.iter() if kind in e.get("class", "").split()]


def words(element: Tree.Element) -> str:
    return "".join(element.itertext())


def test_it_is_well_formed_and_asks_for_nothing_else(text: str) -> None:
    root = parsed(text)
    assert root.tag == "html"
    for element in root.iter():
        for name in ("src", "href", "data", "action", "style"):
            assert not re.search(r"//|url\(", element.get(name, "")), element.attrib
    styles = [words(e) for e in root.iter() if e.tag in ("style", "script")]
    assert len(styles) == 2
    assert not any(re.search(r"url\(|@import|fetch\(|https?:", style) for style in styles)


def test_every_kernel_and_every_cut_is_there(call: Compiled, text: str) -> None:
    root = parsed(text)
    facts = facts_of(call._call, 12)
    assert len(facts.kernels) == 3
    assert len(facts.cuts) == 2
    sections = {e.get("id"): words(e) for e in root.iter("section")}
    for kernel in facts.kernels:
        said = sections[f"kernel-{kernel.number}"]
        launch = kernel.choice.launch
        assert launch is not None
        assert launch.name in said
        assert kernel.choice.scheduler in said
        for name, value in (*kernel.choice.parameters, *kernel.choice.refusals):
            assert name in said
            assert value in said
        for role in launch.roles:
            assert role.name in said
        for ring in launch.rings:
            assert f"{sum(size for _, size in ring.stage_bytes):,} bytes" in said
        assert 'extern "C" __global__' in said
    for cut in facts.cuts:
        assert str(cut.tensor) in sections["cuts"]
        assert all(reason in sections["cuts"] for _, reason in cut.together.refusals)


def test_the_graph_has_each_operation_once_and_ways_between(call: Compiled, text: str) -> None:
    root = parsed(text)
    nodes = classed(root, "node")
    keys = [node.get("data-key") for node in nodes]
    assert len(keys) == len(set(keys))
    operations = sum(len(each.segment.fusion.operations) for each in call._call.segments)
    computing = [key for key in keys if key and ":" in key]
    assert len(computing) == operations
    assert len(classed(root, "cut")) == 2
    assert len(classed(root, "band")) == 3
    # each operation here reads one tensor or two, and the last of the kernels write one each
    assert len(classed(root, "way")) > operations


def test_cuda_and_python_have_names_in_common(text: str) -> None:
    root = parsed(text)
    number = next(
        n for n, line in enumerate(HERE.read_text().splitlines(), 1) if "# scores" in line
    )
    python = [row for row in classed(root, "row") if row.get("data-line") == f"f0-{number}"]
    assert len(python) == 3  # beside each kernel
    assert "ops.matmul(q" in words(python[0])
    cuda = [
        row
        for row in classed(root, "row")
        if f"f0-{number}" in row.get("data-lines", "").split() and row not in python
    ]
    assert any("ws_multiply" in words(row) for row in cuda)


def test_each_kernel_has_a_timeline_that_says_its_sizes(text: str) -> None:
    root = parsed(text)
    drawn = classed(root, "timeline")
    assert len(drawn) == 3
    assert "The same kernel with T0 [2, " in words(root)
    assert {"load", "product", "wait"} <= {e.get("class") for e in drawn[0].iter("rect")}


HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "<b>&amp;.py"
    path.write_text(
        "from warpsmith import ops\n\n"
        f"def f(x):\n    # {HOSTILE}\n    return ops.exp(x)  # {HOSTILE}\n"
    )
    out = tmp_path / "out.html"
    result = CliRunner().invoke(app, ["explain", f"{path}:f", "float[8,8]", "--html", str(out)])
    assert result.exit_code == 0, result.output
    root = parsed(out.read_text())
    assert not list(root.iter("img"))
    assert HOSTILE in words(root)
    assert "<b>&amp;.py" in words(root)
    hostile = compiled(lambda x: ops.exp(x), (8, 8)).explain_html(HOSTILE)
    assert words(next(parsed(hostile).iter("h1"))) == HOSTILE


def test_a_page_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    path.write_text("def f(x):\n    return x + 1\n")
    given = ["explain", f"{path}:f", "float[8]", "--html", str(tmp_path / "no" / "out.html")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert "[WS0354] the page" in result.stderr


def test_many_operations_are_a_list() -> None:
    def long(x: Any) -> Any:
        for _ in range(50):
            x = ops.abs(x) + 1
        return x

    root = parsed(compiled(long, (64, 64)).explain_html())
    assert not classed(root, "graph")
    (table,) = classed(root, "programs")
    assert "50 abs, 50 add" in words(table)


def test_a_schedule_by_hand_has_a_page_without_prices() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
        y.split(0, 64)
        y.axis(1).parallelize(ParallelType.block_x)
    root = parsed(fd.explain_html([np.zeros(64, np.float32)]))
    assert "no time is predicted of a schedule by hand" in words(root)
    assert "Kernel 0: scheduled by hand" in words(root)
    assert classed(root, "timeline")


def test_a_part_without_elements_is_said_not_to_be_launched() -> None:
    root = parsed(compiled(lambda x: ops.exp(x), (0, 8)).explain_html())
    assert "there is nothing to compute" in words(root)


def test_layers_that_are_alike_have_one_section() -> None:
    root = parsed(compiled(four_layers, (128, 128), (128, 128)).explain_html())
    heads = [words(e) for e in root.iter("h2")]
    assert "Kernels 1, 2, which are alike: matmul" in heads
    targets = {e.get("id") for e in root.iter()}
    links = {e.get("href", "")[1:] for e in root.iter("a")}
    assert links == {f"kernel-{number}" for number in range(4)}
    assert links <= targets


def test_markup_escapes_all_but_markup() -> None:
    inner = tag("b", "<", title='"')
    assert inner == '<b title="&quot;">&lt;</b>'
    assert joined(inner, "&") == inner + "&amp;"
    assert tag("path", d="M0", stroke_width=1.25, x=None) == '<path d="M0" stroke-width="1.25"/>'


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (33554432, "33.6 MB"), (999_600_000, "1 GB")],
)
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([12], "12"),
        ([5, 6, 7, 9], "5-7,9"),
        ([1, 3, 5, 7, 9, 11], "1...11"),
        ([100, 102, 104], "100,102,104"),
    ],
)
def test_numbers_of_lines_are_short(numbers: list[int], text: str) -> None:
    assert where(tuple(("a.py", number) for number in numbers)) == text


def test_sources_are_the_functions_around_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n\n\n\n\n@wrap\ndef f():\n    y = 2\n    return y\n\n\nz = 3\n")
    (source,) = sources_of([(str(path), 8)])
    assert [line.number for line in source.parts[0]] == [6, 7, 8, 9]
    (source,) = sources_of([(str(path), 1), (str(path), 8)])
    assert [[line.number for line in part] for part in source.parts] == [[1, 2, 3], [6, 7, 8, 9]]
    (gone,) = sources_of([("<stdin>", 3)])
    assert [line.text for line in gone.parts[0]] == ["(not found)"]
