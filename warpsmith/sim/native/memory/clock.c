/* Vector clocks: what an observer knows of every agent. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

static const knowledge NOTHING = {0};

static u32 larger(u32 a, u32 b) { return a > b ? a : b; }

/* Two partial knowledges of one agent become one. Where neither contains the other the lanes are
   united at the later time: that may know too much of a lane that both left behind, which can hide
   a race of that lane and never invents one. */
static void join_part(u32 *full, u32 *part, u32 *lanes, u32 full2, u32 part2, u32 lanes2) {
    *full = larger(*full, full2);
    if (*part <= *full) *lanes = 0;
    if (part2 <= *full) lanes2 = 0;
    if (!lanes2) return;
    *part = *lanes ? larger(*part, part2) : part2;
    *lanes |= lanes2;
}

void knowledge_join(knowledge *into, const knowledge *from) {
    join_part(&into->full, &into->part, &into->lanes, from->full, from->part, from->lanes);
    join_part(&into->async_full, &into->async_part, &into->async_lanes, from->async_full,
              from->async_part, from->async_lanes);
    join_part(&into->global_full, &into->global_part, &into->global_lanes, from->global_full,
              from->global_part, from->global_lanes);
    into->seen = larger(into->seen, larger(from->seen, from->full));
    into->init = larger(into->init, from->init);
}

void clock_free(vclock *clock) {
    for (u32 c = 0; c < clock->ctas; c++) free(clock->sections[c]);
    free(clock->sections);
    *clock = (vclock){0};
}

bool clock_is_empty(const vclock *clock) { return clock->ctas == 0; }

static section *section_of(vclock *clock, u32 cta, u32 count) {
    if (cta >= clock->ctas) {
        u32 ctas = larger(cta + 1, clock->ctas * 2);
        clock->sections = realloc(clock->sections, ctas * sizeof *clock->sections);
        memset(clock->sections + clock->ctas, 0, (ctas - clock->ctas) * sizeof *clock->sections);
        clock->ctas = ctas;
    }
    section *s = clock->sections[cta];
    u32 had = s ? s->count : 0;
    if (had < count) {
        s = realloc(s, sizeof *s + count * sizeof(knowledge));
        memset(s->of + had, 0, (count - had) * sizeof(knowledge));
        s->count = count;
        clock->sections[cta] = s;
    }
    return s;
}

knowledge *clock_at(vclock *clock, u32 cta, u32 agent) {
    return &section_of(clock, cta, agent + 1)->of[agent];
}

const knowledge *clock_look(const vclock *clock, u32 cta, u32 agent) {
    if (cta >= clock->ctas) return &NOTHING;
    const section *s = clock->sections[cta];
    return s && agent < s->count ? &s->of[agent] : &NOTHING;
}

void clock_join(vclock *into, const vclock *from) {
    for (u32 c = 0; c < from->ctas; c++) {
        const section *s = from->sections[c];
        if (!s) continue;
        section *t = section_of(into, c, s->count);
        for (u32 i = 0; i < s->count; i++) knowledge_join(&t->of[i], &s->of[i]);
    }
}

void clock_fence(vclock *clock, bool shared, bool global) {
    for (u32 c = 0; c < clock->ctas; c++) {
        section *s = clock->sections[c];
        for (u32 i = 0; s && i < s->count; i++) {
            knowledge *k = &s->of[i];
            if (shared)
                join_part(&k->async_full, &k->async_part, &k->async_lanes, k->full, k->part, k->lanes);
            if (global)
                join_part(&k->global_full, &k->global_part, &k->global_lanes, k->full, k->part, k->lanes);
        }
    }
}

void clock_join_seen(vclock *into, const vclock *from) {
    for (u32 c = 0; c < from->ctas; c++) {
        const section *s = from->sections[c];
        if (!s) continue;
        section *t = section_of(into, c, s->count);
        for (u32 i = 0; i < s->count; i++)
            t->of[i].seen = larger(t->of[i].seen, larger(s->of[i].seen, s->of[i].full));
    }
}
