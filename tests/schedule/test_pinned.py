"""Sizes that shared memory needs as numbers: those of dimensions that a block holds whole."""

import numpy as np

from warpsmith import FusionDefinition, MemoryType, ParallelType
from warpsmith.schedule.pinned import pin, shared_sizes


def test_sizes_of_whole_rows_become_numbers() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.add(x, fd.ops.size(x, 1))
        fd.add_output(y)
        row = x.cache_after()
        assert not shared_sizes(fd.fusion)
        row.set_memory_type(MemoryType.shared)
        for tensor in (row, y):
            tensor.axis(0).parallelize(ParallelType.grid_x)
        assert {size.name for size in shared_sizes(fd.fusion)} == {f"{x.name}_size1"}
        pin(fd.fusion, dict.fromkeys(shared_sizes(fd.fusion), 12))
        assert not shared_sizes(fd.fusion)
    assert repr(y.logical[1]) == "i[12]"
    given = np.arange(36, dtype=np.float32).reshape(3, 12)
    (found,) = fd.manual_execute([given])
    np.testing.assert_array_equal(found, given + 12)
