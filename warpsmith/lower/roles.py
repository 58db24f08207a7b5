"""Which role runs each operation of a fusion, and which tensors pass from role to role."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.readers import readers_of
from warpsmith.ir.slices import COMPUTE
from warpsmith.ir.tensor import Operation, TensorView


class Roles:
    """The roles of a fusion, in an order in which each comes after those whose tensors it reads.

    Without any tensor that names a role there are none.

    Raises:
        ScheduleError: WS0245 for roles that wait for each other; WS0246 for a tensor that another
            role reads, and that is not in shared memory.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._readers = readers_of(fusion.operations)
        self._outputs = {output.value for output in fusion.outputs}
        self._of: dict[Operation, str] = {}
        self.names: tuple[str, ...] = ()
        if not any(tensor.role for tensor in fusion.computed):
            return
        for operation in reversed(fusion.operations):
            self._of[operation] = self._role(operation)
        self._crossing = {t for t in fusion.computed if self._crosses(t)}
        self.names = self._in_order()

    def of(self, operation: Operation) -> str:
        """The role of an operation; empty without roles."""
        return self._of.get(operation, "")

    def operations(self, role: str) -> list[Operation]:
        """Those of one role, in definition order."""
        return [op for op in self._fusion.operations if self.of(op) == role]

    def crosses(self, tensor: TensorView) -> bool:
        """Whether a tensor passes from one role to others, through a ring."""
        return bool(self.names) and tensor in self._crossing

    def readers(self, tensor: TensorView) -> dict[str, list[Operation]]:
        """The operations that read a tensor, by their role."""
        found: dict[str, list[Operation]] = {}
        for operation in self._readers.get(tensor, ()):
            found.setdefault(self.of(operation), []).append(operation)
        return found

    def _role(self, operation: Operation) -> str:
        """Its own, or its readers'; `compute` where neither is known or they differ."""
        named = dict.fromkeys(output.role for output in operation.outputs if output.role)
        if len(named) > 1:
            names = ", ".join(output.name for output in operation.outputs)
            raise ScheduleError(
                f"{names} are results of one operation and are to be in the roles "
                f"{' and '.join(f'`{name}`' for name in named)}",
                code="WS0242",
                remedy="give them one role",
            )
        if named:
            return next(iter(named))
        output = operation.outputs[0]
        readers = self._readers.get(output, ())
        copies = (out for op in readers for out in op.outputs if out.copied_by.is_tma)
        stored = output.memory is MemoryType.shared and any(c in self._outputs for c in copies)
        if output in self._outputs or stored:
            return COMPUTE
        roles = {self._of[op] for out in operation.outputs for op in self._readers.get(out, ())}
        return roles.pop() if len(roles) == 1 else COMPUTE

    def _crosses(self, tensor: TensorView) -> bool:
        assert tensor.definition is not None
        own = self.of(tensor.definition)
        readers = self.readers(tensor)
        others = [role for role in readers if role != own]
        if not others:
            return False
        if tensor.memory is not MemoryType.shared:
            raise ScheduleError(
                f"{tensor.name} is computed by role `{own}` in {tensor.memory.value} memory, and "
                f"role `{others[0]}` reads it",
                code="WS0246",
                remedy=f"call {tensor.name}.set_memory_type(MemoryType.shared) and give it stages "
                f"by circular_buffer, or compute it in role `{others[0]}` as well",
            )
        if own in readers:
            raise ScheduleError(
                f"{tensor.name} is read by role `{others[0]}` and by the role `{own}` that "
                "computes it: its stages are not its own any more once they are filled",
                code="WS0246",
                remedy=f"put a copy between for one of them: {tensor.name}.cache_before()",
            )
        return True

    def _in_order(self) -> tuple[str, ...]:
        """Roles after those that they read from."""
        found = tuple(dict.fromkeys(self.of(op) for op in self._fusion.operations))
        needs: dict[str, dict[str, str]] = {role: {} for role in found}
        for operation in self._fusion.operations:
            for source in tensor_inputs(operation):
                if source in self._crossing and source.definition is not None:
                    maker = self.of(source.definition)
                    needs[self.of(operation)].setdefault(maker, source.name)
        ordered: list[str] = []
        while len(ordered) < len(found):
            left = [role for role in found if role not in ordered]
            ready = [role for role in left if not needs[role].keys() - set(ordered)]
            if not ready:
                raise _cycle(left, needs)
            ordered.append(ready[0])
        return tuple(ordered)


def _cycle(left: Sequence[str], needs: dict[str, dict[str, str]]) -> ScheduleError:
    """The error for roles each of which waits for another one."""
    role = left[0]
    path = [role]
    while True:
        role = next(maker for maker in needs[role] if maker in left)
        if role in path:
            path = [*path[path.index(role) :], role]
            break
        path.append(role)
    steps = "; ".join(
        f"`{reader}` reads {needs[reader][maker]} of `{maker}`" for reader, maker in pairwise(path)
    )
    return ScheduleError(
        f"roles wait for each other in a circle: {steps}",
        code="WS0245",
        remedy="put what closes the circle into one role, or split one of them in two",
    )
