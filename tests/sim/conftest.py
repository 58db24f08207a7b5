"""The machine as the tests' cache holds it, for tests that would compile it into another one."""

from pathlib import Path

import pytest

from warpsmith import knobs, native
from warpsmith.sim import library as module


@pytest.fixture(scope="session")
def whole() -> bytes:
    """The file that the cache holds."""
    module.library()
    return module._path(knobs.current().cache_dir).read_bytes()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, whole: bytes) -> list[Path]:
    """Folders that it was compiled in; the compiler's work is done already."""
    seen: list[Path] = []

    def compiled(folder: Path) -> Path:
        seen.append(folder)
        (folder / "machine.so").write_bytes(whole[: -native.DIGEST_BYTES])
        return folder / "machine.so"

    monkeypatch.setattr(module, "_compiled", compiled)
    return seen
