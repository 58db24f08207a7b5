"""The page in a real browser: `make test-browser` installs one, from Debian's packages."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.browser import Page, browser_path, opened
from warpsmith import ops

PROGRAM = browser_path()

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no browser is installed")

LIT = "[...document.querySelectorAll('.lit')].map(e => e.textContent)"
PICKED = "[...document.querySelectorAll('.picked')].map(e => e.textContent)"


def gated(x: Any, w: Any, bias: Any) -> Any:
    product = ops.linear(x, w)
    shifted = product + bias
    return ops.silu(shifted)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("browser")
    given = [np.zeros(shape, np.float16) for shape in ((256, 256), (256, 256), (256,))]
    path = folder / "page.html"
    path.write_text(warpsmith.fuse(gated).lower(*given).compile().explain_html("gated"))
    assert PROGRAM is not None
    with opened(PROGRAM, folder / "profile") as page:
        page.open(path)
        yield page


def row(panel: str, words: str) -> str:
    """Of a listing, the first line with these words."""
    return (
        f"[...document.querySelectorAll('.{panel} .row')]"
        f".find(e => e.textContent.includes({words!r}))"
    )


def test_it_opens_alone_and_without_errors(page: Page) -> None:
    assert page.value("document.title") == "gated: warpsmith"
    assert page.said == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert len(page.requests) <= 2  # itself, and the icon in it


def test_pointing_at_a_statement_lights_its_line_and_a_click_keeps_it(page: Page) -> None:
    page.point(row("cuda", "ws_silu"))
    lit = page.value(LIT)
    assert any("ops.silu(shifted)" in text for text in lit)
    assert any("ws_silu" in text for text in lit)
    assert not any("ops.linear" in text for text in lit)
    page.point(row("cuda", "ws_silu"), click=True)
    page.point("document.querySelector('h1')")
    assert page.value(LIT) == []
    picked = page.value(PICKED)
    assert any("return ops.silu(shifted)" in text for text in picked)
    page.point(row("cuda", "ws_silu"), click=True)
    assert page.value(PICKED) == []
    assert page.said == []


def test_clicking_a_line_of_python_shows_its_statements(page: Page) -> None:
    page.value("document.querySelector('.cuda').scrollTop = 0")
    page.point(row("python", "shifted = product + bias"), click=True)
    picked = page.value(PICKED)
    assert any("T7 = ((T3[" in text or " + T6)" in text for text in picked)
    first = "document.querySelector('.cuda .picked').getBoundingClientRect()"
    panel = "document.querySelector('.cuda').getBoundingClientRect()"
    assert page.value(f"{first}.top >= {panel}.top && {first}.bottom <= {panel}.bottom")
    page.point(row("python", "shifted = product + bias"), click=True)


def test_an_operation_lights_its_line_too(page: Page) -> None:
    page.point("[...document.querySelectorAll('.node')].find(e => e.textContent.includes('silu'))")
    assert any("return ops.silu(shifted)" in text for text in page.value(LIT))


def test_words_fit_their_boxes_and_nothing_is_wider_than_a_laptop(page: Page) -> None:
    wide = page.value(
        "[...document.querySelectorAll('.graph .node')].filter(n => "
        "n.querySelector('text').getBBox().width > n.querySelector('rect').getBBox().width)"
        ".map(n => n.textContent)"
    )
    assert wide == []
    assert page.value("document.documentElement.scrollWidth <= window.innerWidth")


def test_it_is_drawn_in_light_and_dark(page: Page) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        picture = page.screenshot()
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", picture[16:24]) == (1366, 900)
        grounds.append(page.value("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]
