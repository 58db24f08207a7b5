"""Calls of large tensors hold no more memory than what is in use at the same time."""

import weakref
from typing import Any

import pytest

import warpsmith
from tests.programs import judge
from tests.support.stand_in import StandIn, random_call, stand_in
from warpsmith import knobs, ops
from warpsmith.engine import lives, runners
from warpsmith.engine.executable import Executable
from warpsmith.engine.lives import peak_of, takes_turns
from warpsmith.errors import DeviceError, WarpsmithError
from warpsmith.ir.dtypes import DataType

torch = pytest.importorskip("torch")
_empty, _empty_strided = torch.empty, torch.empty_strided


class Memory:
    """Tensors of the calls of a test that are still there, asked before each launch.

    Attributes:
        held: bytes of those that calls made, at each launch.
        gone: which of the arguments were not there any more, at each launch.
    """

    def __init__(self) -> None:
        self._made: list[weakref.ref[Any]] = []
        self._given: list[weakref.ref[Any]] = []
        self.held: list[int] = []
        self.gone: list[list[int]] = []

    def makes(self, allocate: Any) -> Any:
        def made(*args: Any, **options: Any) -> Any:
            tensor = allocate(*args, **options)
            self._made.append(weakref.ref(tensor))
            return tensor

        return made

    def gives(self, tensors: list[Any]) -> None:
        self._given = [weakref.ref(tensor) for tensor in tensors if hasattr(tensor, "data_ptr")]

    def made(self) -> list[Any]:
        return [tensor for ref in self._made if (tensor := ref()) is not None]

    def launch(self, touched: list[int]) -> None:
        """Something is launched with these addresses."""
        given = [found for ref in self._given if (found := ref()) is not None]
        sizes = {x.data_ptr(): x.untyped_storage().nbytes() for x in (*self.made(), *given)}
        for address in touched:
            inside = (at <= address <= at + size for at, size in sizes.items())
            assert any(inside), "a launch reads or writes what is not there"
        self.held.append(sum(x.untyped_storage().nbytes() for x in self.made()))
        self.gone.append([k for k, ref in enumerate(self._given) if ref() is None])


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr(lives, "LARGE", 0)
    return stand_in(monkeypatch)


@pytest.fixture
def memory(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> Memory:
    made = Memory()
    monkeypatch.setattr(torch, "empty", made.makes(_empty))
    monkeypatch.setattr(torch, "empty_strided", made.makes(_empty_strided))
    start = runners.Loaded.start

    def watched(self: Any, addresses: Any, scalars: Any, stream: int) -> None:
        counters = {each.name for each in self.workspaces if each.zeroed}
        names = (*self._pointers, *(each.tensor for each, _ in self._maps))
        made.launch([addresses[name] for name in names if name not in counters])
        start(self, addresses, scalars, stream)

    monkeypatch.setattr(runners.Loaded, "start", watched)
    return made


def chain() -> tuple[Executable, list[Any]]:
    """Three products, one after the other."""
    fused = warpsmith.fuse(lambda x, a, b, c: ((x @ a) @ b) @ c)
    given = [torch.ones(256, 128, dtype=torch.bfloat16)]
    given += [torch.ones(128, 128, dtype=torch.bfloat16) for _ in range(3)]
    return Executable(fused.lower(*given).fusion), given


def test_each_launch_holds_what_it_reads_and_writes(memory: Memory) -> None:
    executable, given = chain()
    with judge.uncompiled():
        run = executable.prepared(given)
    rows = given[0].nbytes
    memory.gives(given)
    run(given)
    assert memory.held == [3 * rows] * 3  # the result, and both that pass between kernels
    memory.held.clear()
    (result,) = run.consumed(given)
    assert given == []
    assert memory.held == [rows, 2 * rows, 2 * rows]
    assert memory.gone[-3:] == [[], [0, 1], [0, 1, 2]]
    assert result.shape == (256, 128)
    plan = executable.last_plan
    assert peak_of(executable.fusion, plan) == 2 * rows


def test_small_tensors_get_their_memory_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable, given = chain()
    rows = given[0].nbytes
    monkeypatch.setattr(lives, "LARGE", 3 * rows + 1)
    with judge.uncompiled():
        run = executable.prepared(given)
    assert executable.last_plan is not None
    assert not takes_turns(executable.last_plan)
    memory.gives(given)
    run.consumed(given)
    assert memory.held == [3 * rows] * 3
    assert peak_of(executable.fusion, executable.last_plan) == 3 * rows
    monkeypatch.setattr(lives, "LARGE", 3 * rows)
    assert takes_turns(executable.last_plan)


def test_arguments_that_others_hold_are_still_there(memory: Memory) -> None:
    executable, given = chain()
    with judge.uncompiled():
        run = executable.prepared(given)
    memory.gives(given)
    run.consumed(list(given))
    assert memory.gone == [[], [], []]


def test_no_room_lets_go_of_all(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    executable, given = chain()
    with judge.uncompiled():
        run = executable.prepared(given)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
    memory.gives(given)
    before = len(memory.made())

    def full(*args: Any, **options: Any) -> Any:
        if len(memory.made()) > before:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return memory.makes(_empty)(*args, **options)

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(DeviceError, match="WS0607") as raised:  # it keeps the frames alive
        run.consumed(given)
    assert raised.tb
    assert len(memory.held) == 1
    assert len(memory.made()) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_launch_the_same_in_turns(gpu: StandIn, memory: Memory, seed: int) -> None:
    executable, given = random_call(seed)
    try:
        with judge.uncompiled():
            run = executable.prepared(given)
    except WarpsmithError as refusal:
        pytest.skip(str(refusal))
    if not isinstance(run, runners.OnDevice):
        pytest.skip("a size depends on a number")
    memory.gives(given)
    run(given)
    count, forms = len(memory.held), [launch[:2] for launch in gpu.launches]
    gpu.launches.clear()
    own = list(given)
    assert len(run.consumed(own)) == len(run._returned)
    assert [launch[:2] for launch in gpu.launches] == forms
    assert max(memory.held[count:], default=0) <= max(memory.held[:count], default=0)
    assert own == [] or count < 2


def test_a_loss_holds_its_logits_and_no_logarithms_of_all() -> None:
    def loss(x: Any, w: Any, target: Any) -> Any:
        logits = ops.cast(ops.linear(x, w), DataType.Float)
        logits = logits - ops.max(logits, [1], keepdim=True)
        logarithms = logits - ops.log(ops.sum(ops.exp(logits), [1], keepdim=True))
        return ops.mean(-ops.take_along_axis(logarithms, target[:, None], 1))

    rows, words = 2048, 8192
    given = (torch.empty(rows, 256, dtype=torch.bfloat16), torch.empty(words, 256).bfloat16())
    target = torch.zeros(rows, dtype=torch.int64)
    executable = Executable(warpsmith.fuse(loss).lower(*given, target).fusion)
    with judge.uncompiled(), knobs.scope(device="sim"):
        call = executable.plan_for((*given, target))
    logits = 2 * rows * words
    assert takes_turns(call)
    # In float they were three times; partial states of rows are an eighth.
    assert logits < peak_of(executable.fusion, call) < 1.2 * logits
