/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of a plan: slabs are read, by all threads within one read; then their objects are
 * written, by all threads again. Where elements go through the temporary file, all of it is written
 * before the first slab of the target is read from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/url.h"
#include "convert/arrays.h"
#include "convert/target.h"

#define TEMP_FOLDER "/var/tmp" /* where the target is no local folder; /tmp is often memory */

/* Memory of a thread. */
typedef struct member {
    char *from, *to;     /* elements of an object, where they change */
    char *bounce, *wide; /* of the temporary file; `wide` as the source has them */
    stk__arrays_loss loss;
} member;

typedef struct copying {
    stk__arrays *run;
    stk__arrays_array *a;
    const stk__target_node *node;
    const stk__rechunk_plan *plan;
    member *members;
    uint32_t num_members;
    char *slab;
    stk_array_texts *texts;      /* that the slab points to, where elements vary in length */
    int temp;                    /* -1: none */
    unsigned char *skip;         /* a bit for each write slab: it is complete */
    atomic_uint_fast64_t passed; /* bytes, for the progress */
    /* Of the step that runs: */
    stk__rechunk_box box; /* of the slab */
    uint64_t number;
    uint64_t item; /* bytes of an element in it */
    int64_t strides[STK_ARRAY_MAX_RANK];
} copying;

static bool is_skipped(const copying *c, uint64_t w)
{
    return c->skip[w / 8] >> (w % 8) & 1;
}

/* ---- What runs beside ------------------------------------------------------------------------ */

static stk_status watch(void *user, stk_error *err)
{
    copying *c = user;
    stk__arrays *run = c->run;

    stk__progress(run->context, run->job->target, run->done + atomic_load(&c->passed), run->total);
    if (run->job->canceled(run->job)) {
        stk_array_cancel(c->a->array);
        return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                         "the conversion to %.200s was stopped%s", run->job->target,
                         run->ops->resumes ? "; run the same again to go on" : "");
    }
    return run->ops->checkpoint ? run->ops->checkpoint(run->target, err) : STK_OK;
}

static stk_status for_all(copying *c, uint64_t count, stk__crew_fn *task, stk_error *err)
{
    return stk__crew_run(c->run->crew, c->num_members, count, task, watch, c, err);
}

static void set_slab(copying *c, const stk__rechunk_box *box, uint64_t number, uint64_t item)
{
    c->box = *box;
    c->number = number;
    c->item = item;
    stk__array_strides(c->plan->of.rank, box->shape, item, c->strides);
}

/* Byte of the slab at which a box within it begins. */
static uint64_t offset_of(const copying *c, const int64_t *start)
{
    uint64_t at = 0;

    for (uint32_t d = 0; d < c->plan->of.rank; d++)
        at += (uint64_t)(start[d] - c->box.start[d]) * (uint64_t)c->strides[d];
    return at;
}

/* ---- Reading the source ---- */

static stk_status read_task(void *user, uint32_t number, uint64_t task, stk_error *err)
{
    copying *c = user;
    const stk_array_box box = {.start = c->box.start, .shape = c->box.shape};

    (void)number, (void)task;
    if (c->node->varies)
        return stk__arrays_texts_read(c->run, c->a, &box, (stk_array_string *)(void *)c->slab,
                                      &c->texts, err);
    return stk_array_read(c->a->array, &box, c->slab,
                          stk__rechunk_elements(c->plan, &c->box) * c->item, NULL, -1, err);
}

/* One thread begins the read, which has threads of its own, so that the caller's can end it. */
static stk_status read_source(copying *c, stk_error *err)
{
    STK_TRY(for_all(c, 1, read_task, err));
    atomic_fetch_add(&c->passed, stk__rechunk_elements(c->plan, &c->box) * c->item / 2);
    return STK_OK;
}

/* ---- Writing objects ---- */

/* Elements of an object as the target has them, of their own memory. */
static stk_status change(copying *c, member *m, const stk__rechunk_box *box, int64_t *strides,
                         stk_error *err)
{
    const uint32_t rank = c->plan->of.rank;
    const uint64_t n = stk__rechunk_elements(c->plan, box);
    int64_t packed[STK_ARRAY_MAX_RANK];

    stk__array_strides(rank, box->shape, c->item, packed);
    stk__copy_strided(rank, c->item, box->shape, c->slab + offset_of(c, box->start), c->strides,
                      m->from, packed);
    stk__array_strides(rank, box->shape, c->node->itemsize, strides);
    return stk__arrays_values_convert(&c->a->values, m->from, m->to, n, &m->loss, err);
}

static bool has_object(const copying *c, uint64_t number)
{
    const stk__array_target_ops *ops = c->run->ops;

    return ops->has_object && ops->has_object(c->run->target, c->a->node, number);
}

static stk_status object_task(void *user, uint32_t number, uint64_t task, stk_error *err)
{
    copying *c = user;
    member *m = &c->members[number];
    const bool changes = !stk__arrays_values_same(&c->a->values) && c->temp < 0;
    int64_t strides[STK_ARRAY_MAX_RANK];
    stk__rechunk_box box;

    stk__target_box out = {.start = box.start, .shape = box.shape, .strides = c->strides};
    stk__rechunk_object(c->plan, &c->box, task, c->node->shape, &box, &out.number);
    const uint64_t n = stk__rechunk_elements(c->plan, &box);
    if (has_object(c, out.number)) {
        atomic_fetch_add(&c->passed, n * c->item / 2);
        return STK_OK;
    }
    out.data = c->slab + offset_of(c, box.start);
    if (changes) {
        STK_TRY(change(c, m, &box, strides, err));
        out.data = m->to;
        out.strides = strides;
    }
    STK_TRY(c->run->ops->write(c->run->target, number, c->a->node, &out, err));
    atomic_fetch_add(&c->passed, n * c->item / 2);
    return STK_OK;
}

static stk_status write_slab(copying *c, stk_error *err)
{
    return for_all(c, stk__rechunk_objects(c->plan, &c->box), object_task, err);
}

/* ---- One pass ---- */

static stk_status copy_direct(copying *c, stk_error *err)
{
    stk__rechunk_box box;

    for (uint64_t w = 0; w < c->plan->num_writes; w++) {
        if (is_skipped(c, w))
            continue;
        stk__rechunk_write_slab(c->plan, w, &box);
        set_slab(c, &box, w, stk__arrays_values_from_size(&c->a->values));
        STK_TRY(read_source(c, err));
        STK_TRY(write_slab(c, err));
    }
    return STK_OK;
}

/* ---- Through the temporary file ---- */

static stk_status fail_temp(const copying *c, const char *verb, stk_error *err)
{
    const char *folder = c->run->own->temp_dir;

    return stk__fail(err, errno == EDQUOT ? STK_ENOSPC : stk__status_of_errno(errno),
                     STK_STAGE_CONVERT,
                     "could not %s a temporary file of %llu bytes in %.200s: %s%s", verb,
                     (unsigned long long)c->plan->temp_bytes,
                     folder ? folder : "the target's folder or " TEMP_FOLDER, strerror(errno),
                     errno == ENOSPC ? "; choose another folder with temp_dir, or raise "
                                       "memory_budget, which makes it smaller or needless"
                                     : "");
}

/* An unnamed file, of which nothing stays however the process ends. */
static stk_status open_temp(copying *c, stk_error *err)
{
    char target[PATH_MAX];
    const char *folder = c->run->own->temp_dir;

    if (!folder || !*folder)
        folder = stk__convert_folder(c->run->context, c->run->job->target, target) ? target
                                                                                   : TEMP_FOLDER;
    c->temp = stk__unnamed_open(folder);
    if (c->temp < 0)
        return fail_temp(c, "make", err);
    const int error = posix_fallocate(c->temp, 0, (off_t)STK_MAX(c->plan->temp_bytes, 1));
    if (error == 0 || error == EOPNOTSUPP || error == EINVAL)
        return STK_OK;
    errno = error;
    return fail_temp(c, "set space aside for", err);
}

static stk_status write_temp(const copying *c, const char *data, uint64_t bytes, uint64_t at,
                             stk_error *err)
{
    errno = stk__unnamed_write(c->temp, data, bytes, at);
    return errno ? fail_temp(c, "write to", err) : STK_OK;
}

static stk_status read_temp(const copying *c, char *data, uint64_t bytes, uint64_t at,
                            stk_error *err)
{
    errno = stk__unnamed_read(c->temp, data, bytes, at);
    return errno ? fail_temp(c, "read", err) : STK_OK;
}

/* The next part of a piece, in C order, of at most `most` elements: *at counts those before. False:
 * there is none. */
static bool next_part(const stk__rechunk_plan *plan, const stk__rechunk_box *piece, uint64_t most,
                      uint64_t *at, stk__rechunk_box *out)
{
    uint64_t left = *at, behind = 1;
    uint32_t cut = plan->of.rank;

    if (*at >= stk__rechunk_elements(plan, piece))
        return false;
    /* Whole dimensions as long as they fit, then as much of the next one. */
    while (cut > 0 && behind * (uint64_t)piece->shape[cut - 1] <= most)
        behind *= (uint64_t)piece->shape[--cut];
    *out = *piece;
    left /= behind;
    for (uint32_t d = cut; d-- > 0;) {
        const uint64_t place = left % (uint64_t)piece->shape[d];
        out->start[d] += (int64_t)place;
        out->shape[d] = 1;
        left /= (uint64_t)piece->shape[d];
        if (d + 1 == cut)
            out->shape[d] =
                (int64_t)STK_MIN(STK_MAX(most / behind, 1), (uint64_t)piece->shape[d] - place);
    }
    *at += stk__rechunk_elements(plan, out);
    return true;
}

/* Elements that pass through a thread's memory at a time. */
static uint64_t pass_elements(const copying *c)
{
    return STK_MAX(STK__ARRAYS_BOUNCE /
                       STK_MAX(stk__arrays_values_from_size(&c->a->values), c->node->itemsize),
                   1);
}

static stk_status piece_out(copying *c, member *m, const stk__rechunk_box *piece, uint64_t to,
                            stk_error *err)
{
    const uint32_t rank = c->plan->of.rank;
    const bool same = stk__arrays_values_same(&c->a->values);
    int64_t packed[STK_ARRAY_MAX_RANK];
    stk__rechunk_box part;
    uint64_t at = 0;

    while (next_part(c->plan, piece, pass_elements(c), &at, &part)) {
        const uint64_t n = stk__rechunk_elements(c->plan, &part);
        stk__array_strides(rank, part.shape, c->item, packed);
        stk__copy_strided(rank, c->item, part.shape, c->slab + offset_of(c, part.start), c->strides,
                          same ? m->bounce : m->wide, packed);
        if (!same)
            STK_TRY(
                stk__arrays_values_convert(&c->a->values, m->wide, m->bounce, n, &m->loss, err));
        STK_TRY(write_temp(c, m->bounce, n * c->node->itemsize, to + (at - n) * c->node->itemsize,
                           err));
    }
    return STK_OK;
}

static stk_status out_task(void *user, uint32_t number, uint64_t task, stk_error *err)
{
    copying *c = user;
    stk__rechunk_box piece;
    uint64_t offset;

    const uint64_t w = stk__rechunk_met_at(c->plan, true, &c->box, task);
    if (is_skipped(c, w))
        return STK_OK;
    stk__rechunk_piece(c->plan, c->number, w, &piece, &offset);
    return piece_out(c, &c->members[number], &piece, offset, err);
}

static stk_status in_task(void *user, uint32_t number, uint64_t task, stk_error *err)
{
    copying *c = user;
    member *m = &c->members[number];
    const uint32_t rank = c->plan->of.rank;
    int64_t packed[STK_ARRAY_MAX_RANK];
    stk__rechunk_box piece, part;
    uint64_t offset, at = 0;

    const uint64_t r = stk__rechunk_met_at(c->plan, false, &c->box, task);
    stk__rechunk_piece(c->plan, r, c->number, &piece, &offset);
    while (next_part(c->plan, &piece, pass_elements(c), &at, &part)) {
        const uint64_t n = stk__rechunk_elements(c->plan, &part);
        STK_TRY(read_temp(c, m->bounce, n * c->item, offset + (at - n) * c->item, err));
        stk__array_strides(rank, part.shape, c->item, packed);
        stk__copy_strided(rank, c->item, part.shape, m->bounce, packed,
                          c->slab + offset_of(c, part.start), c->strides);
    }
    return STK_OK;
}

/* Whether any write slab wants something of this read slab. */
static bool is_wanted(const copying *c, const stk__rechunk_box *box)
{
    const uint64_t n = stk__rechunk_met(c->plan, true, box);

    for (uint64_t k = 0; k < n; k++)
        if (!is_skipped(c, stk__rechunk_met_at(c->plan, true, box, k)))
            return true;
    return false;
}

static stk_status copy_through(copying *c, stk_error *err)
{
    stk__rechunk_box box;

    STK_TRY(open_temp(c, err));
    for (uint64_t r = 0; r < c->plan->num_reads; r++) {
        stk__rechunk_read_slab(c->plan, r, &box);
        if (!is_wanted(c, &box))
            continue;
        set_slab(c, &box, r, stk__arrays_values_from_size(&c->a->values));
        STK_TRY(read_source(c, err));
        STK_TRY(for_all(c, stk__rechunk_met(c->plan, true, &box), out_task, err));
    }
    for (uint64_t w = 0; w < c->plan->num_writes; w++) {
        if (is_skipped(c, w))
            continue;
        stk__rechunk_write_slab(c->plan, w, &box);
        set_slab(c, &box, w, c->node->itemsize);
        STK_TRY(for_all(c, stk__rechunk_met(c->plan, false, &box), in_task, err));
        STK_TRY(write_slab(c, err));
    }
    return STK_OK;
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

/* Find the write slabs whose objects are all there. */
static void find_done(copying *c)
{
    stk_conversion_report *report = c->run->report;
    stk__rechunk_box box, object;
    uint64_t number;

    for (uint64_t w = 0; w < c->plan->num_writes; w++) {
        stk__rechunk_write_slab(c->plan, w, &box);
        const uint64_t n = stk__rechunk_objects(c->plan, &box);
        uint64_t have = 0;
        for (uint64_t k = 0; k < n; k++) {
            stk__rechunk_object(c->plan, &box, k, c->node->shape, &object, &number);
            have += has_object(c, number);
        }
        report->resumed += have;
        report->verified += c->run->options->verify == STK_VERIFY_FULL ? n - have : 0;
        if (have == n) {
            c->skip[w / 8] |= (unsigned char)(1 << (w % 8));
            atomic_fetch_add(&c->passed, stk__rechunk_elements(c->plan, &box) *
                                             stk__arrays_values_from_size(&c->a->values));
        }
    }
}

static stk_status take_memory(copying *c, stk_error *err)
{
    stk_context *ctx = c->run->context;
    const uint64_t from = stk__arrays_values_from_size(&c->a->values);
    const bool same = stk__arrays_values_same(&c->a->values);
    const uint64_t elements = stk__arrays_object_elements(c->node);
    bool good = true;

    c->skip = stk__calloc(ctx, c->plan->num_writes / 8 + 1, 1);
    c->members = stk__calloc(ctx, c->num_members, sizeof *c->members);
    c->slab = stk__alloc_buffer(ctx, c->plan->slab_bytes);
    for (uint32_t i = 0; c->members && i < c->num_members; i++) {
        member *m = &c->members[i];
        if (c->plan->direct && !same)
            good = good && (m->from = stk__alloc_buffer(ctx, elements * from)) &&
                   (m->to = stk__alloc_buffer(ctx, elements * c->node->itemsize));
        if (!c->plan->direct)
            good = good && (m->bounce = stk__alloc_buffer(
                                ctx, pass_elements(c) * STK_MAX(from, c->node->itemsize)));
        if (!c->plan->direct && !same)
            good = good && (m->wide = stk__alloc_buffer(ctx, pass_elements(c) * from));
    }
    if (good && c->skip && c->members && c->slab)
        return STK_OK;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory for %llu bytes of an array; set a smaller memory_budget",
                     (unsigned long long)c->plan->slab_bytes);
}

static void give_memory(copying *c)
{
    stk_context *ctx = c->run->context;

    for (uint32_t i = 0; c->members && i < c->num_members; i++) {
        member *m = &c->members[i];
        c->run->loss.worst = STK_MAX(c->run->loss.worst, m->loss.worst);
        c->run->loss.overflowed += m->loss.overflowed;
        stk__free(ctx, m->from);
        stk__free(ctx, m->to);
        stk__free(ctx, m->bounce);
        stk__free(ctx, m->wide);
    }
    stk_array_texts_destroy(&c->texts);
    stk__free(ctx, c->slab);
    stk__free(ctx, c->members);
    stk__free(ctx, c->skip);
}

stk_status stk__arrays_copy(stk__arrays *run, stk__arrays_array *a, stk_error *err)
{
    copying c = {.run = run,
                 .a = a,
                 .node = &run->nodes[a->node],
                 .plan = &a->plan,
                 .num_members = (uint32_t)a->members,
                 .temp = -1};

    if (a->nothing)
        return STK_OK;
    stk_status status = take_memory(&c, err);
    if (status == STK_OK) {
        find_done(&c);
        status = a->plan.direct ? copy_direct(&c, err) : copy_through(&c, err);
    }
    run->done += atomic_load(&c.passed);
    if (c.temp >= 0)
        close(c.temp);
    give_memory(&c);
    return status;
}
