"""A headless Chromium, told what to do over a pipe by its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60


def browser_path() -> str | None:
    """Where a browser is installed; None where none is."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """One page in the browser.

    Attributes:
        said: what the page wrote to its console, what failed in it, and what it asked for.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.said: list[str] = []
        self.requests: list[str] = []

    def open(self, path: Path, *, width: int = 1366, height: int = 900) -> None:
        """Load a file, and wait until it is there."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self._ask("Page.navigate", url=path.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point(self, found: str, *, click: bool = False) -> None:
        """Move the mouse to the middle of what an expression finds, and perhaps click."""
        place = self.value(
            f"(() => {{ const e = {found}; e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect();"
            "return [b.left + Math.min(b.width, 300) / 2, b.top + b.height / 2]; })()"
        )
        x, y = place
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def prefer(self, scheme: str) -> None:
        """Ask for `light` or `dark` colors."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", features=features)

    def screenshot(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        """The next message, an answer or an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._read], [], [], _SECONDS)
            assert ready, f"the browser said nothing for {_SECONDS} seconds"
            got = os.read(self._read, 1 << 16)
            assert got, "the browser ended"
            self._buffer += got
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        given = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        if message.get("method") in (
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
        ):
            self.said.append(json.dumps(given))
        return message


@contextmanager
def opened(program: str, profile: Path) -> Iterator[Page]:
    """A page of a browser of its own, whose files are in `profile`."""
    to_read, browser_writes = os.pipe()
    browser_reads, to_write = os.pipe()

    def place() -> None:  # the protocol's pipes are descriptors 3 and 4
        reads, writes = os.dup(browser_reads), os.dup(browser_writes)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    command += [f"--user-data-dir={profile}", "--no-first-run", "--disable-dev-shm-usage"]
    with subprocess.Popen(
        command,
        preexec_fn=place,
        pass_fds=(3, 4),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        os.close(browser_reads)
        os.close(browser_writes)
        try:
            yield Page(to_read, to_write)
        finally:
            os.close(to_write)
            os.close(to_read)
            browser.terminate()
            browser.wait(_SECONDS)
