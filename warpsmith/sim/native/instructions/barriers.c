/* Named barriers, the cluster barrier, fences, and setmaxnreg. */
#include "machine/machine.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Named barriers ---- */

static u32 agent_of(const cta *c, u32 id) { return 1 + c->warp_count * CHANNELS + id; }

static u32 threads_of_cta(const cta *c) { return c->live_warps * LANES; }

static void complete_if_full(cta *c, u32 id) {
    named_barrier *b = &c->named[id];
    if (!b->arrived || b->arrived < b->expected) return;
    b->generation++;
    b->done_cycle = b->cycle;
    trace_generation(c->m, c->index, id, b);
    b->arrived = b->expected = 0;
    b->warps = 0;
    b->last_votes = b->votes;
    b->last_votes_true = b->votes_true;
    b->votes = b->votes_true = 0;
    clock_join(&b->done, &b->arrivals);
    clock_at(&b->done, c->index, agent_of(c, id))->full = b->generation;
    c->m->progress++;
}

void named_barriers_recheck(cta *c) {
    for (u32 id = 0; id < NAMED_BARRIERS; id++) {
        named_barrier *b = &c->named[id];
        if (b->arrived && b->whole_cta) b->expected = threads_of_cta(c);
        complete_if_full(c, id);
    }
}

typedef struct {
    u32 id, count;
    bool whole_cta;
} rendezvous;

static rendezvous rendezvous_of(warp *w, const insn *in, u32 first, u32 lane) {
    rendezvous r = {.id = (u32)scalar(w, in, first, lane)};
    r.whole_cta = !(in->flags & FLAG_SIZED);
    r.count = r.whole_cta ? threads_of_cta(w->cta) : (u32)scalar(w, in, first + 1, lane);
    return r;
}

static void arrive_named(warp *w, const insn *in, u32 mask, const rendezvous *r) {
    cta *c = w->cta;
    named_barrier *b = &c->named[r->id];
    i32 pc = pc_of(w, in);
    i32 lane = first_lane(mask);
    if (r->count % LANES || r->count == 0)
        report(w->m, FINDING_NAMED_COUNT, w, lane, pc,
               "barrier %u for %u threads: the count must be a positive multiple of 32", r->id,
               r->count);
    if (!b->arrived) {
        b->expected = r->count;
        b->whole_cta = r->whole_cta;
        b->first_pc = (u32)pc;
        b->first_warp = w->index;
    } else if (b->expected != r->count) {
        finding *f = report(w->m, FINDING_NAMED_COUNT, w, lane, pc,
                            "barrier %u: warp %u comes for %u threads and warp %u for %u", r->id,
                            w->index, r->count, b->first_warp, b->expected);
        if (f) f->other_pc = (i32)b->first_pc;
    }
    bool again = b->warps >> w->index & 1 && mask == w->live;
    bool early = b->generation &&
                 known_phase(w, (u32)lane, c->index, agent_of(c, r->id)) < b->generation;
    if (again || early) {
        finding *f = report(w->m, FINDING_NAMED_CLASH, w, lane, pc,
                            again ? "barrier %u: warp %u arrives again before generation %u is complete"
                                  : "barrier %u: warp %u arrives without knowing that the generation "
                                    "before %u is complete: two users share the barrier",
                            r->id, w->index, b->generation);
        if (f) f->other_pc = (i32)b->first_pc;
    }
    b->warps |= 1ull << w->index;
    b->arrived += mask == w->live ? LANES : (u32)__builtin_popcount(mask);
    if (b->arrived > b->expected)
        report(w->m, FINDING_NAMED_COUNT, w, lane, pc,
               "barrier %u: %u threads have come where %u are awaited", r->id, b->arrived,
               b->expected);
    release_into(w, mask, &b->arrivals);
    if (w->cycle > b->cycle) b->cycle = w->cycle;
    complete_if_full(c, r->id);
    w->m->progress++;
}

static step named(warp *w, split *s, const insn *in, u32 mask) {
    bool votes = in->mode != MODE_SYNC && in->mode != MODE_ARRIVE;
    u32 first = votes ? 1 : 0, lane = (u32)first_lane(mask);
    i32 pc = pc_of(w, in);
    if (!s->released) {
        rendezvous r = rendezvous_of(w, in, first, lane);
        if (r.id >= NAMED_BARRIERS) {
            report(w->m, FINDING_ILLEGAL_ARGUMENT, w, (i32)lane, pc,
                   "barrier %u: there are barriers 0 to 15", r.id);
            return STEP_NEXT;
        }
        if (in->flags & FLAG_ALIGNED) mask = gather_warp(w, s, in, mask, "an aligned barrier");
        if (!mask) return STEP_BLOCKED;
        named_barrier *b = &w->cta->named[r.id];
        s->wait_id = r.id;
        s->wait_generation = b->generation;
        if (votes) {
            u32 p = in->operand_count - 1u;
            require_defined(w, in, p, mask, "the predicate of a barrier reduction");
            FOR_LANES(l, mask) b->votes_true += scalar(w, in, p, (u32)l) & 1;
            b->votes += (u32)__builtin_popcount(mask);
        }
        arrive_named(w, in, mask, &r);
        if (in->mode == MODE_ARRIVE) return STEP_YIELD;
        if (b->generation == s->wait_generation) {
            s->state = SPLIT_BARRIER;
            return STEP_BLOCKED;
        }
    }
    named_barrier *b = &w->cta->named[s->wait_id];
    acquire(w, mask, &b->done);
    if (b->done_cycle > w->cycle) w->cycle = b->done_cycle;
    if (votes) {
        u64 *d = destination(w, in, 0);
        u32 yes = b->last_votes_true;
        u64 value = in->mode == MODE_POPC  ? yes
                    : in->mode == MODE_AND ? yes == b->last_votes
                                           : yes != 0;
        if (d) FOR_LANES(l, mask) d[l] = value;
        define(w, in, 0, mask, 0, 0);
    }
    return STEP_YIELD;
}

bool barrier_ready(const warp *w, const split *s) {
    return w->cta->named[s->wait_id].generation != s->wait_generation;
}

void barrier_wait_describe(const warp *w, const split *s, char *text, size_t size) {
    const named_barrier *b = &w->cta->named[s->wait_id];
    snprintf(text, size, "barrier %u, where %u of %u threads have come", s->wait_id, b->arrived,
             b->expected);
}

void named_barriers_finish_check(cta *c) {
    for (u32 id = 0; id < NAMED_BARRIERS; id++) {
        const named_barrier *b = &c->named[id];
        if (b->arrived)
            report(c->m, FINDING_NAMED_COUNT, &c->warps[b->first_warp], -1, (i32)b->first_pc,
                   "CTA %u exits while %u of %u threads have come to barrier %u: arrivals that nobody "
                   "waits for",
                   c->index, b->arrived, b->expected, id);
    }
}

/* ---- The cluster barrier ---- */

static u32 live_warps_of(const machine *m, u32 cluster) {
    u32 live = 0;
    for (u32 i = 0; i < m->cluster_size; i++) live += m->ctas[cluster * m->cluster_size + i].live_warps;
    return live;
}

void cluster_barrier_recheck(cta *c) {
    cluster_barrier *b = &c->m->clusters[c->cluster];
    u32 live = live_warps_of(c->m, c->cluster);
    if (!b->arrived || !live || b->arrived < live) return;
    b->arrived = 0;
    b->generation++;
    b->done_cycle = b->cycle;
    clock_join(&b->done, &b->arrivals);
    c->m->progress++;
}

static step cluster(warp *w, split *s, const insn *in, u32 mask) {
    cluster_barrier *b = &w->m->clusters[w->cta->cluster];
    i32 pc = pc_of(w, in);
    if (!s->released && in->flags & FLAG_ALIGNED)
        mask = gather_warp(w, s, in, mask, "an aligned cluster barrier");
    if (!mask) return STEP_BLOCKED;
    if (in->mode == MODE_ARRIVE) {
        if (w->arrived_cluster)
            report(w->m, FINDING_NAMED_CLASH, w, first_lane(mask), pc,
                   "barrier.cluster.arrive twice with no barrier.cluster.wait between");
        w->arrived_cluster = true;
        w->cluster_generation = b->generation;
        b->arrived++;
        if (w->cycle > b->cycle) b->cycle = w->cycle;
        if (in->semantics != SEMANTICS_RELAXED) release_into(w, mask, &b->arrivals);
        else if (w->has_released) clock_join(&b->arrivals, &w->released_by_fence);
        clock_join(&b->arrivals, &w->inits);
        cluster_barrier_recheck(w->cta);
        w->m->progress++;
        return STEP_YIELD;
    }
    if (!w->arrived_cluster) {
        report(w->m, FINDING_NAMED_CLASH, w, first_lane(mask), pc,
               "barrier.cluster.wait without barrier.cluster.arrive before it");
        return STEP_NEXT;
    }
    if (b->generation == w->cluster_generation) {
        s->state = SPLIT_CLUSTER;
        return STEP_BLOCKED;
    }
    w->arrived_cluster = false;
    if (b->done_cycle > w->cycle) w->cycle = b->done_cycle;
    acquire(w, mask, &b->done);
    return STEP_YIELD;
}

bool cluster_ready(const warp *w, const split *s) {
    (void)s;
    return w->m->clusters[w->cta->cluster].generation != w->cluster_generation;
}

/* ---- Fences ---- */

static void memory_fence(warp *w, const insn *in, u32 mask) {
    bool acquires = in->semantics != SEMANTICS_RELEASE, releases = in->semantics != SEMANTICS_ACQUIRE;
    u32 learners = acquires ? mask & w->acquire_lanes : 0;
    static const u8 NEEDED[] = {SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU};
    for (u32 i = 0; learners && i < 3; i++)
        if (in->scope >= NEEDED[i]) acquire(w, learners, &w->to_acquire[i]);
    if (learners) signals_acquired(w);
    if (!releases) return;
    if (!w->has_released || (w->released_lanes & ~mask) == 0) {
        w->released_lanes = mask;
        w->released_scope = in->scope;
    } else {
        w->released_lanes |= mask;
        if (in->scope < w->released_scope) w->released_scope = in->scope;
    }
    w->has_released = true;
    release_into(w, mask, &w->released_by_fence);
    clock_join(&w->cta->fenced, &w->released_by_fence);
}

static step fence(warp *w, const insn *in, u32 mask) {
    switch (in->mode) {
    case MODE_PROXY_ASYNC:
        proxy_fence(w, mask, in->space != SPACE_GLOBAL,
                    in->space == SPACE_GLOBAL || in->space == SPACE_GENERIC);
        break;
    case MODE_MBARRIER_INIT: mbarriers_fence(w, mask); break;
    case MODE_PROXY_TENSORMAP: return run_copy(w, NULL, in, mask);
    case MODE_MEMORY: memory_fence(w, in, mask); break;
    default: break; /* fence.proxy.alias: one virtual address for each place here */
    }
    return STEP_NEXT;
}

/* ---- Register budgets ---- */

step run_setmaxnreg(warp *w, split *s, const insn *in, u32 mask) {
    cta *c = w->cta;
    i32 pc = pc_of(w, in);
    u32 wanted = (u32)scalar(w, in, 0, (u32)first_lane(mask)), have = w->register_count;
    if (!s->released) mask = gather_warp(w, s, in, mask, "setmaxnreg");
    if (!mask) return STEP_BLOCKED;
    bool increases = in->mode == MODE_INC;
    if (!s->released) {
        if (wanted < 24 || wanted > 256 || wanted % 8)
            report(w->m, FINDING_SETMAXNREG, w, -1, pc,
                   "setmaxnreg %u: it must be a multiple of 8 from 24 to 256", wanted);
        if (increases ? wanted < have : wanted > have)
            report(w->m, FINDING_SETMAXNREG, w, -1, pc, "setmaxnreg.%s %u where the warp has %u",
                   increases ? "inc" : "dec", wanted, have);
        if (w->setmaxnreg_count < sizeof w->setmaxnreg_log)
            w->setmaxnreg_log[w->setmaxnreg_count] = (u8)(wanted / 8);
        w->setmaxnreg_pc = pc;
        u32 group = w->index & ~3u, nth = w->setmaxnreg_count++;
        if (group + 4 > c->warp_count)
            report(w->m, FINDING_SETMAXNREG, w, -1, pc,
                   "setmaxnreg by warp %u, and the block has %u of the 4 warps of its warp group",
                   w->index, c->warp_count - group);
        for (u32 i = group; i < group + 4 && i < c->warp_count; i++) {
            const warp *other = &c->warps[i];
            if (nth < other->setmaxnreg_count && nth < sizeof w->setmaxnreg_log &&
                other->setmaxnreg_log[nth] != w->setmaxnreg_log[nth])
                report(w->m, FINDING_SETMAXNREG, w, -1, pc,
                       "setmaxnreg %u in warp %u and %u in warp %u of the same warp group", wanted,
                       w->index, other->setmaxnreg_log[nth] * 8, i);
        }
    }
    i64 more = ((i64)wanted - have) * LANES;
    if (increases && more > c->register_pool) {
        s->state = SPLIT_REGISTERS;
        s->wait_id = wanted;
        return STEP_BLOCKED;
    }
    c->register_pool -= more;
    w->register_count = wanted;
    w->m->progress++;
    return STEP_YIELD;
}

/* The warps of a group must all have executed it, equally often. */
void setmaxnreg_exit_check(cta *c) {
    for (u32 i = 0; i < c->warp_count; i++) {
        const warp *w = &c->warps[i], *first = &c->warps[i & ~3u];
        if (w->setmaxnreg_count != first->setmaxnreg_count)
            report(c->m, FINDING_SETMAXNREG, w, -1,
                   w->setmaxnreg_count ? w->setmaxnreg_pc : first->setmaxnreg_pc,
                   "warp %u has executed setmaxnreg %u times and warp %u of its warp group %u times",
                   w->index, w->setmaxnreg_count, first->index, first->setmaxnreg_count);
    }
}

bool registers_ready(const warp *w, const split *s) {
    return ((i64)s->wait_id - w->register_count) * LANES <= w->cta->register_pool;
}

step run_barrier(warp *w, split *s, const insn *in, u32 mask) {
    switch (in->op) {
    case OP_BAR: return named(w, s, in, mask);
    case OP_CLUSTER_BARRIER: return cluster(w, s, in, mask);
    default: return fence(w, in, mask);
    }
}
