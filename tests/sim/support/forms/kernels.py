"""PTX kernels that apply one form each to rows of operands, for a GPU."""

import re

from tests.sim.support.forms.form import LETTER_OF, Form

OPERAND = re.compile(r"\b([ABCEFDQO])(16|32|64|p)\b")
KINDS = {"16": "h", "32": "r", "64": "d", "p": "p"}
HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def source_letters(form: Form) -> tuple[str, ...]:
    """The letters of a form's sources, in the order of its pools."""
    memory = {"A"} if form.atomic else set()
    return tuple(sorted(memory | set(LETTER_OF.findall(form.name))))


def kernel(form: Form, name: str) -> str:
    """One thread an operand; the count is a multiple of the block."""
    texts = [form.text] if form.first is None else [form.first.text, form.text]
    operands = dict(OPERAND.findall(" ".join(texts)))
    if form.atomic:
        operands["A"] = operands["B"]
    lines = []
    for index, letter in enumerate(source_letters(form)):
        width = operands[letter]
        lines.append(f"ld.param.b64 %t, [{name}_{index}]; add.s64 %t, %t, %offset;")
        lines.append(f"ld.global.b64 %d{letter}, [%t];")
        if width in ("16", "32"):
            lines.append(f"cvt.u{width}.u64 %{KINDS[width]}{letter}, %d{letter};")
        elif width == "p":
            lines.append(f"setp.ne.b64 %p{letter}, %d{letter}, 0;")
    lines.append(f"ld.param.b64 %slot, [{name}_5]; add.s64 %slot, %slot, %offset;")
    if form.atomic:
        width = operands["B"]
        if ".shared." in form.text:
            lines += [".shared .align 8 .b64 cells[256];", "mov.b64 %slot, cells;"]
            lines += ["shl.b32 %rt, %rtid, 3;", "cvt.u64.u32 %t, %rt;", "add.s64 %slot, %slot, %t;"]
        space = "shared" if ".shared." in form.text else "global"
        lines.append(f"st.{space}.b{width} [%slot], %{KINDS[width]}A;")
    for text in texts:
        lines.append(OPERAND.sub(lambda m: f"%{KINDS[m[2]]}{m[1]}", text))
    if form.atomic:
        lines.append(f"ld.{space}.b{width} %{KINDS[width]}D, [%slot];")
        operands["D"] = width
    if form.first is not None:
        lines.append("addc.u32 %rQ, 0, 0;")
        operands["Q"] = "32"
    for index, result in ((5, "D"), (6, "Q")):
        width = operands.get(result)
        if width is None:
            continue
        if width in ("16", "32"):
            lines.append(f"cvt.u64.u{width} %d{result}, %{KINDS[width]}{result};")
        elif width == "p":
            lines.append(f"selp.b64 %d{result}, 1, 0, %p{result};")
        lines.append(f"ld.param.b64 %t, [{name}_{index}]; add.s64 %t, %t, %offset;")
        lines.append(f"st.global.b64 [%t], %d{result};")
    registers = [
        f".reg .{type_} %{kind}{letter};"
        for letter in "ABCEFDQO"
        for kind, type_ in (("h", "b16"), ("r", "b32"), ("d", "b64"), ("p", "pred"))
    ]
    parameters = ", ".join(f".param .u64 {name}_{index}" for index in range(7))
    return "\n".join(
        [
            f".visible .entry {name}({parameters})\n{{",
            *registers,
            ".reg .b32 %rtid, %rcta, %rt; .reg .b64 %offset, %t, %slot;",
            "mov.u32 %rtid, %tid.x; mov.u32 %rcta, %ctaid.x;",
            "mad.lo.u32 %rt, %rcta, 256, %rtid; mul.wide.u32 %offset, %rt, 8;",
            *lines,
            "ret;\n}\n",
        ]
    )
