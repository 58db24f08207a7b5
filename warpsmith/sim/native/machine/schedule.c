/* Who runs next, when copies land, and how a run ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/run.h"

u64 random_next(machine *m) {
    m->seed += 0x9e3779b97f4a7c15ull;
    u64 z = m->seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Copies in flight of which one lands at a time in random schedules; of twice as many two, and so on. */
enum { MANY_IN_FLIGHT = 64 };

/* ---- CTAs come and go ---- */

/* Start the next cluster where there is room for it. */
static bool start_cluster(machine *m) {
    if (m->next_cta == m->cta_count) return false;
    if (m->next_cta - m->done_ctas + m->cluster_size > m->resident) return false;
    /* No progress in itself: warps that spin need not look again before it does something. */
    for (u32 i = 0; i < m->cluster_size; i++) {
        cta *c = &m->ctas[m->next_cta++];
        cta_place(c);
        c->started = m->cluster_size == 1 || m->order == ORDER_ROUND_ROBIN;
        m->held_ctas += !c->started;
    }
    return true;
}

/* CTAs of a cluster may start far apart: the next one, where no other can run; the last one first, or
   any, in some schedules. */
static bool start_held(machine *m) {
    if (!m->held_ctas) return false;
    u32 skipped = m->order == ORDER_RANDOM           ? (u32)(random_next(m) % m->held_ctas)
                  : m->order == ORDER_CONSUMER_FIRST ? m->held_ctas - 1
                                                     : 0;
    u32 at = m->first_cta;
    while (m->ctas[at].started || skipped--) at++;
    m->ctas[at].started = true;
    m->held_ctas--;
    return true;
}

/* Touches of a CTA's shared memory by its peers must be ordered before its exit. */
static void check_peers(cta *c) {
    machine *m = c->m;
    if (m->cluster_size == 1) return;
    vclock all = {0};
    for (u32 i = 0; i < c->warp_count; i++) {
        clock_join(&all, &c->warps[i].known);
        for (u32 l = 0; l < c->warps[i].lane_clock_count; l++) clock_join(&all, &c->warps[i].lane_clocks[l].clock);
    }
    warp observer = {.m = m, .cta = c, .known = all};
    for (u64 offset = 0, end; offset < c->shared.size; offset = end) {
        const cell *at = run_of(&c->shared, offset, &end);
        u32 who = at->who, time = at->time, pc = at->pc;
        u32 lanes = 1u << (who & 31);
        for (u32 e = at->list;; e = m->accesses[e].next) {
            bool peer = who != WHO_NOBODY && !(who & WHO_FLIGHT) && who >> (AGENT_BITS + 5) != c->index;
            actor a = {.m = m, .by = &observer};
            if (peer && known_lanes(&a, who, lanes, time) != KNOWN) {
                char text[160];
                finding *f = report(m, FINDING_EXIT_OUTSTANDING, &c->warps[0], -1, (i32)(pc & SHADOW_PC),
                                    "CTA %u exits while its shared memory is used by %s, with nothing "
                                    "that orders the use before the exit",
                                    c->index, describe_who(m, who, time, text, sizeof text));
                if (f) f->address = offset;
            }
            if (!e) break;
            who = m->accesses[e].who;
            lanes = m->accesses[e].lanes;
            time = m->accesses[e].time;
            pc = m->accesses[e].pc;
        }
    }
    for (u32 i = 0; i < c->barrier_count; i++) {
        const mbarrier *b = &c->barriers[i];
        if (!b->live || !b->remote_time) continue;
        if (b->remote_phase < b->observed) continue; /* somebody here waited for what it is a part of */
        actor a = {.m = m, .by = &observer};
        u32 who = who_of(&m->ctas[b->remote_cta], b->remote_agent, b->remote_lane);
        if (known_to(&a, who, b->remote_time) == KNOWN) continue;
        report(m, FINDING_EXIT_OUTSTANDING, &c->warps[0], -1, (i32)b->remote_pc,
               "CTA %u exits while CTA %u arrives on its mbarrier at shared address 0x%x, with nothing "
               "that orders the arrival before the exit",
               c->index, b->remote_cta, b->address);
    }
    clock_free(&all);
}

static void finish_cta(cta *c) {
    machine *m = c->m;
    for (u32 i = 0; i < m->flight_count; i++) {
        const effect *e = m->flights[i];
        for (u32 d = 0; d < e->destination_count; d++)
            if (e->destination_cta[d] == c->index && (e->kind == EFFECT_LOAD || e->by->cta == c))
                report(m, FINDING_EXIT_OUTSTANDING, e->by, (i32)e->lane, (i32)e->pc,
                       "CTA %u exits while a copy into its shared memory is in flight", c->index);
    }
    mbarriers_exit_check(c);
    setmaxnreg_exit_check(c);
    matrices_finish_check(c);
    named_barriers_finish_check(c);
    check_peers(c);
    for (u32 i = 0; i < c->warp_count; i++)
        if (c->warps[i].cycle > m->stats.cycles) m->stats.cycles = c->warps[i].cycle;
    /* Effects of this CTA that are still under way land before its memory goes. */
    for (u32 i = 0; i < m->flight_count;) {
        if (m->flights[i]->by->cta == c) {
            effect_land(m, i);
            i = 0;
        } else {
            i++;
        }
    }
    c->exited = true;
    m->done_ctas++;
    m->progress++;
    for (u32 i = 0; i < c->warp_count; i++) warp_free(&c->warps[i]);
    bool all = true;
    u32 base = c->index - c->rank;
    for (u32 i = 0; i < m->cluster_size; i++) all &= m->ctas[base + i].exited;
    for (u32 i = 0; all && i < m->cluster_size; i++) cta_free(&m->ctas[base + i]);
}

/* ---- How it ends ---- */

static void describe_wait(const warp *w, const split *s, char *text, size_t size) {
    switch (s->state) {
    case SPLIT_MBARRIER: mbarrier_wait_describe(w, s, text, size); break;
    case SPLIT_BARRIER: barrier_wait_describe(w, s, text, size); break;
    case SPLIT_CLUSTER: snprintf(text, size, "the cluster barrier"); break;
    case SPLIT_GROUP: snprintf(text, size, "a group of copies"); break;
    case SPLIT_REGISTERS:
        snprintf(text, size, "%u registers a thread (it has %u; the pool holds %lld)", s->wait_id,
                 w->register_count, (long long)w->cta->register_pool);
        break;
    case SPLIT_MEMBERS:
        snprintf(text, size, "the lanes of 0x%08x that have not come", s->wait_id & w->live & ~s->mask);
        break;
    default: snprintf(text, size, "a condition in memory that does not change");
    }
}

static void blame(machine *m, const warp *w, const split *s) {
    if (s->state == SPLIT_MEMBERS && s->wait_id == w->live)
        report(m, FINDING_DIVERGENT, w, first_lane(s->mask), s->pc,
               "lanes 0x%08x wait at an instruction that the whole warp (0x%08x) must execute, and the "
               "others never come",
               s->mask, w->live);
    if (s->state == SPLIT_REGISTERS)
        report(m, FINDING_SETMAXNREG, w, -1, s->pc,
               "setmaxnreg.inc %u can never be granted: %lld registers are in the pool and nobody will "
               "release more",
               s->wait_id, (long long)w->cta->register_pool);
    const mbarrier *b = s->state == SPLIT_MBARRIER ? mbarrier_find(w->cta, s->wait_id) : NULL;
    if (!b) return;
    finding *f = NULL;
    if (b->pending && b->pending < b->expected)
        f = report(m, FINDING_ARRIVAL_MISSING, w, first_lane(s->mask), s->pc,
                   "phase %u of the mbarrier at shared address 0x%x never completes: %u of %u arrivals "
                   "are missing",
                   b->phase - b->first_phase, b->address, b->pending, b->expected);
    else if (!b->pending && b->transactions)
        f = report(m, FINDING_TX_MISMATCH, w, first_lane(s->mask), s->pc,
                   "phase %u of the mbarrier at shared address 0x%x never completes: its copies bring "
                   "%lld bytes %s than it expects",
                   b->phase - b->first_phase, b->address, (long long)llabs(b->transactions),
                   b->transactions > 0 ? "less" : "more");
    if (!f) return;
    f->barrier = (i32)b->address;
    f->phase = (i32)(b->phase - b->first_phase);
}

static void deadlock(machine *m) {
    char text[MESSAGE_BYTES] = "";
    size_t used = 0;
    const warp *first = NULL;
    i32 pc = -1, barrier = -1, phase = -1;
    u32 shown = 0, waiting = 0;
    for (u32 c = 0; c < m->next_cta; c++)
        for (u32 i = 0; !m->ctas[c].exited && i < m->ctas[c].warp_count; i++) {
            warp *w = &m->ctas[c].warps[i];
            for (u32 k = 0; k < w->split_count; k++) {
                const split *s = &w->splits[k];
                if (!s->mask) continue;
                waiting++;
                blame(m, w, s);
                if (!first) {
                    first = w;
                    pc = s->pc;
                    const mbarrier *b =
                        s->state == SPLIT_MBARRIER ? mbarrier_find(w->cta, s->wait_id) : NULL;
                    if (b) {
                        barrier = (i32)b->address;
                        phase = (i32)(b->phase - b->first_phase);
                    }
                }
                if (shown == 6 || used > sizeof text - 160) continue;
                char wait[140];
                describe_wait(w, s, wait, sizeof wait);
                used += (size_t)snprintf(text + used, sizeof text - used,
                                         "%swarp %u of CTA %u (line %u) waits for %s", shown ? "; " : "",
                                         w->index, c, m->code[s->pc].line, wait);
                if (used >= sizeof text) used = sizeof text - 1;
                shown++;
            }
        }
    if (m->next_cta < m->cta_count)
        snprintf(text + used, sizeof text - used, "; %u CTAs wait for room on the device",
                 m->cta_count - m->next_cta);
    finding *f = report(m, FINDING_DEADLOCK, first, -1, pc, "%u warps wait for ever: %s", waiting, text);
    if (f) {
        f->barrier = barrier;
        f->phase = phase;
    }
}

static void out_of_budget(machine *m) {
    char text[MESSAGE_BYTES] = "";
    size_t used = 0;
    const warp *first = NULL;
    for (u32 c = 0; c < m->next_cta; c++)
        for (u32 i = 0; !m->ctas[c].exited && i < m->ctas[c].warp_count; i++) {
            warp *w = &m->ctas[c].warps[i];
            if (!w->split_count) continue;
            if (!first) first = w;
            if (used > sizeof text - 60) continue;
            used += (size_t)snprintf(text + used, sizeof text - used, "%swarp %u of CTA %u at line %u",
                                     used ? ", " : "", i, c, m->code[w->splits[0].pc].line);
            if (used >= sizeof text) used = sizeof text - 1;
        }
    report(m, FINDING_BUDGET, first, -1, first ? first->splits[0].pc : -1,
           "the budget of %llu warp instructions is spent: %s", (unsigned long long)m->budget, text);
    m->stopped = true;
}

/* ---- Turns ---- */

static void land_some(machine *m) {
    if (!m->flight_count) return;
    switch (m->order) {
    case ORDER_PRODUCER_FIRST:
        while (m->flight_count) effect_land(m, 0);
        break;
    case ORDER_ROUND_ROBIN: effect_land(m, 0); break;
    case ORDER_RANDOM: /* more of many: whoever waits for thousands looks at all of them each time */
        if (random_next(m) % 4) break;
        for (u32 some = 1 + m->flight_count / MANY_IN_FLIGHT; some; some--)
            effect_land(m, (u32)(random_next(m) % m->flight_count));
        break;
    default: break; /* consumers first: as late as can be, the last one first */
    }
}

static bool land_last(machine *m) {
    if (!m->flight_count) return false;
    u32 index = m->order == ORDER_RANDOM ? (u32)(random_next(m) % m->flight_count) : m->flight_count - 1;
    effect_land(m, index);
    return true;
}

enum { MOST_COPIES = 1 << 20 };
static const u64 LAST_TURN = 1ull << 40;

static u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

static bool only_polls(const warp *w) { return w->idle > 128 && w->idle_since == w->m->progress; }

/* A warp for the next turn, NULL when none can run. */
static warp *choose(machine *m, u32 *turn) {
    warp *best = NULL;
    u64 best_rank = 0;
    u32 seen = 0;
    while (m->first_cta < m->next_cta && m->ctas[m->first_cta].exited) m->first_cta++;
    for (u32 c = m->first_cta; c < m->next_cta; c++) {
        if (m->ctas[c].exited || !m->ctas[c].started) continue;
        for (u32 i = 0; i < m->ctas[c].warp_count; i++) {
            warp *w = &m->ctas[c].warps[i];
            seen++;
            if (!w->live || !warp_runnable(w)) continue;
            u64 rank;
            switch (m->order) {
            case ORDER_RANDOM: rank = random_next(m) | 1; break;
            case ORDER_PRODUCER_FIRST: rank = ((u64)w->issued_copies << 32) + 100000 - seen + 1; break;
            case ORDER_CONSUMER_FIRST:
                rank = ((u64)(MOST_COPIES - smaller(w->issued_copies, MOST_COPIES)) << 32) + seen;
                break;
            default: rank = LAST_TURN - w->last_turn; break;
            }
            /* A warp that only polls lets the others go first, and nearly always one that will look
               again since something changed. */
            bool looks = w->spinning && (m->order != ORDER_RANDOM || random_next(m) % 16);
            if (looks || only_polls(w)) rank >>= 33;
            if (!best || rank > best_rank) {
                best = w;
                best_rank = rank;
            }
        }
    }
    if (best) best->last_turn = ++*turn;
    return best;
}

static bool part_warps(machine *m) {
    bool parted = false;
    for (u32 c = 0; c < m->next_cta; c++)
        for (u32 i = 0; !m->ctas[c].exited && i < m->ctas[c].warp_count; i++)
            parted |= warp_part(&m->ctas[c].warps[i]);
    return parted;
}

void machine_run(machine *m) {
    u32 turn = 0;
    start_cluster(m);
    while (!m->stopped) {
        bool crowded = m->next_cta - m->done_ctas >= 2 * m->cluster_size;
        if (!crowded || (m->order == ORDER_RANDOM && random_next(m) % 64 == 0)) start_cluster(m);
        if (m->order == ORDER_RANDOM && m->held_ctas && random_next(m) % 64 == 0) start_held(m);
        warp *w = choose(m, &turn);
        if (w && only_polls(w) && start_held(m)) continue;
        if (!w) {
            if (land_last(m) || start_held(m) || start_cluster(m) || part_warps(m)) continue;
            if (m->done_ctas < m->cta_count) deadlock(m);
            return;
        }
        u64 quantum = m->order == ORDER_RANDOM        ? 1 + random_next(m) % 96
                      : m->order == ORDER_ROUND_ROBIN ? 48
                                                      : 256;
        for (u64 i = 0; i < quantum && !m->stopped; i++) {
            if (!warp_step(w) || w->spinning) break;
            if (w->split_count && w->splits[w->current < w->split_count ? w->current : 0].state != SPLIT_READY)
                break;
            if (!w->live) break;
        }
        if (m->stats.instructions > m->budget) out_of_budget(m);
        land_some(m);
        cta *c = w->cta;
        if (!c->live_warps && !c->exited) finish_cta(c);
    }
}
