/* Operands of an instruction as rows of values, and the marks that registers carry. */
#include "machine/machine.h"

const operand *operand_at(const warp *w, const insn *in, u32 i) {
    return &w->m->operands[in->first_operand + i];
}

i32 pc_of(const warp *w, const insn *in) { return (i32)(in - w->m->code); }

int first_lane(u32 mask) { return mask ? __builtin_ctz(mask) : 0; }

u32 type_bytes(int type) {
    switch (type) {
    case TYPE_PRED:
    case TYPE_B8:
    case TYPE_U8:
    case TYPE_S8: return 1;
    case TYPE_B16:
    case TYPE_U16:
    case TYPE_S16:
    case TYPE_F16:
    case TYPE_BF16: return 2;
    case TYPE_B64:
    case TYPE_U64:
    case TYPE_S64:
    case TYPE_F64:
    case TYPE_F32X2: return 8;
    case TYPE_B128: return 16;
    default: return 4;
    }
}

/* A wgmma group that was not waited for may still read or write this register. */
static void check_busy(warp *w, const insn *in, i32 reg, const char *how) {
    if (w->busy[reg] <= w->wgmma_waited) return;
    finding *f = report(w->m, FINDING_WGMMA_REGISTER, w, -1, pc_of(w, in),
                        "an instruction %s a register of a wgmma that is in flight (group %u; "
                        "wgmma.wait_group has covered %u)",
                        how, w->busy[reg], w->wgmma_waited);
    if (f) f->other_pc = (i32)w->origin[reg];
}

const u64 *source(warp *w, const insn *in, u32 i, row scratch, u32 mask) {
    const operand *o = operand_at(w, in, i);
    switch (o->kind) {
    case KIND_REGISTER:
        if (w->busy && in->op != OP_MOV) { /* a copy is another name, until that is used */
            check_busy(w, in, o->index, "reads");
            w->touched[o->index] = w->serial;
        }
        if (!o->negated) return w->registers[o->index];
        for (int lane = 0; lane < LANES; lane++) scratch[lane] = !w->registers[o->index][lane];
        return scratch;
    case KIND_SPECIAL:
        FOR_LANES(lane, mask) scratch[lane] = special(w, o->index, (u32)lane);
        return scratch;
    case KIND_OWN_SHARED:
        for (int lane = 0; lane < LANES; lane++)
            scratch[lane] = (u64)o->value | (w->cta->rank ? (u64)(w->cta->rank + 1) << 24 : 0);
        return scratch;
    default:
        for (int lane = 0; lane < LANES; lane++) scratch[lane] = (u64)o->value;
        return scratch;
    }
}

u64 scalar(warp *w, const insn *in, u32 i, u32 lane) {
    row scratch;
    return source(w, in, i, scratch, 1u << lane)[lane];
}

u64 address_of(warp *w, const insn *in, u32 i, u32 lane) {
    const operand *o = operand_at(w, in, i);
    u64 base = o->index >= 0 ? w->registers[o->index][lane] : 0;
    return base + (u64)o->value;
}

u32 undefined_of(const warp *w, const insn *in, u32 i) {
    const operand *o = operand_at(w, in, i);
    bool reads = o->kind == KIND_REGISTER || (o->kind == KIND_ADDRESS && o->index >= 0);
    return reads ? w->undefined[o->index] : 0;
}

u32 known_half_of(const warp *w, const insn *in, u32 i, u32 half) {
    const operand *o = operand_at(w, in, i);
    return o->kind == KIND_REGISTER ? w->known_half[half][o->index] : 0;
}

u64 *destination(warp *w, const insn *in, u32 i) {
    const operand *o = operand_at(w, in, i);
    return o->kind == KIND_REGISTER ? w->registers[o->index] : NULL;
}

void define(warp *w, const insn *in, u32 i, u32 mask, u32 undefined, u32 origin) {
    const operand *o = operand_at(w, in, i);
    if (o->kind != KIND_REGISTER) return;
    u32 bad = (undefined | w->undefined_guard) & mask;
    w->undefined[o->index] = (w->undefined[o->index] & ~mask) | bad;
    for (u32 half = 0; half < 2; half++) w->known_half[half][o->index] &= ~mask;
    if (undefined & mask) w->origin[o->index] = origin;
    else if (bad) w->origin[o->index] = w->origin[in->guard];
    if (!w->busy) return;
    check_busy(w, in, o->index, "writes");
    w->busy[o->index] = 0;
    w->touched[o->index] = w->serial;
}

void define_half(warp *w, const insn *in, u32 i, u32 mask, u32 half, u32 known) {
    const operand *o = operand_at(w, in, i);
    if (o->kind == KIND_REGISTER) w->known_half[half][o->index] |= known & mask & ~w->undefined_guard;
}

void require_defined(warp *w, const insn *in, u32 i, u32 mask, const char *what) {
    u32 bad = undefined_of(w, in, i) & mask;
    if (!bad) return;
    finding *f = report(w->m, FINDING_UNINITIALIZED, w, first_lane(bad), pc_of(w, in),
                        "%s holds bits that nobody wrote", what);
    if (f) f->other_pc = (i32)w->origin[operand_at(w, in, i)->index];
}

static u64 nanoseconds(const warp *w) { return 1000000 + w->cycle * 4 / 7; }

u64 special(const warp *w, int which, u32 lane) {
    const machine *m = w->m;
    const cta *c = w->cta;
    u32 thread = w->index * LANES + lane;
    u32 tid[3] = {thread % m->block[0], thread / m->block[0] % m->block[1],
                  thread / m->block[0] / m->block[1]};
    switch (which) {
    case SPECIAL_TID_X:
    case SPECIAL_TID_Y:
    case SPECIAL_TID_Z: return tid[which - (int)SPECIAL_TID_X];
    case SPECIAL_NTID_X:
    case SPECIAL_NTID_Y:
    case SPECIAL_NTID_Z: return m->block[which - (int)SPECIAL_NTID_X];
    case SPECIAL_CTAID_X:
    case SPECIAL_CTAID_Y:
    case SPECIAL_CTAID_Z: return c->id[which - (int)SPECIAL_CTAID_X];
    case SPECIAL_NCTAID_X:
    case SPECIAL_NCTAID_Y:
    case SPECIAL_NCTAID_Z: return m->grid[which - (int)SPECIAL_NCTAID_X];
    case SPECIAL_LANEID: return lane;
    case SPECIAL_WARPID: return w->index;
    case SPECIAL_NWARPID: return 64;
    case SPECIAL_SMID: return c->resident_sm;
    case SPECIAL_NSMID: return 132;
    case SPECIAL_GRIDID: return 1;
    case SPECIAL_LANEMASK_EQ: return 1u << lane;
    case SPECIAL_LANEMASK_LT: return (1u << lane) - 1;
    case SPECIAL_LANEMASK_LE: return (2u << lane) - 1;
    case SPECIAL_LANEMASK_GE: return ~((1u << lane) - 1);
    case SPECIAL_LANEMASK_GT: return ~((2u << lane) - 1);
    case SPECIAL_CLOCK: return (u32)w->cycle;
    case SPECIAL_CLOCK_HI: return w->cycle >> 32;
    case SPECIAL_CLOCK64: return w->cycle;
    case SPECIAL_GLOBALTIMER: return nanoseconds(w);
    case SPECIAL_GLOBALTIMER_LO: return (u32)nanoseconds(w);
    case SPECIAL_GLOBALTIMER_HI: return nanoseconds(w) >> 32;
    case SPECIAL_CLUSTERID_X:
    case SPECIAL_CLUSTERID_Y:
    case SPECIAL_CLUSTERID_Z: return c->cluster_id[which - (int)SPECIAL_CLUSTERID_X];
    case SPECIAL_NCLUSTERID_X:
    case SPECIAL_NCLUSTERID_Y:
    case SPECIAL_NCLUSTERID_Z: {
        int i = which - (int)SPECIAL_NCLUSTERID_X;
        return m->grid[i] / m->cluster[i];
    }
    case SPECIAL_CLUSTER_CTAID_X:
    case SPECIAL_CLUSTER_CTAID_Y:
    case SPECIAL_CLUSTER_CTAID_Z: return c->rank_id[which - (int)SPECIAL_CLUSTER_CTAID_X];
    case SPECIAL_CLUSTER_NCTAID_X:
    case SPECIAL_CLUSTER_NCTAID_Y:
    case SPECIAL_CLUSTER_NCTAID_Z: return m->cluster[which - (int)SPECIAL_CLUSTER_NCTAID_X];
    case SPECIAL_CLUSTER_CTARANK: return c->rank;
    case SPECIAL_CLUSTER_NCTARANK: return m->cluster_size;
    case SPECIAL_IS_EXPLICIT_CLUSTER: return m->cluster_size > 1;
    case SPECIAL_DYNAMIC_SMEM_SIZE: return m->shared_total - m->shared_static;
    case SPECIAL_TOTAL_SMEM_SIZE: return m->shared_total - WINDOW_SHARED_START;
    default: return m->shared_total;
    }
}
