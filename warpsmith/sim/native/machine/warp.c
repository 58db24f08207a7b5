/* A warp: it begins, runs one instruction at a time of one of its splits, and ends. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

void warp_start(cta *c, u32 index) {
    machine *m = c->m;
    warp *w = &c->warps[index];
    u32 threads = m->threads - index * LANES;
    u32 lanes = threads >= LANES ? ~0u : (1u << threads) - 1;
    *w = (warp){.m = m, .cta = c, .index = index, .live = lanes, .initial = lanes, .time = 1};
    w->splits[0] = (split){.mask = lanes, .join = -1};
    w->split_count = 1;
    u32 registers = m->register_count + 1;
    w->registers = aligned_alloc(64, registers * sizeof(row));
    memset(w->registers, 0xa5, registers * sizeof(row));
    w->undefined = malloc(registers * sizeof(u32));
    memset(w->undefined, 0xff, registers * sizeof(u32));
    for (u32 half = 0; half < 2; half++) w->known_half[half] = calloc(registers, sizeof(u32));
    w->origin = calloc(registers, sizeof(u32));
    if (m->has_wgmma) {
        w->busy = calloc(registers, sizeof(u32));
        w->touched = calloc(registers, sizeof(u32));
    }
    if (m->local_bytes) {
        w->local = malloc((size_t)m->local_bytes * LANES);
        memset(w->local, 0xa5, (size_t)m->local_bytes * LANES);
        w->local_undefined = malloc((size_t)m->local_bytes * LANES);
        memset(w->local_undefined, 1, (size_t)m->local_bytes * LANES);
    }
    w->cp_number = 1;
    w->register_count = m->entry_registers;
}

void warp_free(warp *w) {
    free(w->registers);
    free(w->undefined);
    for (u32 half = 0; half < 2; half++) {
        free(w->known_half[half]);
        w->known_half[half] = NULL;
    }
    free(w->origin);
    free(w->busy);
    free(w->touched);
    free(w->local);
    free(w->local_undefined);
    free(w->joins);
    w->registers = NULL;
    w->undefined = w->origin = w->busy = w->touched = NULL;
    w->local = w->local_undefined = NULL;
    w->joins = NULL;
    clock_free(&w->known);
    clock_free(&w->known_reads);
    clock_free(&w->released_by_fence);
    for (u32 i = 0; i < 3; i++) clock_free(&w->to_acquire[i]);
    clock_free(&w->unfenced.clock);
    clock_free(&w->inits);
    for (u32 i = 0; i < w->lane_clock_count; i++) clock_free(&w->lane_clocks[i].clock);
    w->lane_clock_count = 0;
}

static step run_trap(warp *w, const insn *in, u32 mask) {
    report(w->m, FINDING_TRAP, w, first_lane(mask), pc_of(w, in), "the kernel trapped");
    w->m->stopped = true;
    return STEP_YIELD;
}

void check_start(warp *w, i32 pc, u32 lanes, const char *how, i32 buffer) {
    lanes &= ~w->awaited;
    if (!w->m->early || !lanes) return;
    finding *f = report(w->m, FINDING_EARLY_ACCESS, w, first_lane(lanes), pc,
                        "%s global memory before griddepcontrol.wait, while the kernel before may still "
                        "run",
                        how);
    if (f) f->buffer = buffer;
}

/* Loads do, too: `check_source` knows from where. */
static bool copies_globally(const insn *in) {
    switch (in->op) {
    case OP_BULK_STORE:
    case OP_TENSOR_STORE:
    case OP_TENSOR_REDUCE:
    case OP_TENSORMAP_COPY: return true;
    case OP_BULK_REDUCE: return in->space == SPACE_GLOBAL;
    default: return false;
    }
}

static step run(warp *w, split *s, const insn *in, u32 mask) {
    if (!mask) return STEP_NEXT;
    switch (in->op) {
    case OP_NOP: return STEP_NEXT;
    case OP_GRIDDEP: /* kernels run one after the other here */
        if (in->mode == MODE_WAIT) w->awaited |= mask;
        return STEP_NEXT;
    case OP_BRX: return run_branch_indexed(w, s, in, mask);
    case OP_EXIT: {
        bool gone = mask == s->mask;
        warp_exit(w, s, mask, pc_of(w, in));
        return gone ? STEP_GONE : STEP_NEXT;
    }
    case OP_TRAP:
    case OP_BRKPT: return run_trap(w, in, mask);
    case OP_ASSERT: return run_assert(w, in, mask);
    case OP_NANOSLEEP: return STEP_YIELD;
    case OP_PRINTF: return run_printf(w, in, mask);
    case OP_MOV: run_mov(w, in, mask); return STEP_NEXT;
    case OP_PACK:
    case OP_UNPACK: run_pack(w, in, mask); return STEP_NEXT;
    case OP_CVTA:
    case OP_ISSPACEP:
    case OP_MAPA:
    case OP_GETCTARANK: run_address(w, in, mask); return STEP_NEXT;
    case OP_POLICY: {
        u64 *d = destination(w, in, 0);
        if (d) FOR_LANES(lane, mask) d[lane] = 0;
        define(w, in, 0, mask, 0, 0);
        return STEP_NEXT;
    }
    case OP_SETMAXNREG: return run_setmaxnreg(w, s, in, mask);
    default: break;
    }
    if (in->op < OP_MOV || in->op == OP_CVT || in->op == OP_CVT_PACK) {
        run_alu(w, in, mask);
        return STEP_NEXT;
    }
    if (in->op == OP_LDMATRIX || in->op == OP_STMATRIX || (in->op >= OP_MMA && in->op <= OP_WGMMA_WAIT))
        return run_matrix(w, s, in, mask);
    if (in->op >= OP_ST_ASYNC && in->op <= OP_TENSORMAP_COPY) {
        if (copies_globally(in)) check_start(w, pc_of(w, in), mask, "copies", -1);
        return run_copy(w, s, in, mask);
    }
    if (in->op < OP_ST_ASYNC) return run_access(w, s, in, mask);
    if (in->op <= OP_WARP_SYNC) return run_lanes(w, s, in, mask);
    if (in->op >= OP_MBARRIER_INIT && in->op <= OP_MBARRIER_PENDING)
        return run_mbarrier(w, s, in, mask);
    return run_barrier(w, s, in, mask);
}

/* ---- Who can run ---- */

static bool split_ready(warp *w, split *s) {
    bool ready = false;
    switch (s->state) {
    case SPLIT_READY: return true;
    case SPLIT_BARRIER: ready = barrier_ready(w, s); break;
    case SPLIT_MBARRIER: ready = mbarrier_ready(w, s); break;
    case SPLIT_CLUSTER: ready = cluster_ready(w, s); break;
    case SPLIT_GROUP: ready = group_ready(w, s); break;
    case SPLIT_REGISTERS: ready = registers_ready(w, s); break;
    default: return false;
    }
    if (ready) {
        s->state = SPLIT_READY;
        s->released = true;
    }
    return ready;
}

bool warp_runnable(warp *w) {
    if (w->spinning && w->idle_since == w->m->progress) return false;
    for (u32 i = 0; i < w->split_count; i++)
        if (split_ready(w, &w->splits[i])) return true;
    return false;
}

/* Meeting again is not what lanes may count on, or be held up by: each makes progress by itself. */
bool warp_part(warp *w) {
    bool parted = false;
    for (u32 i = 0; w->live && w->spinning && i < w->join_count; i++) {
        join_point *j = &w->joins[i];
        u32 waiting = j->used ? j->arrived : 0;
        if (!waiting || w->split_count == 2 * LANES) continue;
        j->expected &= ~waiting;
        j->arrived = 0;
        split *s = &w->splits[w->split_count++];
        *s = (split){.mask = waiting, .pc = j->pc, .join = j->parent};
        split_meet(w, s);
        parted = true;
    }
    if (parted) w->m->progress++;
    return parted;
}

/* A loop that comes back with the same registers, while nothing anywhere changed, never ends. The
   registers are looked at rarely: a few times in a row, then at twice as many instructions. Of a loop
   that was found so, they are looked at at once where no other lanes of the warp can go on. */
static u64 hash_of(const warp *w, const split *s) {
    u64 hash = 14695981039346656037ull ^ s->mask;
    const u64 *values = (const u64 *)w->registers;
    for (u32 i = 0; i < w->m->register_count * LANES; i++) hash = (hash ^ values[i]) * 1099511628211ull;
    return hash;
}

static bool alone(warp *w, const split *s) {
    for (u32 i = 0; i < w->split_count; i++)
        if (&w->splits[i] != s && split_ready(w, &w->splits[i])) return false;
    return true;
}

static void watch_spin(warp *w, const split *s) {
    enum { PATIENCE = 1024, LOOKS = 16 };
    if (w->spun && w->spin_pc == s->pc && alone(w, s)) {
        u64 now = hash_of(w, s);
        w->spinning = w->woken == w->m->progress && w->spin_hash == now;
        w->spin_hash = now;
        w->woken = w->m->progress;
        if (w->spinning) return;
    }
    if (w->idle < PATIENCE) {
        w->spin_check = PATIENCE;
        return;
    }
    if (w->idle < w->spin_check) return;
    u64 hash = hash_of(w, s);
    if (w->spin_looks && w->spin_pc == s->pc && w->spin_hash == hash) w->spinning = true;
    if (!w->spin_looks) {
        w->spin_pc = s->pc;
        w->spin_hash = hash;
        w->spun = false;
    }
    if (++w->spin_looks < LOOKS && !w->spinning) return;
    w->spin_looks = 0;
    w->spin_check = w->idle * 2;
}

bool warp_step(warp *w) {
    machine *m = w->m;
    u32 tried = 0;
    if (w->spinning) {
        w->spinning = false;
        w->spun = true;
        w->woken = m->progress;
    }
    splits_sweep(w);
    if (w->current >= w->split_count) w->current = 0;
    while (tried < w->split_count && !split_ready(w, &w->splits[w->current])) {
        w->current = (w->current + 1) % w->split_count;
        tried++;
    }
    if (tried == w->split_count) return false;
    split *s = &w->splits[w->current];
    const insn *in = &m->code[s->pc];
    i32 pc = s->pc;
    u32 mask = s->mask;
    w->undefined_guard = 0;
    if (in->guard >= 0) {
        const u64 *p = w->registers[in->guard];
        u32 taken = 0;
        FOR_LANES(lane, mask) if ((p[lane] & 1) != in->guard_negated) taken |= 1u << lane;
        w->undefined_guard = w->undefined[in->guard] & mask;
        mask = taken;
    }
    if (w->undefined_guard) mask = judge_guard(w, in, mask);
    w->serial++;
    w->cycle++;
    m->stats.instructions++;
    if (w->idle_since != m->progress) {
        w->idle_since = m->progress;
        w->idle = 0;
    }
    w->idle++;
    u32 here = w->current;
    u64 begin = w->cycle;
    step result = in->op == OP_BRA ? run_branch(w, s, in, mask) : run(w, s, in, mask);
    s = &w->splits[here];
    switch (result) {
    case STEP_NEXT:
    case STEP_YIELD:
        if (w->cycle > begin && in->op != OP_WGMMA) {
            m->stats.wait_cycles += w->cycle - begin;
            trace_wait(w, s, begin);
        }
        s->released = false;
        s->pc++;
        split_meet(w, s);
        if (result == STEP_YIELD && w->split_count) w->current = (here + 1) % w->split_count;
        return true;
    case STEP_JUMPED:
        if (s->pc <= pc) {
            watch_spin(w, s);
            if (w->split_count > 1 && w->idle > 64) w->current = (here + 1) % w->split_count;
        }
        split_meet(w, s);
        return true;
    case STEP_BLOCKED:
        w->current = (here + 1) % w->split_count;
        w->serial--;
        w->cycle--;
        m->stats.instructions--;
        return true;
    default: return true;
    }
}
