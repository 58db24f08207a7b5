"""Objects are keys themselves: an identity as a key says less, and outlives what it stood for."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "warpsmith"
PARTS = ("ir", "ops", "schedule", "schedulers", "planner", "engine", "lower", "kernel", "frontends")
MEMO = {"lower/verify/outline.py"}
"""What was found of statements is kept by object there, which it holds: equal ones stand apart."""


def identities(text: str) -> list[int]:
    """Lines of a source text that name the function `id`."""
    names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
    return [node.lineno for node in names if node.id == "id"]


@pytest.mark.parametrize("part", PARTS)
def test_no_key_is_an_identity(part: str) -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in sorted((PACKAGE / part).rglob("*.py"))
        if "ordering" not in path.parts and (lines := identities(path.read_text()))
    }
    assert found.keys() <= MEMO


def test_identities_are_found() -> None:
    assert identities("a = {id(b): c}\nd = set(map(id, e))\nf.id = 1") == [1, 2]
