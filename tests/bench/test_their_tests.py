"""nvFuser's tests, as they are run on warpsmith: a folder that looks like theirs."""

from pathlib import Path

import pytest

from bench.their_tests import Outcomes, main, outcomes_of

pytest.importorskip("torch")

UTILITIES = "def rows():\n    return 3\n"

CONFTEST = """
import pytest
import nvfuser_direct
from python.direct_utils import rows

@pytest.fixture
def shape():
    return rows(), 4
"""

TESTS = """
import pytest
import torch
from nvfuser_direct import FusionDefinition

def test_runs(shape):
    x = torch.ones(shape, device="cuda:0")
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), [0]))
    (found,) = fd.execute([x])
    torch.testing.assert_close(found, x.cuda().sum(0).to("cuda"))

def test_says_what_is_wrong():
    assert FusionDefinition is None

@pytest.mark.skipif(torch.cuda.get_device_properties(0).major < 10, reason="for Blackwell")
def test_of_another_gpu():
    raise AssertionError
"""


@pytest.mark.slow  # a process that imports torch
def test_a_folder_of_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "python" / "direct"
    folder.mkdir(parents=True)
    (folder.parent / "direct_utils").mkdir()
    (folder.parent / "direct_utils" / "__init__.py").write_text(UTILITIES)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(TESTS)
    main([str(folder)])
    said = capsys.readouterr().out
    assert "| `test_some.py` | 1 | 1 | 1 | 50.0% |" in said
    assert "1 skipped: for Blackwell" in said
    assert "1 failed: " in said


def test_what_fails_behind_a_test_has_failed() -> None:
    line = {"test": "a", "outcome": "passed", "reason": ""}
    found = outcomes_of("f", [line, {**line, "outcome": "failed", "reason": "late\nmore"}])
    assert found == Outcomes(file="f", passed=0, failed=1, skipped=0, reasons={"failed: late": 1})
    assert outcomes_of("f", []).share is None
