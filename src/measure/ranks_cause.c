/* SPDX-License-Identifier: Apache-2.0 */
/* Why one rank is behind the others: what its own log says, against the median of theirs. */
#include <math.h>
#include <stdio.h>

#include "measure/ranks.h"

#define LARGER     1.2  /* times as many bytes or pixels, from which on data is different */
#define EXPLAINS   0.5  /* of the logarithm of the time that data has to be, to be the cause */
#define OTHERS     0.25 /* cores more that other programs keep busy */
#define LATE_MORE  0.10 /* of the time more that threads want a core */
#define LONGER     1.15 /* times as long, of what is named as the cause */
#define COUNTED(x) ((double)(x) > 0 ? (double)(x) : (double)NAN)

/* ---- Parts ----------------------------------------------------------------------------------- */

static void sum_waits(const double waits[STK_WAIT_PARTS], double steps, stk__rank_parts *out)
{
    out->storage = (waits[STK_WAIT_READ_SLOT] + waits[STK_WAIT_STORAGE_LATENCY] +
                    waits[STK_WAIT_STORAGE_TRANSFER] + waits[STK_WAIT_RETRY]) /
                   steps;
    out->work = (waits[STK_WAIT_WORKER] + waits[STK_WAIT_DECODE_ENTROPY] + waits[STK_WAIT_DECODE] +
                 waits[STK_WAIT_TRANSFORM] + waits[STK_WAIT_COLLATE]) /
                steps;
}

static void take_figures(const stk_figures *f, stk__rank_parts *out)
{
    const double samples = COUNTED(f->samples);

    out->read = COUNTED(f->read_latency);
    out->prepare = COUNTED(f->prepare_busy) / samples;
    out->cpu = COUNTED(f->cpu_s) / samples;
    out->read_bytes = COUNTED(f->bytes_read) / samples;
    out->decoded_bytes = COUNTED(f->bytes_decoded) / samples;
    out->pixels = COUNTED(f->picture_pixels) / samples;
    out->taken_bytes = COUNTED(f->bytes_taken) / samples;
    out->cores = COUNTED(f->usable_cores);
    out->other_cores = f->other_cores;
    out->runnable_share = f->wall > 0 ? f->runnable_s / f->wall : (double)NAN;
}

void stk__rank_parts_of(const stk__run *run, const stk_report_rank *rank, stk__rank_parts *out)
{
    const stk_report_run *r = &run->out;
    double waits[STK_WAIT_PARTS] = {0};

    *out = (stk__rank_parts){.wait = rank->wait,
                             .step = rank->step - (isnan(rank->comm_wait) ? 0 : rank->comm_wait),
                             .storage = NAN,
                             .work = NAN,
                             .read = r->read_seconds / COUNTED(r->reads),
                             .prepare = r->get_busy / COUNTED(r->get_batches),
                             .read_bytes = (double)r->read_bytes / COUNTED(r->get_batches),
                             .cpu = NAN,
                             .decoded_bytes = NAN,
                             .pixels = NAN,
                             .taken_bytes = NAN,
                             .cores = NAN,
                             .other_cores = NAN,
                             .runnable_share = NAN};
    if (r->get_dropped) /* how many samples the reads were for is not known */
        out->read_bytes = NAN;
    if (run->has_figures && run->figures.samples)
        take_figures(&run->figures, out);
    if (stk__run_waits(run, waits) && r->steps)
        sum_waits(waits, (double)r->steps, out);
}

/* ---- Against the others ---------------------------------------------------------------------- */

typedef struct sight {
    const stk__rank_parts *all;
    uint64_t n, who;
    double *scratch; /* [n] */
    char *text;
    size_t size;
} sight;

#define PART(member) offsetof(stk__rank_parts, member)

static double part_of(const sight *s, uint64_t rank, size_t offset)
{
    return *(const double *)((const char *)&s->all[rank] + offset);
}

static double own(const sight *s, size_t offset)
{
    return part_of(s, s->who, offset);
}

/* The median of the others' that are known, the lower one; NaN: none is. */
static double others(const sight *s, size_t offset)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < s->n; i++)
        if (i != s->who && isfinite(part_of(s, i, offset)))
            s->scratch[n++] = part_of(s, i, offset);
    return n ? stk__value_at(s->scratch, n, 0.5) : (double)NAN;
}

/* How many times the others' it is; 1 where that is not known. */
static double times(const sight *s, size_t offset)
{
    const double ratio = own(s, offset) / others(s, offset);

    return isfinite(ratio) && ratio > 0 ? ratio : 1;
}

static double more(const sight *s, size_t offset)
{
    const double difference = own(s, offset) - others(s, offset);

    return isfinite(difference) ? difference : 0;
}

/* How many times as large its samples are, by whatever says it most. */
static double larger(const sight *s)
{
    return fmax(fmax(times(s, PART(read_bytes)), times(s, PART(decoded_bytes))),
                fmax(times(s, PART(pixels)), times(s, PART(taken_bytes))));
}

/* ---- What is said ---------------------------------------------------------------------------- */

const char *stk__rank_seconds(char text[32], double value)
{
    const double size = fabs(value), by = size >= 1 || size == 0 ? 1 : size >= 1e-3 ? 1e3 : 1e6;

    snprintf(text, 32, "%.3g %s", value * by, by == 1 ? "s" : by < 1e5 ? "ms" : "\xc2\xb5s");
    return text;
}

static stk_straggling say_data(const sight *s, double by)
{
    snprintf(s->text, s->size,
             "Its data: its samples are %.2g times as large as the others'. Shuffle over all "
             "ranks, or deal samples by their size.",
             by);
    return STK_STRAGGLING_DATA;
}

static stk_straggling say_disk(const sight *s)
{
    char mine[32], theirs[32];

    if (times(s, PART(read)) < LONGER)
        snprintf(s->text, s->size,
                 "Its disk: it waits %s of a step for reads, the others %s. Compare what it reads "
                 "from with theirs (stoker info --machine).",
                 stk__rank_seconds(mine, own(s, PART(storage))),
                 stk__rank_seconds(theirs, others(s, PART(storage))));
    else
        snprintf(s->text, s->size,
                 "Its disk: a read takes %s, the others' %s. Compare what it reads from with "
                 "theirs (stoker info --machine).",
                 stk__rank_seconds(mine, own(s, PART(read))),
                 stk__rank_seconds(theirs, others(s, PART(read))));
    return STK_STRAGGLING_DISK;
}

/* What its log says of cores; false: nothing that differs. */
static bool say_cores(const sight *s)
{
    char mine[32], theirs[32];

    if (times(s, PART(cores)) < 1 / LONGER)
        snprintf(s->text, s->size,
                 "Its cores: it may use %.0f, the others %.0f. Give it as many (cgroup quota, "
                 "affinity, --cpus-per-task).",
                 own(s, PART(cores)), others(s, PART(cores)));
    else if (more(s, PART(other_cores)) >= OTHERS)
        snprintf(s->text, s->size,
                 "Its cores: other programs keep %.1f of them busy, %.1f at the others. End those, "
                 "or take its machine out.",
                 own(s, PART(other_cores)), others(s, PART(other_cores)));
    else if (more(s, PART(runnable_share)) >= LATE_MORE)
        snprintf(s->text, s->size,
                 "Its cores: its threads wanted one and had none %.2g times the run's length, the "
                 "others' %.2g times. Give it more, or fewer num_workers.",
                 own(s, PART(runnable_share)), others(s, PART(runnable_share)));
    else if (times(s, PART(cpu)) >= LONGER)
        snprintf(s->text, s->size,
                 "Its cores: a sample takes %s of them, at the others %s: they are slower. Look at "
                 "their clock and temperature.",
                 stk__rank_seconds(mine, own(s, PART(cpu))),
                 stk__rank_seconds(theirs, others(s, PART(cpu))));
    else
        return false;
    return true;
}

static bool data_explains(const sight *s, double longer)
{
    const double by = larger(s);

    return by >= LARGER && log(by) >= EXPLAINS * log(STK_MAX(longer, 1.0));
}

/* It waits longer for its batches. */
static stk_straggling cause_of_wait(const sight *s)
{
    char mine[32], theirs[32];
    const double reads = times(s, PART(read)), work = times(s, PART(prepare));
    const bool ledger = isfinite(own(s, PART(storage))) && isfinite(others(s, PART(storage)));
    const double storage = ledger ? more(s, PART(storage)) : reads - 1,
                 worked = ledger ? more(s, PART(work)) : work - 1;

    if (storage > worked && storage > 0)
        return data_explains(s, reads) ? say_data(s, larger(s)) : say_disk(s);
    if (worked > 0 && data_explains(s, work))
        return say_data(s, larger(s));
    if (say_cores(s))
        return STK_STRAGGLING_CORES;
    if (worked > 0 && work >= LONGER) {
        snprintf(s->text, s->size,
                 "Its cores: a worker takes %s for a sample, at the others %s, of as many bytes.",
                 stk__rank_seconds(mine, own(s, PART(prepare))),
                 stk__rank_seconds(theirs, others(s, PART(prepare))));
        return STK_STRAGGLING_CORES;
    }
    snprintf(s->text, s->size,
             ledger
                 ? "It waits for its data, and nothing that its log knows of differs: what reads "
                   "and samples take, their size, its cores."
                 : "It waits for its data; why, its log does not say: record a ledger, reads and "
                   "samples (--log).");
    return STK_STRAGGLING_UNKNOWN;
}

/* Its step is longer, collectives left out. */
static stk_straggling cause_of_step(const sight *s)
{
    char mine[32], theirs[32];

    if (data_explains(s, times(s, PART(step))))
        return say_data(s, larger(s));
    if (say_cores(s))
        return STK_STRAGGLING_CORES;
    snprintf(s->text, s->size,
             "Its step itself: it takes %s without collectives, the others' %s, with as much data "
             "and as many cores. Look at its accelerator: clock, temperature, other programs.",
             stk__rank_seconds(mine, own(s, PART(step))),
             stk__rank_seconds(theirs, others(s, PART(step))));
    return STK_STRAGGLING_STEP;
}

stk_straggling stk__rank_cause(const stk__rank_parts *all, uint64_t n, uint64_t who,
                               double *scratch, char *text, size_t size)
{
    const sight s = {
        .all = all, .n = n, .who = who, .scratch = scratch, .text = text, .size = size};

    return more(&s, PART(wait)) >= more(&s, PART(step)) ? cause_of_wait(&s) : cause_of_step(&s);
}

const char *stk_straggling_name(stk_straggling cause)
{
    static const char *const names[] = {"none", "disk", "cores", "data", "step", "unknown"};

    return cause >= STK_STRAGGLING_NONE && cause < STK_STRAGGLING_UNKNOWN
               ? names[cause]
               : names[STK_STRAGGLING_UNKNOWN];
}
