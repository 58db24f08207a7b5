"""No file outside `warpsmith/targets` states what a GPU has, or how fast it is."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, fields
from functools import cache
from pathlib import Path

from warpsmith.targets.family import BUDGETS
from warpsmith.targets.hopper import SM90A
from warpsmith.targets.known import KNOWN

PACKAGE = Path(__file__).resolve().parents[2] / "warpsmith"

ARCH = re.compile(r"\bsm_\d+a?\b|\bcompute_\d+a?\b")

COMMON = 256
"""Numbers below it stand everywhere and mean anything, but for those of `SMALL`."""

SMALL = {132, 148, 227, 228, 248, 255}
"""Those below it that mean a GPU nearly everywhere."""

COINCIDENCES = {
    ("engine/simulated.py", 255): "a byte",
    ("frontends/nvfuser_direct/heuristics.py", 255): "nvFuser's default",
    ("knobs.py", 1024): "traces that are kept",
    ("lower/changes.py", 1024): "bytes of the widest swizzle's pattern",
    ("lower/exchanges.py", 2048): "bytes of stages for exchanges",
    ("lower/passes/overlay_shared.py", 1024): "bytes that are worth it",
    ("nn/embeddings.py", 1024): "rows of a chunk",
    ("nn/calls.py", 65536): "elements of a small norm",
    ("ops", 2**31 - 1): "the largest 32-bit number",
    ("protocol", 1024): "iterations to which loops are cut",
    ("protocol", 65536): "steps that are told",
    ("runtime/launch.py", 1024): "48 KiB, which every kernel of any device has unasked",
    ("schedule/rings.py", 2**31 - 1): "the largest 32-bit number",
    ("schedulers", 1024): "rows, threads and bytes of heuristics",
    ("schedulers", 2048): "rows and vectors of heuristics",
    ("schedulers", 65536): "rows and bytes of heuristics",
    ("tools", 1024): "columns of an example",
    ("tools", 2048): "columns of an example",
    ("sim", 1024): "instruction flags and the start of shared memory",
    ("sim", 2048): "instruction flags",
    ("sim", 65536): "instruction flags, and what is simulated at most",
    ("sim", 132): "the number of an instruction",
    ("sim", 255): "a byte",
    ("sim", 2**31 - 1): "the largest 32-bit number",
}
"""(where, number): what else it means there."""


OPERATORS: dict[type[ast.operator], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


def stated() -> set[float]:
    """The numbers of all targets that say something."""
    found: set[float] = {BUDGETS[-1]}
    for target in KNOWN:
        limits = [getattr(target.family.limits, field.name) for field in fields(SM90A.limits)]
        flat = [n for each in limits for n in (each if isinstance(each, tuple) else (each,))]
        found |= {*flat, *astuple(target.rates), target.sm_count, target.l2_bytes}
    return {number for number in found if number >= COMMON or number in SMALL}


def numbers(tree: ast.AST) -> Iterator[tuple[float, int]]:
    """Numbers of a file, and what it computes of numbers alone, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.BinOp):
            value = _value(node)
            if value is not None:
                yield value, node.lineno


def _value(node: ast.expr) -> float | None:
    """Of a number, and of sums and products of numbers."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]  # as was just asked
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if left is not None and right is not None:
            result: float = OPERATORS[type(node.op)](left, right)
            return result
    return None


def is_allowed(place: str, number: float) -> bool:
    return any(place.startswith(where) and number == n for where, n in COINCIDENCES)


@cache
def parsed() -> tuple[tuple[str, ast.Module], ...]:
    """Every file outside `targets`, by its place in the package."""
    return tuple(_parsed())


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith("targets/"):
            yield place, ast.parse(path.read_text())


def said(trees: Iterable[tuple[str, ast.AST]]) -> list[tuple[str, float, int]]:
    """The numbers of files that some target states, with their places and lines."""
    known = stated()
    return [(p, n, line) for p, tree in trees for n, line in numbers(tree) if n in known]


def wrong(trees: Iterable[tuple[str, ast.AST]]) -> list[str]:
    return [
        f"warpsmith/{place}:{line} states {number:g}, as a target does: ask the target, write the "
        "number in another way, or say in COINCIDENCES what it is"
        for place, number, line in said(trees)
        if not is_allowed(place, number)
    ]


def test_numbers_are_those_of_the_target() -> None:
    assert wrong(parsed()) == []


def test_every_coincidence_is_still_there() -> None:
    found = {
        (where, number)
        for place, number, _ in said(parsed())
        for where, n in COINCIDENCES
        if place.startswith(where) and number == n
    }
    assert set(COINCIDENCES) - found == set()


def strings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Strings of a file that are no docstrings, each with its line."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value, node.lineno


def test_no_code_names_an_architecture() -> None:
    told = {"tools/cli.py", "sim/ptx/parse.py", "sim/ptx/decode/unsupported.py"}  # words of help
    named = [
        f"warpsmith/{place}:{line} {text!r}"
        for place, tree in parsed()
        for text, line in strings(tree)
        if ARCH.search(text) and place not in told
    ]
    assert named == []


def test_a_limit_elsewhere_is_noticed() -> None:
    for text in ("A = 232_448", "A = 227 * 1024", "A = 132", "A = 4_814_304", "A = 65535"):
        assert wrong([("lower/capacity.py", ast.parse(text))]), text
    assert not wrong([("lower/capacity.py", ast.parse("A = 64"))])
