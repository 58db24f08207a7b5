"""Parts of the native core, compiled once for the tests of this folder."""

import pytest

from tests.sim.support import native_library, native_parts


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> native_parts.Parts:
    folder = tmp_path_factory.mktemp("native_parts")
    return native_parts.Parts(native_library.build(folder, native_parts.SOURCES))
