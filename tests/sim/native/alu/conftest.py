"""The arithmetic, compiled once for the tests of this folder."""

import pytest

from tests.sim.support.alu import Alu, build


@pytest.fixture(scope="session")
def alu(tmp_path_factory: pytest.TempPathFactory) -> Alu:
    return build(tmp_path_factory.mktemp("alu"))
