"""Knobs: reading them from the environment, changing them from Python, and their documentation."""

import re
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from pages import knobs as knob_page
from warpsmith import knobs
from warpsmith.errors import KnobError
from warpsmith.knobs import Knobs

ROOT = Path(__file__).parents[1]


def test_defaults_when_the_environment_is_empty() -> None:
    chosen = Knobs.from_environment({})
    assert chosen == Knobs()
    assert chosen.cache_dir == Path.home() / ".cache" / "warpsmith"
    assert (chosen.device, chosen.always_compile, chosen.dump) == ("auto", False, ())
    assert chosen.override_dir is None


def test_every_variable_is_read() -> None:
    chosen = Knobs.from_environment(
        {
            "WARPSMITH_CACHE_DIR": "~/kernels",
            "WARPSMITH_DUMP": "inline, predicates,",
            "WARPSMITH_DUMP_DIR": "/tmp/dump",
            "WARPSMITH_OVERRIDE_DIR": "/tmp/edited",
            "WARPSMITH_ALWAYS_COMPILE": "Yes",
            "WARPSMITH_DEVICE": "reference",
        }
    )
    assert chosen == Knobs(
        cache_dir=Path.home() / "kernels",
        dump=("inline", "predicates"),
        dump_dir=Path("/tmp/dump"),
        override_dir=Path("/tmp/edited"),
        always_compile=True,
        device="reference",
    )


def test_cache_follows_xdg_only_when_absolute() -> None:
    assert Knobs.from_environment({"XDG_CACHE_HOME": "/x"}).cache_dir == Path("/x/warpsmith")
    assert Knobs.from_environment({"XDG_CACHE_HOME": "x"}).cache_dir == Knobs().cache_dir


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("WARPSMITH_DEVICE", "tpu", "auto, gpu, sim, reference"),
        ("WARPSMITH_ALWAYS_COMPILE", "maybe", "1, true, yes, on, 0, false, no, off"),
        ("WARPSMITH_CACHE_DIR", " ", "the path of a directory"),
        ("WARPSMITH_WATCHDOG_SECONDS", "soon", "seconds, from 1e-9 to 1e6"),
        ("WARPSMITH_WATCHDOG_SECONDS", "0", "seconds, from 1e-9 to 1e6"),
        ("WARPSMITH_WATCHDOG_SECONDS", "nan", "seconds, from 1e-9 to 1e6"),
    ],
)
def test_wrong_value_names_variable_value_and_allowed(
    variable: str, value: str, allowed: str
) -> None:
    with pytest.raises(KnobError) as caught:
        Knobs.from_environment({variable: value})
    assert str(caught.value) == f"[WS0700] {variable}={value!r} is not allowed; allowed: {allowed}"


def test_wrong_value_from_python_is_refused_alike() -> None:
    with pytest.raises(
        KnobError, match=r"device='tpu' is not allowed; allowed: auto, gpu, sim, ref"
    ):
        Knobs().replace(device="tpu")
    with pytest.raises(KnobError, match=r"dump=\[1\] is not allowed; allowed: names separated"):
        Knobs().replace(dump=[1])


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({"rings": "never"}, True),
        ({"verify": "all"}, True),
        ({"watchdog_seconds": 7.0}, True),
        ({"kept_maps": 9, "progress": False, "cache_dir": "/elsewhere"}, False),
    ],
)
def test_a_scope_plans_anew_by_knobs_that_do_not_say_otherwise(
    change: dict[str, object], anew: bool
) -> None:
    with knobs.scope():
        plan = knobs.scoped_plan()
    with knobs.scope(**change):
        assert (knobs.scoped_plan() != plan) == anew


def test_waits_have_a_limit_only_with_the_watchdog() -> None:
    assert Knobs(watchdog_seconds=0.5).wait_limit is None
    assert Knobs(watchdog=True).wait_limit == 2 * 10**9
    half = Knobs.from_environment({"WARPSMITH_WATCHDOG": "1", "WARPSMITH_WATCHDOG_SECONDS": "0.5"})
    assert half.wait_limit == 500_000_000
    with knobs.scope(watchdog=True):
        watching = knobs.scoped_plan()
    with knobs.scope(watchdog=False):
        assert knobs.scoped_plan() != watching


def test_unknown_knob_is_refused_with_the_known_ones() -> None:
    with (
        pytest.raises(KnobError, match=r"no knob `chache_dir`; the knobs are cache_dir, dump"),
        knobs.scope(chache_dir="/tmp"),
    ):
        pass


def test_scope_nests_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_DEVICE", "reference")
    with knobs.scope(always_compile=True) as outer:
        assert (outer.always_compile, outer.device) == (True, "reference")
        with knobs.scope(cache_dir="/tmp/kernels"):
            assert knobs.current().cache_dir == Path("/tmp/kernels")
            assert knobs.current().always_compile
        assert knobs.current() is outer
    assert not knobs.current().always_compile


def test_scope_ends_after_an_error() -> None:
    before = knobs.current()
    with pytest.raises(RuntimeError), knobs.scope(always_compile=True):
        raise RuntimeError
    assert knobs.current() == before


def test_scope_stays_in_its_thread() -> None:
    seen: list[bool] = []
    with knobs.scope(always_compile=True):
        thread = threading.Thread(target=lambda: seen.append(knobs.current().always_compile))
        thread.start()
        thread.join()
    assert seen == [False]


def test_documentation_is_current() -> None:
    assert (ROOT / "docs" / "knobs.md").read_text() == knob_page.written(), "make docs writes it"


def test_every_knob_says_one_sentence() -> None:
    for declared in fields(Knobs):
        assert declared.metadata["meaning"].endswith("."), declared.name


def test_nothing_else_reads_the_environment() -> None:
    reads = re.compile(r"\bos\.environ|\bgetenv\b|from os import .*environ")
    readers = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "warpsmith").rglob("*.py"))
        if reads.search(path.read_text())
    ]
    assert readers == ["warpsmith/knobs.py"]
