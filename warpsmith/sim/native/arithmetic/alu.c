/* Which part of the arithmetic runs an instruction. */
#include "arithmetic/alu.h"

#include "arithmetic/lanes.h"

static bool number_run(const insn *in, u64 *d, const u64 *const *a, u32 mask, u32 *carry) {
    switch (in->type) {
    case TYPE_F32:
        return f32_run(in, d, a, mask);
    case TYPE_F64:
        return f64_run(in, d, a, mask);
    case TYPE_F16:
    case TYPE_F16X2:
    case TYPE_BF16:
    case TYPE_BF16X2:
        return half_run(in, d, a, mask);
    default:
        return integer_run(in, d, a, mask, carry);
    }
}

bool alu_run(const insn *in, u64 *d, u64 *d2, const u64 *const a[4], u32 mask, u32 *carry) {
    row sink; /* for a destination `_` */
    if (!d) d = sink;
    switch (in->op) {
    case OP_MOV: {
        const u64 *x = a[0];
        EACH(d[i] = x[i]);
        return true;
    }
    case OP_MIN:
    case OP_MAX:
        if (a[2]) return false; /* three operands: sm_100 */
        return number_run(in, d, a, mask, carry);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_MAD:
    case OP_FMA:
    case OP_ABS:
    case OP_NEG:
    case OP_TESTP:
    case OP_COPYSIGN:
        return number_run(in, d, a, mask, carry);
    case OP_DIV:
    case OP_RCP:
    case OP_SQRT:
        if (in->flags & (FLAG_APPROX | FLAG_FULL)) return approximate_run(in, d, a, mask);
        return number_run(in, d, a, mask, carry);
    case OP_RSQRT:
    case OP_SIN:
    case OP_COS:
    case OP_LG2:
    case OP_EX2:
    case OP_TANH:
        return approximate_run(in, d, a, mask);
    case OP_REM:
    case OP_SAD:
    case OP_MUL24:
    case OP_MAD24:
    case OP_ADDC:
    case OP_SUBC:
    case OP_MADC:
    case OP_DP4A:
    case OP_DP2A:
        return integer_run(in, d, a, mask, carry);
    case OP_SET:
    case OP_SETP:
    case OP_SELP:
    case OP_SLCT:
        return compare_run(in, d, d2, a, mask);
    case OP_CVT:
    case OP_CVT_PACK:
        return convert_run(in, d, a, mask);
    default:
        return bits_run(in, d, d2, a, mask);
    }
}
