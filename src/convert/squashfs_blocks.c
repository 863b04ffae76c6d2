/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of files: read and encoded by all threads, written in the order of the files by
 * whichever thread has the piece that is next. A piece is a run of small files, or of blocks of one
 * file; how far pieces may be ahead is bounded by the number of places for what they become.
 */
#include <inttypes.h>
#include <stdio.h>
#define XXH_STATIC_LINKING_ONLY /* states */
#include <xxhash.h>

#include "convert/squashfs.h"
#include "convert/target.h"

#define PIECE       (UINT64_C(256) << 10) /* bytes of a piece, where a block is no longer */
#define LEAST_SAVED 16                    /* a block is encoded where that saves a 16th */
#define SAMPLES     64                    /* pieces that an estimate looks at */

/* A piece of the work: whole files, or blocks of one file. */
typedef struct piece {
    uint32_t node, end; /* the files among the nodes [node, end) */
    uint64_t first;     /* block of the file */
    uint64_t blocks;    /* of the file; 0: whole files */
} piece;

/* What a piece became, until it is written. */
typedef struct place {
    uint8_t *bytes;
    bool ready;
} place;

typedef struct member {
    uint8_t *in, *check; /* bytes of a piece, and of a decoded block */
    stk__codec_state *state;
} member;

typedef struct packing {
    stk__squashfs_run *s;
    piece *pieces;
    size_t num_pieces, room_pieces;
    uint64_t most, room; /* bytes of a piece, of a place */
    uint32_t threads;
    member *members;
    place *places;
    uint64_t num_places;
    stk__squashfs_copies copies;
    XXH64_state_t hash; /* of the file that is written */
    atomic_uint_fast64_t read;
    bool estimates;       /* nothing is written */
    pthread_mutex_t lock; /* guards what follows, and `ready` */
    pthread_cond_t changed;
    uint64_t written; /* pieces */
    bool writes;      /* a thread does */
    stk_error failure;
} packing;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory to pack files; set a smaller block or fewer num_workers");
}

static uint64_t block_bytes(const stk__squashfs_run *s, const stk__squashfs_node *node,
                            uint64_t block)
{
    return STK_MIN(s->block, node->size - block * s->block);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static stk_status add_piece(packing *p, piece one, stk_error *err)
{
    piece *grown =
        stk__grow(p->s->context, p->pieces, &p->room_pieces, p->num_pieces + 1, sizeof *grown);
    if (!grown)
        return no_memory(err);
    p->pieces = grown;
    grown[p->num_pieces++] = one;
    return STK_OK;
}

/* A file that does not fit into one piece. */
static stk_status cut_file(packing *p, uint32_t node, stk_error *err)
{
    const uint64_t blocks = stk__squashfs_blocks(p->s, &p->s->tree.nodes[node]),
                   each = p->most / p->s->block;

    for (uint64_t at = 0; at < blocks; at += each)
        STK_TRY(add_piece(p, (piece){node, node + 1, at, STK_MIN(each, blocks - at)}, err));
    return STK_OK;
}

static stk_status make_pieces(packing *p, stk_error *err)
{
    const stk__squashfs_tree *tree = &p->s->tree;
    uint64_t bytes = 0;
    uint32_t from = 0;

    for (uint32_t i = 0; i < tree->count; i++) {
        const uint64_t size = tree->nodes[i].size;
        if (bytes && size > p->most - bytes) {
            STK_TRY(add_piece(p, (piece){from, i, 0, 0}, err));
            bytes = 0;
        }
        if (!bytes)
            from = i;
        if (size > p->most)
            STK_TRY(cut_file(p, i, err));
        else
            bytes += size;
    }
    return bytes ? add_piece(p, (piece){from, (uint32_t)tree->count, 0, 0}, err) : STK_OK;
}

static stk_status make_sizes(stk__squashfs_run *s, stk_error *err)
{
    uint64_t blocks = 0;

    for (size_t i = 0; i < s->tree.count; i++) {
        s->tree.nodes[i].first = blocks;
        if (!stk__add_size(blocks, stk__squashfs_blocks(s, &s->tree.nodes[i]), &blocks))
            return no_memory(err);
    }
    s->sizes = stk__calloc(s->context, blocks, sizeof *s->sizes);
    return s->sizes ? STK_OK : no_memory(err);
}

/* ---- Reading and encoding -------------------------------------------------------------------- */

static stk_status fail_changed(const char *path, stk_error *err)
{
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_CONVERT, path, STK_NO_OFFSET,
                        "'%.300s' changed while it was packed; run the same again when nothing "
                        "writes to the source",
                        path);
}

/* Whether a file is still the one that was listed. */
static stk_status check_same(packing *p, const stk__squashfs_node *node, const char *key,
                             stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_error own;

    const stk_status status = stk_store_stat(p->s->tree.store, key, NULL, &info, &own);
    if (status == STK_OK && !info.is_folder && info.size == node->size &&
        (!node->identity || info.identity == node->identity))
        return STK_OK;
    if (status == STK_OK || status == STK_ENOENT)
        return fail_changed(stk__squashfs_path(&p->s->tree, node), err);
    if (err)
        *err = own;
    return status;
}

static stk_status read_file(packing *p, const stk__squashfs_node *node, uint64_t at,
                            uint64_t length, bool last, void *out, stk_error *err)
{
    const stk__squashfs_tree *tree = &p->s->tree;
    char key[STK_MAX_OBJECT_KEY];
    stk_error own;

    STK_TRY(stk__key_below(tree->prefix, stk__squashfs_path(tree, node), key, err));
    const stk_status status = stk_store_read(tree->store, key, at, length, out, &own);
    if (status == STK_ETRUNCATED || status == STK_ENOENT)
        return fail_changed(stk__squashfs_path(tree, node), err);
    if (status != STK_OK && err)
        *err = own;
    STK_TRY(status);
    atomic_fetch_add_explicit(&p->read, length, memory_order_relaxed);
    return last ? check_same(p, node, key, err) : STK_OK;
}

static stk_status fail_block(const packing *p, const stk__squashfs_node *node, stk_status status,
                             const char *reason, stk_error *err)
{
    const char *path = stk__squashfs_path(&p->s->tree, node);

    return stk__fail_at(err, status, STK_STAGE_CONVERT, path, STK_NO_OFFSET, "%.300s: %s", path,
                        reason);
}

/* One block to `out`: *length bytes there, 0 of zeros, with STK__SQUASHFS_RAW where they are as
 * they were. */
static stk_status encode(const packing *p, member *m, const uint8_t *in, uint64_t size,
                         uint8_t *out, uint32_t *length, const char **reason)
{
    const stk__squashfs_run *s = p->s;
    uint64_t got = size, back = 0;
    bool promises = false;

    *length = 0;
    if (stk__all_zero(in, size))
        return STK_OK;
    if (s->encodes)
        STK_TRY(stk__block_promises(&s->kind, m->state, in, size, out, &promises, reason));
    if (promises)
        STK_TRY(stk__block_encode(&s->kind, m->state, in, size, out,
                                  stk__block_bound(&s->kind, size), &got, reason));
    if (got >= size || got > size - size / LEAST_SAVED) {
        memcpy(out, in, size);
        *length = (uint32_t)size | STK__SQUASHFS_RAW;
        return STK_OK;
    }
    *length = (uint32_t)got;
    if (!s->verify)
        return STK_OK;
    STK_TRY(stk__block_decode(s->kind.codec, m->state, out, got, m->check, size, &back, reason));
    *reason = "a block of it is not what it was after it was packed and unpacked; a defect in "
              "stoker, or of the memory of this machine";
    return back == size && memcmp(m->check, in, size) == 0 ? STK_OK : STK_EINTERNAL;
}

/* Blocks of one file, whose bytes are read at once. */
static stk_status pack_blocks(packing *p, member *m, const stk__squashfs_node *node, uint64_t first,
                              uint64_t blocks, uint8_t *out, uint64_t *used, stk_error *err)
{
    stk__squashfs_run *s = p->s;
    const uint64_t from = first * s->block, to = STK_MIN(from + blocks * s->block, node->size);
    const char *reason = "";

    STK_TRY(read_file(p, node, from, to - from, to == node->size, m->in, err));
    for (uint64_t i = first; i < first + blocks; i++) {
        uint32_t *length = &s->sizes[node->first + i];
        const stk_status status = encode(p, m, m->in + (i - first) * s->block,
                                         block_bytes(s, node, i), out + *used, length, &reason);
        if (status != STK_OK)
            return fail_block(p, node, status, reason, err);
        *used += *length & STK__SQUASHFS_STORED;
    }
    return STK_OK;
}

static stk_status pack_piece(packing *p, member *m, const piece *one, uint8_t *out, stk_error *err)
{
    uint64_t used = 0;

    if (one->blocks)
        return pack_blocks(p, m, &p->s->tree.nodes[one->node], one->first, one->blocks, out, &used,
                           err);
    for (uint32_t i = one->node; i < one->end; i++) {
        const stk__squashfs_node *node = &p->s->tree.nodes[i];
        if (node->size)
            STK_TRY(pack_blocks(p, m, node, 0, stk__squashfs_blocks(p->s, node), out, &used, err));
    }
    return STK_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static stk_status end_file(packing *p, uint32_t index, stk_error *err)
{
    stk__squashfs_run *s = p->s;
    stk__squashfs_node *node = &s->tree.nodes[index];

    node->hash = XXH64_digest(&p->hash);
    if (node->shrank)
        s->report->encoded++;
    else
        s->report->copied++;
    return node->stored ? stk__squashfs_copies_take(&p->copies, index, err) : STK_OK;
}

static stk_status write_blocks(packing *p, uint32_t index, uint64_t first, uint64_t blocks,
                               const uint8_t *bytes, uint64_t *used, stk_error *err)
{
    stk__squashfs_run *s = p->s;
    stk__squashfs_node *node = &s->tree.nodes[index];
    uint64_t length = 0;

    if (!first) {
        node->at = stk__squashfs_end(&s->file);
        XXH64_reset(&p->hash, 0);
    }
    for (uint64_t i = first; i < first + blocks; i++) {
        const uint32_t size = s->sizes[node->first + i];
        length += size & STK__SQUASHFS_STORED;
        node->shrank = node->shrank || (size && !(size & STK__SQUASHFS_RAW));
        node->sparse += size ? 0 : block_bytes(s, node, i);
    }
    XXH64_update(&p->hash, bytes + *used, length);
    STK_TRY(stk__squashfs_append(&s->file, bytes + *used, length, err));
    *used += length;
    node->stored += length;
    return first + blocks == stk__squashfs_blocks(s, node) ? end_file(p, index, err) : STK_OK;
}

static stk_status write_piece(packing *p, const piece *one, const uint8_t *bytes, stk_error *err)
{
    uint64_t used = 0;

    if (one->blocks)
        return write_blocks(p, one->node, one->first, one->blocks, bytes, &used, err);
    for (uint32_t i = one->node; i < one->end; i++)
        if (p->s->tree.nodes[i].size)
            STK_TRY(write_blocks(p, i, 0, stk__squashfs_blocks(p->s, &p->s->tree.nodes[i]), bytes,
                                 &used, err));
    return STK_OK;
}

static stk_status stop_locked(packing *p, stk_status status, const stk_error *err)
{
    if (p->failure.status == STK_OK) {
        p->failure = *err;
        p->failure.status = status;
    }
    pthread_cond_broadcast(&p->changed);
    return status;
}

/* Write what is next, and what follows that is ready, where no other thread does. */
static stk_status write_ready_locked(packing *p, stk_error *err)
{
    stk_status status = STK_OK;

    if (p->writes)
        return STK_OK;
    p->writes = true;
    while (status == STK_OK && p->failure.status == STK_OK && p->written < p->num_pieces) {
        place *next = &p->places[p->written % p->num_places];
        if (!next->ready)
            break;
        pthread_mutex_unlock(&p->lock);
        status = write_piece(p, &p->pieces[p->written], next->bytes, err);
        pthread_mutex_lock(&p->lock);
        next->ready = false;
        p->written++;
        pthread_cond_broadcast(&p->changed);
    }
    p->writes = false;
    return status;
}

static stk_status pack_one(void *user, uint32_t number, uint64_t task, stk_error *err)
{
    packing *p = user;
    place *mine = &p->places[task % p->num_places];

    pthread_mutex_lock(&p->lock);
    while (task >= p->written + p->num_places && p->failure.status == STK_OK)
        stk__cond_wait_until(&p->changed, &p->lock, UINT64_MAX);
    stk_status status = p->failure.status;
    if (status != STK_OK)
        *err = p->failure;
    pthread_mutex_unlock(&p->lock);
    STK_TRY(status);
    status = pack_piece(p, &p->members[number], &p->pieces[task], mine->bytes, err);
    pthread_mutex_lock(&p->lock);
    mine->ready = status == STK_OK;
    if (status == STK_OK)
        status = write_ready_locked(p, err);
    if (status != STK_OK)
        stop_locked(p, status, err);
    pthread_mutex_unlock(&p->lock);
    return status;
}

static stk_status watch(void *user, stk_error *err)
{
    packing *p = user;
    stk__squashfs_run *s = p->s;

    stk__progress(s->context, s->job->target, atomic_load_explicit(&p->read, memory_order_relaxed),
                  s->tree.bytes);
    if (!s->job->canceled(s->job))
        return STK_OK;
    return stk__squashfs_stopped(s, err);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* Threads and places that fit the memory. */
static stk_status divide(packing *p, stk_error *err)
{
    stk__squashfs_run *s = p->s;

    p->most = STK_MAX(PIECE, s->block);
    p->room = p->most + (s->encodes ? stk__block_bound(&s->kind, s->block) - s->block : 0);
    const uint64_t each =
        p->most + s->block + 2 * p->room + (s->encodes ? stk__block_memory(&s->kind) : 0);
    if (each > s->budget)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_CONVERT,
                         "a thread that packs takes %" PRIu64 " bytes and convert.memory_budget is "
                         "%" PRIu64 "; raise it, or choose a smaller block or a lower level",
                         each, s->budget);
    p->threads = (uint32_t)STK_MIN(s->num_workers, s->budget / each);
    p->num_places = 2 * (uint64_t)STK_MAX(p->threads, 1);
    s->report->memory = each * STK_MAX(p->threads, 1);
    return STK_OK;
}

static stk_status make_room(packing *p, stk_error *err)
{
    stk_context *ctx = p->s->context;
    const uint32_t count = STK_MAX(p->threads, 1);

    p->members = stk__calloc(ctx, count, sizeof *p->members);
    p->places = stk__calloc(ctx, p->num_places, sizeof *p->places);
    if (!p->members || !p->places)
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        p->members[i].in = stk__alloc_buffer(ctx, p->most);
        p->members[i].check = stk__alloc_buffer(ctx, p->s->block);
        if (!p->members[i].in || !p->members[i].check)
            return no_memory(err);
        STK_TRY(stk__codec_state_create(ctx, &p->members[i].state, err));
    }
    for (uint64_t i = 0; i < p->num_places; i++) {
        p->places[i].bytes = stk__alloc_buffer(ctx, p->room);
        if (!p->places[i].bytes)
            return no_memory(err);
    }
    return STK_OK;
}

static stk_status begin(packing *p, stk__squashfs_run *s, stk_error *err)
{
    *p = (packing){.s = s};
    stk_error_init(&p->failure);
    pthread_mutex_init(&p->lock, NULL);
    stk__cond_init(&p->changed);
    STK_TRY(divide(p, err));
    STK_TRY(make_sizes(s, err));
    STK_TRY(make_pieces(p, err));
    return make_room(p, err);
}

static void end(packing *p)
{
    stk_context *ctx = p->s->context;

    for (uint32_t i = 0; p->members && i < STK_MAX(p->threads, 1); i++) {
        stk__codec_state_destroy(&p->members[i].state);
        stk__free(ctx, p->members[i].in);
        stk__free(ctx, p->members[i].check);
    }
    for (uint64_t i = 0; p->places && i < p->num_places; i++)
        stk__free(ctx, p->places[i].bytes);
    stk__free(ctx, p->members);
    stk__free(ctx, p->places);
    stk__free(ctx, p->pieces);
    stk__squashfs_copies_release(&p->copies);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

static stk_status run(packing *p, stk_error *err)
{
    stk__crew *crew = NULL;

    STK_TRY(stk__squashfs_copies_init(&p->copies, p->s, err));
    STK_TRY(stk__crew_create(p->s->context, p->threads, &crew, err));
    stk_status status = watch(p, err);
    if (status == STK_OK)
        status = stk__crew_run(crew, 0, p->num_pieces, pack_one, watch, p, err);
    stk__crew_destroy(&crew);
    return status == STK_OK ? watch(p, err) : status;
}

stk_status stk__squashfs_pack(stk__squashfs_run *s, stk_error *err)
{
    stk_error own;
    packing p;

    stk_error_init(&own);
    stk_status status = begin(&p, s, &own);
    if (status == STK_OK)
        status = run(&p, &own);
    end(&p);
    if (status != STK_OK && err)
        *err = own;
    return status;
}

/* ---- Estimates ------------------------------------------------------------------------------- */

static uint64_t stored_of(const stk__squashfs_run *s, const piece *one, uint64_t *bytes)
{
    uint64_t stored = 0;

    for (uint32_t i = one->node; i < one->end; i++) {
        const stk__squashfs_node *node = &s->tree.nodes[i];
        const uint64_t blocks = one->blocks ? one->blocks : stk__squashfs_blocks(s, node);
        for (uint64_t k = one->first; k < one->first + blocks; k++) {
            stored += s->sizes[node->first + k] & STK__SQUASHFS_STORED;
            *bytes += block_bytes(s, node, k);
        }
    }
    return stored;
}

stk_status stk__squashfs_estimate(stk__squashfs_run *s, double *share, stk_error *err)
{
    uint64_t stored = 0, bytes = 0;
    packing p;

    stk_status status = begin(&p, s, err);
    const uint64_t count = STK_MIN(p.num_pieces, SAMPLES);
    for (uint64_t i = 0; i < count && status == STK_OK; i++) {
        const piece *one = &p.pieces[i * p.num_pieces / count];
        status = pack_piece(&p, &p.members[0], one, p.places[0].bytes, err);
        if (status == STK_OK)
            stored += stored_of(s, one, &bytes);
    }
    *share = bytes ? (double)stored / (double)bytes : 0;
    end(&p);
    return status;
}

/* ---- Reading back ---------------------------------------------------------------------------- */

static stk_status check_file(stk__squashfs_run *s, const stk__squashfs_node *node, uint8_t *bytes,
                             stk_error *err)
{
    XXH64_state_t hash;

    XXH64_reset(&hash, 0);
    for (uint64_t at = 0; at < node->stored; at += PIECE) {
        const uint64_t n = STK_MIN(PIECE, node->stored - at);
        STK_TRY(stk__squashfs_read(&s->file, node->at + at, n, bytes, err));
        XXH64_update(&hash, bytes, n);
    }
    if (XXH64_digest(&hash) == node->hash)
        return STK_OK;
    return stk__convert_fail_check(s->job, err);
}

stk_status stk__squashfs_check_blocks(stk__squashfs_run *s, stk_error *err)
{
    uint8_t *bytes = stk__alloc(s->context, PIECE);
    stk_status status = bytes ? STK_OK : no_memory(err);

    for (size_t i = 0; i < s->tree.count && status == STK_OK; i++) {
        const stk__squashfs_node *node = &s->tree.nodes[i];
        if (node->is_folder)
            continue;
        if (node->stored && !node->is_copy)
            status = check_file(s, node, bytes, err);
        s->report->verified++;
        if (status == STK_OK && s->job->canceled(s->job))
            status = stk__squashfs_stopped(s, err);
    }
    stk__free(s->context, bytes);
    return status;
}
