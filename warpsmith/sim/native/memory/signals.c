/* Signals that no fence of their own thread stands behind: what they would tell if one did. This
   orders nothing. It tells a kernel in which nobody fenced from one in which all threads did, met at
   a barrier, and one of them signals: PTX lets a fence publish only what its own thread knew then. */
#include "machine/machine.h"

static void unfenced_join(unfenced *into, const unfenced *from) {
    clock_join(&into->clock, &from->clock);
    into->who = from->who;
    into->pc = from->pc;
}

void signal_sent(warp *w, u32 lane, i32 pc, location *l, bool extends) {
    if (!extends) clock_free(&l->unfenced.clock);
    release_into(w, 1u << lane, &l->unfenced.clock);
    l->unfenced.who = actor_thread(w, lane, pc).who;
    l->unfenced.pc = (u32)pc;
}

void signal_seen(warp *w, const location *l, bool acquires) {
    if (clock_is_empty(&l->unfenced.clock) || w->signal_version == l->version) return;
    w->signal_version = l->version;
    unfenced_join(acquires ? &w->cta->unfenced : &w->unfenced, &l->unfenced);
}

void signals_acquired(warp *w) {
    if (!clock_is_empty(&w->unfenced.clock)) unfenced_join(&w->cta->unfenced, &w->unfenced);
}

static bool covers(const vclock *clock, u32 who, u32 time) {
    const knowledge *k = clock_look(clock, who >> (AGENT_BITS + 5), who >> 5 & (MAX_AGENTS - 1));
    return time <= k->full || (time <= k->part && k->lanes >> (who & 31) & 1);
}

const unfenced *signal_between(const actor *a, u32 who, u32 time) {
    u32 cta_index = who >> (AGENT_BITS + 5);
    const unfenced *known = &a->by->cta->unfenced;
    bool elsewhere = !(who & WHO_FLIGHT) && cta_index != a->by->cta->index;
    if (!elsewhere || !covers(&known->clock, who, time)) return NULL;
    return covers(&a->m->ctas[cta_index].fenced, who, time) ? known : NULL;
}
