"""Rules that join states, as C++: a struct of a state's values, and one that joins two of them."""

from __future__ import annotations

from collections import Counter

from warpsmith.codegen.values import ValueText
from warpsmith.ir.carry import Carry, moments, sides
from warpsmith.ir.levels import levels_of
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.values import dataclass

_OF_PRELUDE = {"sum": "ws_sum", "prod": "ws_prod", "max": "ws_max", "min": "ws_min"}
"""Rules whose state is a value: the prelude joins them for every type."""


@dataclass(frozen=True, slots=True)
class StateText:
    """What a rule is called in C++.

    Attributes:
        join: struct with `identity` and `combine`.
        kind: type of a state.
        members: of a state's values; "" for a state that is its one value.
    """

    join: str
    kind: str
    members: tuple[str, ...]

    def of(self, state: str) -> tuple[str, ...]:
        """The values of a state."""
        return tuple(f"{state}.{member}" if member else state for member in self.members)


def _named(values: tuple[Expr, ...]) -> tuple[list[tuple[Symbol, Expr]], tuple[Expr, ...]]:
    """What some values use more than once, with names in the order of use, and the values by them.

    The compiler would compute it again wherever a condition decides whether it is needed.
    """
    users: Counter[Expr] = Counter()
    seen: set[Expr] = set()
    pending: list[Expr] = list(values)
    while pending:
        expr = pending.pop()
        users[expr] += 1
        if expr not in seen and isinstance(expr, Apply):
            seen.add(expr)
            pending += expr.args
    names: dict[Expr, Expr] = {}
    named: list[tuple[Symbol, Expr]] = []

    def without(expr: Expr) -> Expr:
        if expr not in names:
            names[expr] = expr
            if isinstance(expr, Apply):
                inner = Apply(expr.op, tuple(map(without, expr.args)), expr.dtype)
                names[expr] = inner
                if users[expr] > 1:
                    symbol = Symbol(f"x{len(named)}", expr.dtype)
                    named.append((symbol, inner))
                    names[expr] = symbol
        return names[expr]

    return named, tuple(map(without, values))


class CarryTexts:
    """The rules of one kernel; those that the prelude lacks get numbers.

    Members of their states end in `_`, as no keyword and no macro does.
    """

    def __init__(self, value: ValueText) -> None:
        self._value = value
        self._made: dict[Carry, int] = {}

    def __call__(self, carry: Carry) -> StateText:
        kind = self._value.type_name(carry.dtypes[0])
        if carry.is_simple:
            return StateText(_OF_PRELUDE[carry.name], kind, ("",))
        if carry == moments(carry.dtypes[0]):
            return StateText("ws_welford_combine", f"ws_welford<{kind}>", carry.states)
        number = self._made.setdefault(carry, len(self._made))
        members = tuple(f"{name}_" for name in carry.states)
        return StateText(f"ws_join{number}", f"ws_state{number}", members)

    def text(self) -> str:
        """Definitions of the rules that were asked for and that the prelude lacks."""
        return "".join(map(self._defined, self._made))

    def _defined(self, carry: Carry) -> str:
        """A struct of values, the rule, and how lanes exchange states.

        Of two lanes that exchange, the lower one's state comes first in both, so that both find
        the same bits.
        """
        value, names = self._value, self(carry)
        state, inline = names.kind, "__device__ __forceinline__"
        fields = " ".join(
            f"{value.type_name(dtype)} {name};"
            for name, dtype in zip(names.members, carry.dtypes, strict=True)
        )
        own: dict[Expr, Expr] = {}
        for side in "ab":
            said, printed = (
                sides(each, carry.dtypes, side) for each in (carry.states, names.members)
            )
            own |= zip(said, printed, strict=True)
        identity = ", ".join(map(value, carry.identity))
        levels = levels_of(carry)
        rule = carry.join if levels is None else levels.joined(carry)
        named, join = _named(tuple(substitute(each, own) for each in rule))
        lets = "".join(
            f"        const {value.type_name(symbol.dtype)} {symbol.name} = {value(expr)};\n"
            for symbol, expr in named
        )
        joined = ",\n                ".join(map(value, join))
        moved = ",\n            ".join(
            f"__shfl_xor_sync(participants, {place}, offset)" for place in names.of("value")
        )
        taken = ",\n            ".join(
            f"__shfl_sync(0xffffffffu, {place}, lane)" for place in names.of("value")
        )
        return f"""
// {carry.name}
struct {state} {{ {fields} }};
struct {names.join} {{
    template <class T> static {inline} T identity() {{ return {{{identity}}}; }}
    static {inline} {state} combine({state} a, {state} b) {{
{lets}        return {{{joined}}};
    }}
}};
{inline} {state} ws_shuffle_xor({state} value, int offset, unsigned participants) {{
    return {{{moved}}};
}}
{inline} {state} ws_shuffle({state} value, int lane) {{
    return {{{taken}}};
}}
template <class Op>
{inline} {state} ws_exchange({state} mine, {state} other, bool second) {{
    return Op::combine(second ? other : mine, second ? mine : other);
}}
"""
