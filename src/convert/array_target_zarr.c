/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zarr, version 2 or 3, in a local folder or one of another store. Objects are encoded here and
 * written through the target that conversions share (target.h): each has its name only when it is
 * whole and safe, a line of the journal only when it has its name. Metadata comes last.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/url.h"
#include "convert/encoders.h"
#include "convert/journal.h"
#include "convert/zarr_clear.h"
#include "convert/zarr_documents.h"
#include "dataset/dataset.h"

#define CHECKPOINT_NS UINT64_C(10000000000) /* between checkpoints */

/* An object that is written and waits for its name. */
typedef struct waiting {
    uint64_t node, number, size;
    uint64_t part; /* what the target calls it until then */
} waiting;

/* What is known of an array. */
typedef struct zarr_array {
    unsigned char *done; /* a bit for each object of the grid */
    uint64_t objects;
} zarr_array;

typedef struct zarr_target {
    stk__array_target base;
    stk__zarr_documents documents;
    uint64_t part, parts;
    zarr_array *arrays; /* one for each node; zeros of groups */
    stk__target *files;
    stk__journal journal;
    bool ended; /* the journal says that all of this part is done */
    stk__encoders *encoders;
    atomic_uint_fast64_t next;  /* number of a file of the target */
    atomic_uint_fast64_t bytes; /* of objects that are there */
    uint64_t checked_ns;
    pthread_mutex_t lock; /* guards what follows */
    waiting *waiting;
    size_t num_waiting, room_waiting;
} zarr_target;

static zarr_target *of(stk__array_target *target)
{
    return (zarr_target *)target;
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write Zarr");
}

static stk_status make_arrays(zarr_target *t, stk_error *err)
{
    stk_context *ctx = t->base.job->context;

    STK_TRY(stk__zarr_documents_init(&t->documents, err));
    t->arrays = stk__calloc(ctx, t->documents.num_nodes, sizeof *t->arrays);
    if (!t->arrays)
        return no_memory(err);
    for (size_t i = 0; i < t->documents.num_nodes; i++) {
        const stk_array_writer *writer = t->documents.writers[i];
        if (!writer)
            continue;
        t->arrays[i].objects = stk_array_get_info(stk__array_writer_array(writer))->num_objects;
        t->arrays[i].done = stk__calloc(ctx, t->arrays[i].objects / 8 + 1, 1);
        if (!t->arrays[i].done)
            return no_memory(err);
    }
    return STK_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool verifies(const zarr_target *t)
{
    return t->base.job->options->verify == STK_VERIFY_FULL;
}

static stk_status note(zarr_target *t, const waiting *w, stk_error *err)
{
    pthread_mutex_lock(&t->lock);
    waiting *grown = stk__grow(t->base.job->context, t->waiting, &t->room_waiting,
                               t->num_waiting + 1, sizeof *grown);
    if (grown) {
        t->waiting = grown;
        grown[t->num_waiting++] = *w;
    }
    pthread_mutex_unlock(&t->lock);
    return grown ? STK_OK : no_memory(err);
}

/* A document gets its name by name_documents(), after all that are written before. */
static stk_status put_document(void *user, const char *name, const json_t *value, stk_error *err)
{
    zarr_target *t = user;
    stk_context *ctx = t->base.job->context;
    const uint64_t number = atomic_fetch_add(&t->next, 1);
    char *text = stk__json_text(ctx, value, true);

    if (!text)
        return no_memory(err);
    const stk_status status =
        stk__target_write(t->files, number, name, text, strlen(text), verifies(t), err);
    stk__free(ctx, text);
    return status;
}

static stk_status object_name(const zarr_target *t, uint64_t node, uint64_t number,
                              char out[STK_MAX_OBJECT_KEY], stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    stk__array_key(stk__array_writer_array(t->documents.writers[node]), number, key, sizeof key);
    return stk__zarr_below(t->documents.nodes[node].path, key, out, err);
}

static void mark(zarr_target *t, uint64_t node, uint64_t number)
{
    t->arrays[node].done[number / 8] |= (unsigned char)(1 << (number % 8));
}

/* ---- Journal --------------------------------------------------------------------------------- */

/* What decides nothing of what is written. */
static const char *const no_matter[] = {"temp_dir", "part", "join", NULL};

typedef struct hashing {
    stk_context *context;
    uint64_t hash;
} hashing;

static stk_status hash_document(void *user, const char *name, const json_t *value, stk_error *err)
{
    hashing *h = user;
    char *text = stk__json_text(h->context, value, false);

    if (!text)
        return no_memory(err);
    h->hash = stk__fingerprint(h->hash, name, strlen(name));
    h->hash = stk__fingerprint(h->hash, text, strlen(text));
    stk__free(h->context, text);
    return STK_OK;
}

static stk_status head_of(zarr_target *t, stk__journal_head *out, stk_error *err)
{
    const stk_conversion_job *job = t->base.job;
    hashing h = {job->context, t->parts};

    STK_TRY(stk__zarr_documents_each(&t->documents, true, hash_document, &h, err));
    *out = (stk__journal_head){.kind = "arrays",
                               .source = stk__convert_source(job),
                               .table = &stk__convert_arrays_option_table,
                               .options = job->own,
                               .skips = no_matter,
                               .plan = h.hash ? h.hash : 1,
                               .other = t->documents.nodes[0].other};
    return STK_OK;
}

static stk_status take_object(void *user, uint64_t node, uint64_t number, uint64_t size,
                              stk_error *err)
{
    zarr_target *t = user;
    char name[STK_MAX_OBJECT_KEY];

    if (node >= t->documents.num_nodes || !t->documents.nodes[node].is_array ||
        number >= t->arrays[node].objects)
        return STK_OK; /* of other arrays, which the head tells */
    STK_TRY(object_name(t, node, number, name, err));
    /* What was removed since is done again. */
    if (size && !stk__target_has(t->files, name, size))
        return STK_OK;
    mark(t, node, number);
    atomic_fetch_add(&t->bytes, size);
    const waiting w = {.node = node, .number = number, .size = size};
    return note(t, &w, err);
}

static void take_end(void *user)
{
    zarr_target *t = user;

    t->ended = true;
}

static void forget(zarr_target *t)
{
    t->num_waiting = 0;
    t->ended = false;
    atomic_store(&t->bytes, 0);
    for (size_t i = 0; i < t->documents.num_nodes; i++)
        if (t->arrays[i].done)
            memset(t->arrays[i].done, 0, t->arrays[i].objects / 8 + 1);
}

/* Read what is there, and begin the journal anew, without what no longer counts. */
static stk_status resume(zarr_target *t, stk_error *err)
{
    const stk__journal_lines lines = {.object = take_object, .end = take_end, .user = t};
    stk__journal_head head;
    bool fresh;

    STK_TRY(head_of(t, &head, err));
    STK_TRY(stk__journal_read(t->base.job, &t->journal, &head, &lines, &fresh, err));
    /* One that came to its end is done anew, one that was stopped goes on. */
    if (t->base.job->options->overwrite && (fresh || t->ended || !t->files->has_journal)) {
        forget(t);
        STK_TRY(stk__zarr_clear(t->base.job->context, t->base.job->target, err));
    }
    STK_TRY(stk__journal_begin(&t->journal, &head, err));
    for (size_t i = 0; i < t->num_waiting; i++)
        STK_TRY(stk__journal_object(&t->journal, t->waiting[i].node, t->waiting[i].number,
                                    t->waiting[i].size, err));
    t->num_waiting = 0;
    return stk__journal_commit(&t->journal, err);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static stk_status name_one(zarr_target *t, const waiting *w, stk_error *err)
{
    char name[STK_MAX_OBJECT_KEY];

    if (w->size) {
        STK_TRY(object_name(t, w->node, w->number, name, err));
        STK_TRY(stk__target_name(t->files, w->part, name, err));
    }
    return stk__journal_object(&t->journal, w->node, w->number, w->size, err);
}

static void take_waiting(zarr_target *t, waiting **out, size_t *count)
{
    pthread_mutex_lock(&t->lock);
    *out = t->waiting;
    *count = t->num_waiting;
    t->waiting = NULL;
    t->num_waiting = t->room_waiting = 0;
    pthread_mutex_unlock(&t->lock);
}

/* Bytes are safe before they have a name. A name that a power cut takes is missed when the line of
 * it is read, as nothing else can have it: what was there before was removed for good. */
static stk_status commit(zarr_target *t, stk_error *err)
{
    waiting *list;
    size_t count, named = 0;

    take_waiting(t, &list, &count);
    stk_status status = count ? t->files->ops->sync(t->files, err) : STK_OK;
    while (status == STK_OK && named < count) {
        status = name_one(t, &list[named], err);
        named += status == STK_OK;
    }
    for (size_t i = named; i < count; i++)
        if (list[i].size)
            t->files->ops->drop(t->files, list[i].part);
    stk__free(t->base.job->context, list);
    if (named) {
        const stk_status noted = stk__journal_sync(&t->journal, status == STK_OK ? err : NULL);
        status = status == STK_OK ? noted : status;
    }
    t->checked_ns = stk__now_ns();
    return status;
}

static stk_status zarr_checkpoint(stk__array_target *target, stk_error *err)
{
    zarr_target *t = of(target);

    pthread_mutex_lock(&t->lock);
    const size_t count = t->num_waiting;
    pthread_mutex_unlock(&t->lock);
    if (!count ||
        (count < target->job->options->checkpoint && stk__now_ns() - t->checked_ns < CHECKPOINT_NS))
        return STK_OK;
    return commit(t, err);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static stk_status zarr_write(stk__array_target *target, uint32_t member, size_t node,
                             const stk__target_box *box, stk_error *err)
{
    zarr_target *t = of(target);
    char name[STK_MAX_OBJECT_KEY];
    const void *blob;
    waiting w = {.node = node, .number = box->number};

    STK_TRY(stk__encoders_run(t->encoders, member, t->documents.writers[node], box, verifies(t),
                              &blob, &w.size, err));
    atomic_fetch_add(&t->bytes, w.size);
    if (w.size) {
        STK_TRY(object_name(t, node, box->number, name, err));
        w.part = atomic_fetch_add(&t->next, 1);
        STK_TRY(stk__target_write(t->files, w.part, name, blob, w.size, verifies(t), err));
    }
    return note(t, &w, err);
}

static bool zarr_has_object(const stk__array_target *target, size_t node, uint64_t number)
{
    const zarr_array *a = &((const zarr_target *)target)->arrays[node];

    return a->done[number / 8] >> (number % 8) & 1;
}

static stk_status zarr_read(const stk__array_target *target, size_t node, const stk_array_box *box,
                            void *data, uint64_t bytes, stk_error *err)
{
    const zarr_target *t = (const zarr_target *)target;
    stk_context *ctx = target->job->context;
    stk_array *array = NULL;

    char *url = stk__url_below(ctx, target->job->target, t->documents.nodes[node].path);
    if (!url)
        return no_memory(err);
    stk_status status = stk__array_writer_open(t->documents.writers[node], url, &array, err);
    if (status == STK_OK)
        status = stk_array_read(array, box, data, bytes, NULL, -1, err);
    stk_array_close(&array);
    stk__free(ctx, url);
    return status;
}

static uint64_t zarr_bytes(const stk__array_target *target)
{
    return atomic_load(&((const zarr_target *)target)->bytes);
}

static uint64_t zarr_memory(const stk__array_target *target, size_t node)
{
    const zarr_target *t = (const zarr_target *)target;

    return stk__encoder_memory(t->documents.writers[node]);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Documents that were written one after the other. */
typedef struct naming {
    zarr_target *target;
    uint64_t number;
} naming;

static stk_status name_document(void *user, const char *name, const json_t *value, stk_error *err)
{
    naming *n = user;

    (void)value;
    return stk__target_name(n->target->files, n->number++, name, err);
}

static stk_status sync(zarr_target *t, stk_error *err)
{
    return t->files->ops->sync(t->files, err);
}

static stk_status put_root(zarr_target *t, stk_error *err)
{
    const char *name = stk__zarr_documents_root_name(&t->documents);
    naming n = {t, atomic_load(&t->next)};
    json_t *root = NULL;

    stk_status status = stk__zarr_documents_root(&t->documents, &root, err);
    if (status == STK_OK)
        status = put_document(t, name, root, err);
    if (status == STK_OK)
        status = sync(t, err);
    if (status == STK_OK)
        status = name_document(&n, name, root, err);
    json_decref(root);
    return status == STK_OK ? sync(t, err) : status;
}

/* What the root tells of is there before it. */
static stk_status put_metadata(zarr_target *t, stk_error *err)
{
    const stk__zarr_documents *d = &t->documents;
    const bool alone = d->nodes[0].is_array;
    naming n = {t, atomic_load(&t->next)};

    STK_TRY(stk__zarr_documents_each(d, alone || d->v2, put_document, t, err));
    STK_TRY(sync(t, err));
    STK_TRY(stk__zarr_documents_each(d, alone || d->v2, name_document, &n, err));
    return alone ? sync(t, err) : put_root(t, err);
}

/* A journal of its own for each part, all of which have to say that they are at their end. */
static stk_status check_parts(zarr_target *t, stk_error *err)
{
    const stk_conversion_job *job = t->base.job;
    const stk__journal_lines lines = {.object = take_object, .end = take_end, .user = t};
    char name[STK__TARGET_NAME];
    stk__journal_head head;
    bool fresh;

    STK_TRY(head_of(t, &head, err));
    for (uint64_t k = 1; k <= t->parts; k++) {
        stk__journal journal;
        snprintf(name, sizeof name, STK__TARGET_PART "%" PRIu64 "-%" PRIu64, k, t->parts);
        t->ended = false;
        stk_status status = stk__journal_open(job, name, &journal, err);
        if (status == STK_OK)
            status = stk__journal_read(job, &journal, &head, &lines, &fresh, err);
        if (status == STK_OK && (fresh || !t->ended))
            status = stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                               "part %" PRIu64 " of %" PRIu64 " of %.200s is not done; run it with "
                               "part=%" PRIu64 "/%" PRIu64 " first",
                               k, t->parts, job->target, k, t->parts);
        stk__mirror_drop(&journal.mirror);
        STK_TRY(status);
    }
    t->num_waiting = 0;
    return STK_OK;
}

static stk_status zarr_finish(stk__array_target *target, stk_error *err)
{
    zarr_target *t = of(target);

    STK_TRY(commit(t, err));
    STK_TRY(t->part ? sync(t, err) : put_metadata(t, err));
    if (t->parts && !t->part)
        return STK_OK;
    STK_TRY(stk__journal_end(&t->journal, err));
    return stk__journal_sync(&t->journal, err);
}

static void zarr_close(stk__array_target *target)
{
    zarr_target *t = of(target);
    stk_context *ctx = target->job->context;

    /* What is written and not named goes with the parts of the target. */
    if (t->journal.mirror)
        stk__journal_close(&t->journal);
    stk__target_close(&t->files);
    stk__encoders_destroy(&t->encoders);
    for (size_t i = 0; t->arrays && i < t->documents.num_nodes; i++)
        stk__free(ctx, t->arrays[i].done);
    stk__zarr_documents_release(&t->documents);
    pthread_mutex_destroy(&t->lock);
    stk__free(ctx, t->waiting);
    stk__free(ctx, t->arrays);
    stk__free(ctx, t);
}

/* ---- The beginning --------------------------------------------------------------------------- */

static stk_status open_files(zarr_target *t, stk_error *err)
{
    const stk_conversion_job *job = t->base.job;
    char suffix[STK__TARGET_SUFFIX] = "";

    if (t->part)
        snprintf(suffix, sizeof suffix, "-of-%" PRIu64 "-%" PRIu64, t->part, t->parts);
    else if (t->parts)
        snprintf(suffix, sizeof suffix, "-join");
    if (t->parts && job->options->overwrite)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS,
            "convert.overwrite would remove what other parts have written; remove %.200s "
            "yourself, before the first part begins",
            job->target);
    STK_TRY(stk__target_open(job, suffix, &t->files, err));
    STK_TRY(t->files->ops->begin(t->files, err));
    if (t->parts && !t->part)
        return check_parts(t, err);
    STK_TRY(stk__journal_open(job, t->files->journal, &t->journal, err));
    return resume(t, err);
}

static stk_status open_target(zarr_target *t, const stk__target_part *part, uint32_t members,
                              stk_error *err)
{

    t->part = part->number;
    t->parts = part->count;
    t->journal.fd = -1;
    t->checked_ns = stk__now_ns();
    pthread_mutex_init(&t->lock, NULL);
    STK_TRY(stk__encoders_create(t->base.job->context, members, &t->encoders, err));
    STK_TRY(make_arrays(t, err));
    return t->base.job->options->dry_run ? STK_OK : open_files(t, err);
}

static stk_status open_version(const stk_conversion_job *job, const stk__target_node *nodes,
                               size_t num_nodes, const stk__target_part *part, uint32_t members,
                               bool v2, stk__array_target **out, stk_error *err)
{
    const stk_convert_arrays_options *own = job->own;

    *out = NULL;
    if (own->unlimited && *own->unlimited)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS,
            "arrays.unlimited is of NetCDF-4; all arrays of Zarr can grow: leave it out");
    zarr_target *t = stk__calloc(job->context, 1, sizeof *t);
    if (!t)
        return no_memory(err);
    t->base = (stk__array_target){.ops = v2 ? &stk__array_target_zarr2 : &stk__array_target_zarr,
                                  .job = job};
    t->documents = (stk__zarr_documents){
        .context = job->context, .own = job->own, .nodes = nodes, .num_nodes = num_nodes, .v2 = v2};
    const stk_status status = open_target(t, part, members, err);
    if (status == STK_OK)
        *out = &t->base;
    else
        zarr_close(&t->base);
    return status;
}

static stk_status zarr_open(const stk_conversion_job *job, const stk__target_node *nodes,
                            size_t num_nodes, const stk__target_part *part, uint32_t members,
                            stk__array_target **out, stk_error *err)
{
    const stk_convert_arrays_options *own = job->own;

    return open_version(job, nodes, num_nodes, part, members, own->zarr_format == 1, out, err);
}

static stk_status zarr2_open(const stk_conversion_job *job, const stk__target_node *nodes,
                             size_t num_nodes, const stk__target_part *part, uint32_t members,
                             stk__array_target **out, stk_error *err)
{
    const stk_convert_arrays_options *own = job->own;

    if (own->zarr_format == 2)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS,
            "arrays.zarr_format is 3, and the target is zarr2:; leave one of them out");
    return open_version(job, nodes, num_nodes, part, members, true, out, err);
}

#define ZARR(open_of_version)                                                                      \
    {                                                                                              \
        .name = "Zarr", .resumes = true, .has_shards = true, .open = open_of_version,              \
        .has_object = zarr_has_object, .read = zarr_read, .memory = zarr_memory,                   \
        .write = zarr_write, .checkpoint = zarr_checkpoint, .finish = zarr_finish,                 \
        .bytes = zarr_bytes, .close = zarr_close                                                   \
    }

const stk__array_target_ops stk__array_target_zarr = ZARR(zarr_open);
const stk__array_target_ops stk__array_target_zarr2 = ZARR(zarr2_open);
