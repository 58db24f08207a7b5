/* Atomic and reducing operations on one value in memory. */
#include "arithmetic/lanes.h"

/* A value of memory through an instruction that computes the same. */
static u64 by_instruction(u32 op, int type, u64 old, u64 b) {
    const insn in = {.op = (u16)op, .type = (u8)type};
    row x, y, d;
    x[0] = old, y[0] = b, d[0] = old;
    const u64 *const sources[4] = {x, y};
    u32 carry = 0;
    alu_run(&in, d, NULL, sources, 1, &carry);
    return d[0];
}

static u64 width_mask(int type) {
    switch (type) {
    case TYPE_B8:
    case TYPE_U8:
    case TYPE_S8:
        return 0xff;
    case TYPE_B16:
    case TYPE_U16:
    case TYPE_S16:
    case TYPE_F16:
    case TYPE_BF16:
        return 0xffff;
    case TYPE_B64:
    case TYPE_U64:
    case TYPE_S64:
    case TYPE_F64:
        return ~0ull;
    default:
        return 0xffffffffu;
    }
}

u64 atomic_apply(int mode, int type, u64 old, u64 b, u64 c) {
    const u64 width = width_mask(type);
    old &= width, b &= width, c &= width;
    switch (mode) {
    case MODE_ADD:
        return by_instruction(OP_ADD, type, b, old); /* of two NaNs of f64, the one in memory */
    case MODE_MIN:
        return by_instruction(OP_MIN, type, old, b);
    case MODE_MAX:
        return by_instruction(OP_MAX, type, old, b);
    case MODE_INC: /* up to b, then 0 */
        return old >= b ? 0 : old + 1;
    case MODE_DEC: /* down to 0, then b; also from beyond b */
        return old == 0 || old > b ? b : old - 1;
    case MODE_AND:
        return old & b;
    case MODE_OR:
        return old | b;
    case MODE_XOR:
        return old ^ b;
    case MODE_EXCH:
        return b;
    case MODE_CAS:
        return old == b ? c : old;
    default:
        return old;
    }
}
