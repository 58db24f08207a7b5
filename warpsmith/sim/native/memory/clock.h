/* Vector clocks: what an observer knows of every agent, and so what happened before what. */
#pragma once
#include "sim.h"

/* Agents of a CTA: for each warp one for its threads and one for each of its asynchronous
   channels, then one for each named barrier and mbarrier, whose time is the number of completed
   phases. */
enum {
    CHANNEL_THREADS, /* accesses of its lanes; time advances at every write, release and fence */
    CHANNEL_CP_ASYNC, /* cp.async; time counts commit groups */
    CHANNEL_BULK_READ, /* bulk stores have read their source; time counts bulk groups */
    CHANNEL_BULK_WRITE, /* bulk stores are visible */
    CHANNEL_WGMMA, /* wgmma has read its operands; time counts wgmma groups */
    CHANNELS
};
enum { NAMED_BARRIERS = 16, AGENT_BITS = 10, MAX_AGENTS = 1 << AGENT_BITS };

/* What is known of one agent. Everything up to `full` is known; of the lanes in `lanes` also
   everything up to `part`. The next is the same for what the async proxy can see, in shared and in
   global memory: ordinary accesses count there only when a proxy fence of that space stood behind
   them. `seen` orders no memory: it tells
   in which phase an arrival must count, whatever carried the news. */
typedef struct {
    u32 full, part, lanes;
    u32 async_full, async_part, async_lanes;
    u32 global_full, global_part, global_lanes;
    u32 seen; /* of barriers: phases that must be complete by cause and effect alone */
    u32 init; /* of mbarriers: inits that fence.mbarrier_init has published */
} knowledge;

/* Knowledge of every agent of one CTA, grown on demand. */
typedef struct {
    u32 count;
    knowledge of[];
} section;

/* A vector clock: sections by CTA, NULL where nothing is known. */
typedef struct {
    section **sections;
    u32 ctas;
} vclock;

void clock_free(vclock *clock);
void clock_join(vclock *into, const vclock *from);
bool clock_is_empty(const vclock *clock);
knowledge *clock_at(vclock *clock, u32 cta, u32 agent); /* grows */
const knowledge *clock_look(const vclock *clock, u32 cta, u32 agent); /* never NULL */
/* Everything known becomes known to the async proxy, in shared or global memory or both. */
void clock_fence(vclock *clock, bool shared, bool global);
void clock_join_seen(vclock *into, const vclock *from); /* of barriers, only what is `seen` */
void knowledge_join(knowledge *into, const knowledge *from);
