/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store answers like. A hard disk and a network are as late as each other; what tells them
 * apart is that a disk has one head: with many reads under way it gives hardly more of them.
 */
#include "measure/verdict.h"

#include "base/sized.h"

/* A disk that is busy with others is later than one alone, but not later than this, s. */
#define DISK_LATEST 50e-3

/* Up to here the rate follows the number of reads under way: more of them would give more. */
#define FOLLOWS 0.7

const char *stk_storage_name(stk_storage storage)
{
    switch (storage) {
    case STK_STORAGE_MEMORY:
        return "memory";
    case STK_STORAGE_SSD:
        return "an SSD";
    case STK_STORAGE_DISK:
        return "a hard disk";
    case STK_STORAGE_NETWORK:
        return "a network store";
    case STK_STORAGE_OBJECTS:
        return "an object store";
    case STK_STORAGE_UNKNOWN:
        break;
    }
    return "unknown";
}

stk_storage stk__storage_of(double latency, double overlap)
{
    if (!(latency > 0))
        return STK_STORAGE_UNKNOWN;
    if (latency < STK_STORAGE_FAST)
        return STK_STORAGE_MEMORY;
    if (latency < STK_STORAGE_NEAR)
        return STK_STORAGE_SSD;
    if (overlap > 0 && overlap < STK_STORAGE_OVERLAP && latency < DISK_LATEST)
        return STK_STORAGE_DISK;
    if (latency >= STK_STORAGE_FAR)
        return STK_STORAGE_OBJECTS;
    return overlap > 0 ? STK_STORAGE_NETWORK : STK_STORAGE_DISK;
}

static void judge(const stk_storage_figures *f, stk_storage_answer *out)
{
    const double overlap = f->one_per_s > 0 ? f->many_per_s / f->one_per_s : 0;

    *out = (stk_storage_answer){
        .struct_size = sizeof *out, .storage = stk__storage_of(f->latency, overlap), .io_depth = 1};
    if (f->network.reads && out->storage == STK_STORAGE_DISK) /* it has no head that seeks */
        out->storage = STK_STORAGE_NETWORK;
    while (out->io_depth < overlap && out->io_depth < f->many)
        out->io_depth *= 2;
    if (overlap >= FOLLOWS * (double)f->many)
        out->io_depth = 2 * f->many;
    out->in_order = f->random_bytes > 0 && f->in_order_bytes >= STK_STORAGE_PAYS * f->random_bytes;
    out->pack = f->many_per_s > 0 &&
                f->in_order_bytes >= STK_STORAGE_PACKS * f->many_per_s * (double)f->small;
}

/* The fewest at once that give nearly as much as the most, and whether more would give more. */
static void judge_steps(const stk_storage_figures *f, stk_storage_answer *out)
{
    const uint32_t steps = STK_MIN(f->num_steps, (uint32_t)STK_STORAGE_STEPS);
    double best = 0;

    for (uint32_t i = 0; i < steps; i++)
        best = STK_MAX(best, f->steps[i].bytes_per_s);
    for (uint32_t i = 0; i < steps && !out->filled; i++)
        if (f->steps[i].bytes_per_s >= STK_STORAGE_FILLED * best)
            out->filled = f->steps[i].depth;
    out->grows = steps > 1 &&
                 f->steps[steps - 1].bytes_per_s >= 2 * FOLLOWS * f->steps[steps - 2].bytes_per_s;
    if (out->grows)
        out->io_depth = STK_MAX(out->io_depth, 2 * f->steps[steps - 1].depth);
    out->io_depth = STK_MAX(out->io_depth, out->filled);
}

/* A server that throttles is asked for no more at once than it answered. */
static void judge_connections(const stk_storage_figures *f, stk_storage_answer *out)
{
    const stk_network *n = &f->network;

    if (stk__network_throttles(n)) {
        out->connections = out->io_depth = STK_MAX(out->filled, 1u);
    } else if (f->most && out->io_depth > f->most) {
        out->connections = out->io_depth;
    }
}

void stk_storage_judge(const stk_storage_figures *figures, stk_storage_answer *out)
{
    stk_storage_figures known = {0};
    stk_storage_answer answer = {.struct_size = sizeof answer};

    stk__sized_copy(&known, sizeof known, figures);
    judge(&known, &answer);
    judge_steps(&known, &answer);
    judge_connections(&known, &answer);
    stk__sized_write(out, &answer);
}

void stk__verdict_say_store(const stk__case *v, bool queues, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double rate = f->wall > 0 ? (double)f->requests / f->wall : 0,
                 under_way = f->wall > 0 ? f->read_seconds / f->wall : 0,
                 latency = f->read_floor > 0 ? f->read_floor : f->read_latency;

    /* Reads that queue at one head are as late as those of a far store: the rate gives it away. */
    if (!stk__network_counts(v) && rate > 0 && rate <= STK_STORAGE_SEEKS && under_way >= 2 &&
        f->read_latency >= STK_STORAGE_NEAR && (double)f->bytes_read <= STK_JUDGE_DISK * f->wall) {
        stk__verdict_say(out,
                         " %.0f reads a second are what a hard disk gives%s: there reading in "
                         "order (shuffle: block, packed samples) or an SSD helps, and more reads "
                         "at once do not; 'stoker info --store URL' tells which it is.",
                         rate, queues ? "" : ", or a far store");
        return;
    }
    if (queues)
        return;
    stk_storage storage =
        stk__storage_of(latency, under_way >= STK_STORAGE_OVERLAP ? rate * latency : 0);
    if (stk__network_counts(v) && storage == STK_STORAGE_DISK)
        storage = STK_STORAGE_NETWORK;
    if (storage != STK_STORAGE_UNKNOWN)
        stk__verdict_say(out, " It answers like %s.", stk_storage_name(storage));
}
