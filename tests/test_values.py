"""Values against what `dataclasses` makes of the same classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from warpsmith import values

KINDS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"eq": False},
    {"kw_only": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False, "weakref_slot": True},
)


def classes(make: Callable[..., Any], kind: dict[str, bool]) -> dict[str, type[Any]]:
    """Classes of this kind with fields of every sort."""

    @make(**kind)
    class Empty:
        """Nothing."""

    @make(**kind)
    class One:
        """One field."""

        only: Any

    @make(**kind)
    class Many(One):
        """What derives from another, and has defaults of its own."""

        first: int
        second: str = "two"
        shown: int = field(default=3, repr=False, compare=False)
        made: Any = field(default_factory=list, hash=False)
        named: float = field(default=1.5, kw_only=True)

    @make(**kind)
    class Checked:
        """One that computes when the others are there."""

        given: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.given)

    @make(**kind)
    class Own:
        """Methods of its own stay."""

        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    made = (Empty, One, Many, Checked, Own)
    return {each.__name__: each for each in made}


def outcome(run: Callable[[], Any]) -> Any:
    """What comes of it, in a form that does not know which class it was."""
    try:
        return repr(run())
    except (TypeError, AttributeError) as error:
        said = str(error) if "argument" not in str(error) else ""
        return type(error).__name__, said


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind) or "plain")
def test_a_value_is_what_dataclasses_makes(kind: dict[str, bool]) -> None:
    nan = float("nan")

    def told(known: dict[str, type[Any]]) -> list[Any]:
        empty, one, many, checked, own = known.values()
        named = kind.get("kw_only", False)

        def new(cls: type[Any], *given: Any, **more: Any) -> Any:
            names = [f.name for f in fields(cls) if f.init]
            return (
                cls(**dict(zip(names, given, strict=False)), **more)
                if named
                else cls(*given, **more)
            )

        a, b = new(many, (1, 2), 5, named=2.0), new(many, (1, 2), 5, "two", 9, named=2.0)
        each = (new(empty), new(one, nan), a, b, new(checked, 4), new(own, 1))
        runs: list[Callable[[], Any]] = [
            lambda: many(1),
            lambda: many(1, 2, third=3),
            lambda: one(1, 2),
            lambda: replace(a, first=7),
            lambda: replace(new(checked, 4), given=5),
            lambda: [x == y for x in each for y in (*each, new(one, nan), new(own, 2))],
            lambda: [hash(x) for x in each if "Many" not in repr(x) and kind.get("eq", True)],
            lambda: hash(replace(a, made=())) == hash(replace(b, made=())),
            lambda: a.made is b.made,
            lambda: [copy.copy(x) for x in each],
            lambda: [copy.deepcopy(x) for x in each],
            lambda: setattr(a, "first", 1),
            lambda: delattr(new(one, 1), "only"),
            lambda: [hasattr(x, "__dict__") for x in each],
            lambda: [type(x).__match_args__ for x in each],
            lambda: [[f.name for f in fields(x)] for x in each],
            lambda: [dataclasses.asdict(x) for x in each],
            lambda: [list(inspect.signature(type(x)).parameters) for x in each],
            lambda: [type(x).__doc__ for x in each],
        ]
        return [list(map(repr, each)), *map(outcome, runs)]

    ours, theirs = (told(classes(make, kind)) for make in (values.dataclass, dataclasses.dataclass))
    assert ours == theirs


@values.dataclass(frozen=True, slots=True)
class Kept:
    """A value that a pickle can name."""

    x: int
    y: tuple[int, ...] = ()


def test_a_value_goes_through_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_a_value_stays_as_it_is() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Kept(1).x = 2  # type: ignore[misc]


def test_the_second_class_with_as_many_fields_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "_compiled", lambda *lines: pytest.fail("\n".join(lines)))

    @values.dataclass(frozen=True, slots=True)
    class Another:
        """As many fields as another one has."""

        u: str
        v: float = 0.0

    assert repr(Another("a")).endswith("Another(u='a', v=0.0)")
