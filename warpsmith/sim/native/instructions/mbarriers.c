/* mbarrier objects: arrivals, transactions, phases, waits. */
#include "machine/machine.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_COUNT = (1 << 20) - 1 };

mbarrier *mbarrier_find(cta *c, u32 address) {
    if (!c->barrier_at || address / 8 * 8 >= c->shared.size) return NULL;
    u16 index = c->barrier_at[address / 8];
    return index && c->barriers[index - 1].live ? &c->barriers[index - 1] : NULL;
}

static mbarrier *slot(cta *c, u32 address) {
    u16 index = c->barrier_at ? c->barrier_at[address / 8] : 0;
    return index ? &c->barriers[index - 1] : NULL;
}

/* Where the operand of one lane points: the owner CTA and the address in its shared memory. */
static cta *owner_of(warp *w, const insn *in, u32 i, u32 lane, u32 *address) {
    int space = in->space == SPACE_GENERIC ? SPACE_GENERIC : SPACE_SHARED;
    u64 generic = generic_address(space, address_of(w, in, i, lane));
    place at = memory_find(w->m, w->cta, generic, 8);
    i32 pc = pc_of(w, in);
    if (!at.in || at.in->kind != REGION_SHARED) {
        report(w->m, FINDING_OUT_OF_BOUNDS, w, (i32)lane, pc,
               "an mbarrier at address 0x%llx, which is not in shared memory",
               (unsigned long long)generic);
        return NULL;
    }
    if (at.offset % 8) {
        report(w->m, FINDING_MISALIGNED, w, (i32)lane, pc,
               "an mbarrier at shared address 0x%llx, which is not a multiple of 8",
               (unsigned long long)at.offset);
        return NULL;
    }
    *address = (u32)at.offset;
    cta *owner = &w->m->ctas[at.in->id];
    if (owner->exited || !owner->started) {
        report(w->m, FINDING_EXIT_OUTSTANDING, w, (i32)lane, pc,
               "an mbarrier of CTA %u, which %s", owner->index,
               owner->exited ? "has exited" : "has not started");
        return NULL;
    }
    return owner;
}

static void at_barrier(finding *f, const mbarrier *b) {
    if (!f) return;
    f->barrier = (i32)b->address;
    f->phase = (i32)(b->phase - b->first_phase);
}

bool mbarrier_init_known(const warp *w, u32 lane, const cta *owner, const mbarrier *b, i32 pc) {
    actor a = actor_thread((warp *)w, lane, pc);
    if (known_to(&a, b->init_who, b->init_time) == KNOWN) return true;
    if (clock_look(&w->known, owner->index, b->agent)->init >= b->inits) return true;
    for (u32 i = 0; i < w->lane_clock_count; i++)
        if (lane_in(w->lane_clocks[i].lanes, (int)lane) &&
            clock_look(&w->lane_clocks[i].clock, owner->index, b->agent)->init >= b->inits)
            return true;
    return false;
}

/* It covers the barriers that its threads initialized. */
void mbarriers_fence(warp *w, u32 lanes) {
    const cta *c = w->cta;
    for (u32 i = 0; i < c->barrier_count; i++) {
        const mbarrier *b = &c->barriers[i];
        u32 lane = b->init_who & 31;
        actor a = actor_thread(w, lane, 0);
        if (b->live && b->init_who == a.who && lane_in(lanes, (int)lane))
            clock_at(&w->inits, c->index, b->agent)->init = b->inits;
    }
}

/* Nobody may use a barrier before its init is ordered; peers need that to be published. */
static void check_init(warp *w, const cta *owner, const mbarrier *b, u32 lane, i32 pc) {
    if (mbarrier_init_known(w, lane, owner, b, pc)) return;
    bool peer = owner != w->cta;
    finding *f = report(w->m, peer ? FINDING_INIT_FENCE : FINDING_RACE, w, (i32)lane, pc,
                        "uses the mbarrier at shared address 0x%x of CTA %u with nothing that orders its "
                        "mbarrier.init before%s",
                        b->address, owner->index,
                        peer ? ": no fence.mbarrier_init, or no releasing barrier, behind it" : "");
    if (f) f->other_pc = (i32)b->init_pc;
    at_barrier(f, b);
}

/* The live barrier that an instruction uses, with its init ordered before; NULL after a report. */
static mbarrier *usable(warp *w, cta *owner, u32 address, u32 lane, i32 pc) {
    mbarrier *b = slot(owner, address);
    if (!b || !b->live) {
        bool gone = b && b->invalidated;
        finding *f = report(w->m, gone ? FINDING_INVALIDATED_BARRIER : FINDING_UNINITIALIZED_BARRIER, w,
                            (i32)lane, pc, "uses the mbarrier at shared address 0x%x %s", address,
                            gone ? "after mbarrier.inval" : "before mbarrier.init");
        if (f) f->barrier = (i32)address;
        return NULL;
    }
    check_init(w, owner, b, lane, pc);
    return b;
}

bool mbarrier_check_copy(warp *w, u32 lane, cta *owner, u32 address, i32 pc) {
    return usable(w, owner, address, lane, pc) != NULL;
}

static u32 agent_of(const cta *c, u32 index) {
    return 1 + c->warp_count * CHANNELS + NAMED_BARRIERS + index;
}

static void init(warp *w, const insn *in, u32 lane) {
    u32 address, count = (u32)scalar(w, in, 1, lane);
    i32 pc = pc_of(w, in);
    cta *c = owner_of(w, in, 0, lane, &address);
    if (!c) return;
    if (!c->barrier_at) c->barrier_at = calloc(c->shared.size / 8 + 1, sizeof *c->barrier_at);
    if (count < 1 || count > MAX_COUNT)
        report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc,
               "mbarrier.init with a count of %u; it must be 1 to %u", count, MAX_COUNT);
    mbarrier *b = slot(c, address);
    if (b && b->live)
        at_barrier(report(w->m, FINDING_REINITIALIZED_BARRIER, w, (i32)lane, pc,
                          "mbarrier.init of the mbarrier at shared address 0x%x, which is live",
                          address),
                   b);
    if (!b) {
        if (agent_of(c, c->barrier_count) >= MAX_AGENTS) {
            report(w->m, FINDING_UNSUPPORTED, w, (i32)lane, pc, "more mbarriers in a CTA than simulated");
            w->m->stopped = true;
            return;
        }
        c->barriers = realloc(c->barriers, (c->barrier_count + 1) * sizeof *c->barriers);
        b = &c->barriers[c->barrier_count];
        *b = (mbarrier){.address = address, .agent = agent_of(c, c->barrier_count)};
        c->barrier_at[address / 8] = (u16)++c->barrier_count;
    }
    w->time++;
    actor a = actor_thread(w, lane, pc);
    shadow_write(&a, &c->shared, address, 8, false);
    b->live = true;
    b->invalidated = false;
    b->inits++;
    b->expected = b->pending = count;
    b->transactions = 0;
    b->first_phase = b->observed = b->last_tx_phase = b->phase;
    b->init_who = a.who;
    b->init_time = a.time;
    b->init_pc = (u32)pc;
    w->m->progress++;
}

static void inval(warp *w, const insn *in, u32 lane) {
    u32 address;
    cta *c = owner_of(w, in, 0, lane, &address);
    mbarrier *b = c ? usable(w, c, address, lane, pc_of(w, in)) : NULL;
    if (!b) return;
    b->live = false;
    b->invalidated = true;
    w->time++;
    actor a = actor_thread(w, lane, pc_of(w, in));
    shadow_write(&a, &c->shared, address, 8, true);
    w->m->progress++;
}

/* ---- Phases ---- */

static void complete_if_done(machine *m, cta *c, mbarrier *b) {
    if (b->pending || b->transactions) return;
    b->phase++;
    b->pending = b->expected;
    clock_join(&b->done_cta, &b->arrivals_cta);
    clock_join(&b->done_cluster, &b->arrivals_cluster);
    clock_join(&b->done_read, &b->arrivals_read);
    clock_at(&b->done_cta, c->index, b->agent)->full = b->phase;
    clock_at(&b->done_cluster, c->index, b->agent)->full = b->phase;
    b->done_cycle = b->cycle;
    trace_phase(m, c->index, b);
    m->progress++;
}

static void transact(warp *w, mbarrier *b, i64 bytes, u32 lane, i32 pc) {
    b->transactions += bytes;
    if (b->transactions > MAX_COUNT || b->transactions < -MAX_COUNT)
        at_barrier(report(w->m, FINDING_TX_MISMATCH, w, (i32)lane, pc,
                          "the transaction count of the mbarrier at shared address 0x%x is %lld; "
                          "it must stay within +-%d",
                          b->address, (long long)b->transactions, MAX_COUNT),
                   b);
}

void mbarrier_transact(machine *m, cta *c, u32 address, i64 bytes, const effect *e) {
    mbarrier *b = mbarrier_find(c, address);
    if (!b) {
        report(m, FINDING_INVALIDATED_BARRIER, e->by, (i32)e->lane, (i32)e->pc,
               "a copy completes on shared address 0x%x, where no mbarrier is live", address);
        return;
    }
    b->last_tx_phase = b->phase + 1;
    clock_join_seen(&b->arrivals_cta, &e->seen);
    if (e->ready_cycle > b->cycle) b->cycle = e->ready_cycle;
    transact(e->by, b, -bytes, e->lane, (i32)e->pc);
    complete_if_done(m, c, b);
    m->progress++;
}

/* An arrival counts in the phase that it means only if its thread knows that the phase before is
   over: else another schedule counts it there. */
static void check_order(warp *w, const cta *c, mbarrier *b, u32 lane, i32 pc) {
    if (b->phase == b->first_phase || known_phase(w, lane, c->index, b->agent) >= b->phase) return;
    at_barrier(report(w->m, FINDING_ARRIVAL_UNORDERED, w, (i32)lane, pc,
                      "arrives on the mbarrier at shared address 0x%x in phase %u without knowing "
                      "that phase %u is complete: in another order it counts there",
                      b->address, b->phase - b->first_phase, b->phase - b->first_phase - 1),
               b);
}

static void count_arrival(warp *w, mbarrier *b, u32 count, u32 lane, i32 pc) {
    if (count > b->pending) {
        at_barrier(report(w->m, FINDING_ARRIVAL_OVERFLOW, w, (i32)lane, pc,
                          "%u arrival%s on the mbarrier at shared address 0x%x, which waits for %u "
                          "more in phase %u (count %u)",
                          count, count == 1 ? "" : "s", b->address, b->pending,
                          b->phase - b->first_phase, b->expected),
                   b);
        count = b->pending;
    }
    b->pending -= count;
}

static void join_arrival(warp *w, const insn *in, u32 lanes, cta *c, mbarrier *b) {
    bool peer = c != w->cta;
    see_into(w, lanes, &b->arrivals_cta);
    if (peer) {
        b->remote_cta = w->cta->index;
        b->remote_agent = 1 + w->index * CHANNELS;
        b->remote_lane = (u32)first_lane(lanes);
        b->remote_time = w->time;
        b->remote_pc = (u32)pc_of(w, in);
        b->remote_phase = b->phase;
    }
    if (in->semantics != SEMANTICS_RELEASE) {
        if (w->has_released && w->released_lanes & lanes)
            clock_join(peer ? &b->arrivals_cluster : &b->arrivals_cta, &w->released_by_fence);
        return;
    }
    vclock mine = {0};
    release_into(w, lanes, &mine);
    if (!peer) clock_join(&b->arrivals_cta, &mine);
    if (in->scope >= SCOPE_CLUSTER) clock_join(&b->arrivals_cluster, &mine);
    else if (peer) clock_join(&b->arrivals_read, &mine);
    clock_free(&mine);
    if (w->cycle > b->cycle) b->cycle = w->cycle;
}

static void arrive_once(warp *w, const insn *in, u32 lane, cta *c, mbarrier *b) {
    i32 pc = pc_of(w, in);
    u32 at = in->groups[0] + 1;
    bool sized = in->operand_count > at;
    u32 value = sized ? (u32)scalar(w, in, at, lane) : 1;
    if (sized) require_defined(w, in, at, 1u << lane, "the count of an mbarrier arrival");
    check_order(w, c, b, lane, pc);
    u64 state = (u64)b->phase << 24 | b->pending;
    if (in->flags & FLAG_EXPECT_TX) {
        transact(w, b, value, lane, pc);
        value = 1;
    }
    if (in->flags & FLAG_DROP) {
        if (b->expected <= value)
            at_barrier(report(w->m, FINDING_ARRIVAL_OVERFLOW, w, (i32)lane, pc,
                              "drops %u of the %u arrivals that the mbarrier at shared address 0x%x "
                              "expects: none would be left",
                              value, b->expected, b->address),
                       b);
        else b->expected -= value;
    }
    count_arrival(w, b, value, lane, pc);
    u64 *d = destination(w, in, 0);
    if (d) d[lane] = state;
}

static void arrive(warp *w, const insn *in, u32 mask) {
    u32 left = mask;
    i32 pc = pc_of(w, in);
    require_defined(w, in, in->groups[0], mask, "the address of an mbarrier");
    while (left) {
        u32 lane = (u32)first_lane(left), address, together = 1u << lane;
        cta *c = owner_of(w, in, in->groups[0], lane, &address);
        FOR_LANES(other, left & (left - 1))
            if (address_of(w, in, in->groups[0], (u32)other) == address_of(w, in, in->groups[0], lane))
                together |= 1u << other;
        left &= ~together;
        mbarrier *b = c ? usable(w, c, address, lane, pc) : NULL;
        if (!b) continue;
        join_arrival(w, in, together, c, b);
        trace_arrival(w, pc, c->index, b, together);
        FOR_LANES(other, together) {
            arrive_once(w, in, (u32)other, c, b);
            if (!(in->flags & FLAG_NOCOMPLETE)) complete_if_done(w->m, c, b);
        }
    }
    define(w, in, 0, mask, 0, 0);
    w->m->progress++;
}

static void expect_or_complete(warp *w, const insn *in, u32 lane) {
    u32 address, bytes = (u32)scalar(w, in, 1, lane);
    i32 pc = pc_of(w, in);
    cta *c = owner_of(w, in, 0, lane, &address);
    mbarrier *b = c ? usable(w, c, address, lane, pc) : NULL;
    if (!b) return;
    check_order(w, c, b, lane, pc);
    transact(w, b, in->op == OP_MBARRIER_EXPECT_TX ? (i64)bytes : -(i64)bytes, lane, pc);
    if (in->op == OP_MBARRIER_COMPLETE_TX) complete_if_done(w->m, c, b);
    w->m->progress++;
}

void mbarrier_arrive_async(warp *w, u32 lanes, u32 address, bool noinc, i32 pc) {
    mbarrier *b = mbarrier_find(w->cta, address);
    if (!b) return;
    FOR_LANES(lane, lanes) {
        if (noinc) count_arrival(w, b, 1, (u32)lane, pc);
        else if (b->pending) b->pending--; /* takes back what its issue had added */
        complete_if_done(w->m, w->cta, b);
    }
}

/* ---- Waits ---- */

static bool is_done(const insn *in, const mbarrier *b, u64 operand) {
    if (in->flags & FLAG_PARITY) return ((b->phase - b->first_phase) & 1) != (operand & 1);
    return b->phase > (u32)(operand >> 24);
}

static void observe(warp *w, const insn *in, u32 lanes, cta *c, mbarrier *b) {
    u32 lane = (u32)first_lane(lanes), known = known_phase(w, lane, c->index, b->agent);
    if (b->phase == b->first_phase) { /* parity 1 of a fresh barrier: nothing happened */
        trace_over(w, pc_of(w, in), b);
        return;
    }
    u32 floor = known > b->first_phase ? known : b->first_phase;
    if (in->flags & FLAG_PARITY && b->phase > floor + 1)
        at_barrier(report(w->m, FINDING_PHASE_SKIPPED, w, (i32)lane, pc_of(w, in),
                          "waits by parity on the mbarrier at shared address 0x%x, which has "
                          "completed phase %u, while the last phase it knows of is %d: parity "
                          "cannot tell the phases between apart",
                          b->address, b->phase - b->first_phase - 1,
                          (i32)(floor - b->first_phase) - 1),
                   b);
    if (in->semantics == SEMANTICS_ACQUIRE) {
        acquire(w, lanes, &b->done_cta);
        if (in->scope >= SCOPE_CLUSTER) acquire(w, lanes, &b->done_cluster);
        acquire_reads(w, lanes, &b->done_read);
    } else {
        /* It tells that the phase is over and orders no memory, not even that of copies. */
        vclock phase = {0};
        clock_join_seen(&phase, &b->done_cta);
        acquire(w, lanes, &phase);
        clock_free(&phase);
        clock_join(&w->to_acquire[0], &b->done_cta);
        if (in->scope >= SCOPE_CLUSTER) clock_join(&w->to_acquire[1], &b->done_cluster);
        w->acquire_lanes |= lanes;
    }
    b->observed = b->phase;
    if (b->done_cycle > w->cycle) w->cycle = b->done_cycle;
    trace_over(w, pc_of(w, in), b);
}

static step wait(warp *w, split *s, const insn *in, u32 mask) {
    u32 address, lane = (u32)first_lane(mask), yes = 0;
    i32 pc = pc_of(w, in);
    u64 *p = destination(w, in, 0);
    require_defined(w, in, 1, mask, "the address of an mbarrier");
    require_defined(w, in, 2, mask, "the phase that an mbarrier wait names");
    u64 first = address_of(w, in, 1, lane), phase = scalar(w, in, 2, lane);
    bool uniform = true;
    FOR_LANES(other, mask)
        uniform &= address_of(w, in, 1, (u32)other) == first && scalar(w, in, 2, (u32)other) == phase;
    u32 left = mask;
    while (left) {
        u32 together = uniform ? left : 1u << first_lane(left);
        lane = (u32)first_lane(together);
        left &= ~together;
        cta *c = owner_of(w, in, 1, lane, &address);
        if (c && c != w->cta) {
            report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc,
                   "waits on an mbarrier of another CTA; only arrivals may be remote");
            c = NULL;
        }
        mbarrier *b = c ? usable(w, c, address, lane, pc) : NULL;
        bool done = !b || is_done(in, b, scalar(w, in, 2, lane));
        if (b && done) observe(w, in, together, c, b);
        if (done) yes |= together;
        if (done || !uniform || in->op != OP_MBARRIER_TRY_WAIT) continue;
        bool impatient = w->m->order == ORDER_RANDOM && !s->released && random_next(w->m) % 8 == 0;
        if (impatient) continue; /* a time limit has passed: the code must loop */
        s->state = SPLIT_MBARRIER;
        s->wait_id = address;
        s->wait_generation = (u32)(in->flags & FLAG_PARITY ? phase & 1 : phase >> 24);
        w->m->stats.blocked_waits++;
        return STEP_BLOCKED;
    }
    w->m->stats.waits++;
    if (p) FOR_LANES(other, mask) p[other] = lane_in(yes, other);
    define(w, in, 0, mask, 0, 0);
    return yes == mask ? STEP_NEXT : STEP_YIELD;
}

bool mbarrier_ready(const warp *w, const split *s) {
    const mbarrier *b = mbarrier_find(w->cta, s->wait_id);
    if (!b) return true;
    if (w->m->code[s->pc].flags & FLAG_PARITY)
        return ((b->phase - b->first_phase) & 1) != s->wait_generation;
    return b->phase > s->wait_generation;
}

void mbarrier_wait_describe(const warp *w, const split *s, char *text, size_t size) {
    const mbarrier *b = mbarrier_find(w->cta, s->wait_id);
    if (!b) {
        snprintf(text, size, "the mbarrier at 0x%x, which is gone", s->wait_id);
        return;
    }
    char missing[120] = "nothing";
    if (b->pending && b->transactions)
        snprintf(missing, sizeof missing, "%u of %u arrivals and %lld bytes", b->pending, b->expected,
                 (long long)b->transactions);
    else if (b->pending)
        snprintf(missing, sizeof missing, "%u of %u arrivals", b->pending, b->expected);
    else if (b->transactions)
        snprintf(missing, sizeof missing, "%lld bytes", (long long)b->transactions);
    snprintf(text, size, "phase %u of the mbarrier at shared address 0x%x, which lacks %s",
             b->phase - b->first_phase, b->address, missing);
}

void mbarriers_exit_check(cta *c) {
    for (u32 i = 0; i < c->barrier_count; i++) {
        mbarrier *b = &c->barriers[i];
        if (!b->live) continue;
        i32 pc = (i32)b->init_pc;
        if (b->transactions)
            at_barrier(report(c->m, FINDING_TX_MISMATCH, &c->warps[0], -1, pc,
                              "CTA %u exits while the mbarrier at shared address 0x%x still %s %lld "
                              "bytes",
                              c->index, b->address, b->transactions > 0 ? "expects" : "has a surplus of",
                              (long long)llabs(b->transactions)),
                       b);
        if (b->last_tx_phase > b->observed)
            at_barrier(report(c->m, FINDING_EXIT_OUTSTANDING, &c->warps[0], -1, pc,
                              "CTA %u exits and nobody waited for the copies of phase %u of the "
                              "mbarrier at shared address 0x%x",
                              c->index, b->last_tx_phase - 1 - b->first_phase, b->address),
                       b);
    }
}

step run_mbarrier(warp *w, split *s, const insn *in, u32 mask) {
    switch (in->op) {
    case OP_MBARRIER_INIT: FOR_LANES(lane, mask) init(w, in, (u32)lane); return STEP_NEXT;
    case OP_MBARRIER_INVAL: FOR_LANES(lane, mask) inval(w, in, (u32)lane); return STEP_NEXT;
    case OP_MBARRIER_EXPECT_TX:
    case OP_MBARRIER_COMPLETE_TX:
        FOR_LANES(lane, mask) expect_or_complete(w, in, (u32)lane);
        return STEP_NEXT;
    case OP_MBARRIER_ARRIVE: arrive(w, in, mask); return STEP_NEXT;
    case OP_MBARRIER_PENDING: {
        row scratch;
        const u64 *a = source(w, in, 1, scratch, mask);
        u64 *d = destination(w, in, 0);
        if (d) FOR_LANES(lane, mask) d[lane] = a[lane] & 0xffffff;
        define(w, in, 0, mask, undefined_of(w, in, 1), 0);
        return STEP_NEXT;
    }
    default: return wait(w, s, in, mask);
    }
}
