/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of documents. Blocks of neighbouring documents are packed on their own. Of a document that
 * is longer than a pack, each `length` tokens fill one; what is left at its end, and each shorter
 * document, is a rest. The rests of a block go by first fit into packs, long ones first, by CLASSES
 * classes of lengths; within a class a keyed permutation says which is next, so that another seed
 * puts other documents together.
 *
 * First fit asks a tree for the first pack with room enough: its leaves are the room of packs, and
 * a node has the most of what is below it.
 */
#include "dataset/packing.h"

#include "base/random.h"

#define CLASSES 64u

/* What one block needs, kept for all of them. */
typedef struct bench {
    const stk__documents *documents;
    const stk__packing_options *options;
    uint64_t first, count; /* documents of the block */
    uint64_t leaves;       /* of the tree: a power of two, as many as documents at least */
    uint32_t *tree;        /* room, 2 * leaves; node 1 is the root */
    uint32_t *pieces;      /* of each pack that first fit made */
    uint32_t *pack;        /* of the rest of each document: number in the block; count: no rest */
    uint32_t *queue;       /* documents with a rest, long ones first */
    uint64_t *number;      /* of each pack that first fit made, in the plan; UINT64_MAX: none yet */
} bench;

static uint64_t length_of(const stk__documents *documents, uint64_t d)
{
    return documents->starts[d + 1] - documents->starts[d];
}

/* A list of documents or packs finds no memory for `bytes`. */
static stk_status no_room(stk_context *ctx, const char *key, uint64_t documents, uint64_t bytes,
                          stk_error *err)
{
    const uint64_t left = stk__memory_left(ctx);

    if (bytes <= left)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "tokens: no memory for a list of the documents of %s", key);
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "tokens: a list of the %llu documents of %s takes %llu bytes, and %llu of "
                        "memory_limit are left; raise it",
                        (unsigned long long)documents, key, (unsigned long long)bytes,
                        (unsigned long long)left);
}

stk_status stk__documents_add(stk_context *ctx, stk__documents *documents, uint64_t end,
                              const char *key, stk_error *err)
{
    if (end == (documents->starts ? documents->starts[documents->count] : 0))
        return STK_OK;
    uint64_t *starts =
        stk__grow(ctx, documents->starts, &documents->room, documents->count + 2, sizeof *starts);
    if (!starts)
        return no_room(ctx, key, documents->count + 1, 2 * (documents->count + 2) * sizeof *starts,
                       err);
    documents->starts = starts;
    if (documents->count == 0)
        starts[0] = 0;
    starts[++documents->count] = end;
    return STK_OK;
}

uint64_t stk__documents_find(const stk__documents *documents, uint64_t token)
{
    uint64_t low = 0, high = documents->count;

    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (documents->starts[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void stk__documents_release(stk_context *ctx, stk__documents *documents)
{
    stk__free(ctx, documents->starts);
    *documents = (stk__documents){0};
}

/* ---- First fit ---- */

/* The document's rest: what does not fill a pack. */
static uint32_t rest_of(const bench *b, uint64_t i)
{
    return (uint32_t)(length_of(b->documents, b->first + i) % b->options->length);
}

/* The documents of the block that have a rest, by classes from long to short. Returns how many. */
static uint64_t line_up(bench *b)
{
    uint64_t ends[CLASSES + 1] = {0}, total = 0;
    stk__permutation order;

    stk__permutation_init(&order, b->count, b->options->seed, b->first / b->options->block, 0);
    for (uint64_t i = 0; i < b->count; i++) {
        const uint64_t rest = rest_of(b, i);
        b->pack[i] = (uint32_t)(rest ? CLASSES - 1 - rest * CLASSES / b->options->length : CLASSES);
        ends[b->pack[i]]++;
    }
    for (uint32_t c = 0; c <= CLASSES; c++) {
        const uint64_t n = ends[c];
        ends[c] = total;
        total += n;
    }
    for (uint64_t k = 0; k < b->count; k++) {
        const uint64_t i = stk__permutation_at(&order, k);
        b->queue[ends[b->pack[i]]++] = (uint32_t)i;
    }
    return ends[CLASSES - 1];
}

static void set_room(bench *b, uint64_t leaf, uint32_t room)
{
    uint64_t node = b->leaves + leaf;

    b->tree[node] = room;
    while (node >>= 1)
        b->tree[node] = STK_MAX(b->tree[2 * node], b->tree[2 * node + 1]);
}

/* Put the rests of a block into packs, numbered from 0 in the order they are begun. */
static void first_fit(bench *b)
{
    const uint64_t n = line_up(b);

    for (uint64_t node = b->leaves; node < 2 * b->leaves; node++)
        b->tree[node] = (uint32_t)b->options->length;
    for (uint64_t node = b->leaves - 1; node > 0; node--)
        b->tree[node] = b->tree[2 * node];
    memset(b->pieces, 0, b->count * sizeof *b->pieces);
    for (uint64_t i = 0; i < b->count; i++)
        b->pack[i] = (uint32_t)b->count;
    for (uint64_t k = 0; k < n; k++) {
        const uint32_t i = b->queue[k], rest = rest_of(b, i);
        uint64_t node = 1;
        while (node < b->leaves)
            node = 2 * node + (b->tree[2 * node] < rest);
        const uint64_t pack = node - b->leaves;
        b->pack[i] = (uint32_t)pack;
        b->pieces[pack]++;
        set_room(b, pack, b->pieces[pack] == b->options->max_documents ? 0 : b->tree[node] - rest);
    }
}

/* ---- The plan ---- */

/* A pack of `pieces` pieces becomes the next one of the plan. */
static bool begin_pack(stk_context *ctx, stk__packing *to, uint64_t pieces)
{
    uint64_t *first = stk__grow(ctx, to->first, &to->room, to->num_packs + 2, sizeof *first);

    if (!first)
        return false;
    to->first = first;
    if (to->num_packs == 0)
        first[0] = 0;
    first[to->num_packs + 1] = first[to->num_packs] + pieces;
    to->num_packs++;
    return true;
}

/* The pieces of document `i` of the block: those that fill a pack, and its rest. A pack is begun
 * by the first rest in it, with room for the others; `pieces` then counts those that are laid. */
static bool lay_document(stk_context *ctx, bench *b, uint64_t i, stk__packing *to)
{
    const uint64_t length = b->options->length, end = b->documents->starts[b->first + i + 1];
    uint64_t at = b->documents->starts[b->first + i];

    for (; end - at >= length; at += length) {
        if (!begin_pack(ctx, to, 1))
            return false;
        to->pieces[to->first[to->num_packs - 1]] =
            (stk__token_piece){at, (uint32_t)length, at + length < end};
    }
    if (at == end)
        return true;
    const uint32_t pack = b->pack[i];
    if (b->number[pack] == UINT64_MAX) {
        if (!begin_pack(ctx, to, b->pieces[pack]))
            return false;
        b->number[pack] = to->num_packs - 1;
        b->pieces[pack] = 0;
    }
    to->pieces[to->first[b->number[pack]] + b->pieces[pack]++] =
        (stk__token_piece){at, (uint32_t)(end - at), false};
    return true;
}

/* Packs are numbered by the place of their first piece, and so are pieces within a pack. */
static bool pack_block(stk_context *ctx, bench *b, stk__packing *to)
{
    first_fit(b);
    for (uint64_t i = 0; i < b->count; i++)
        b->number[i] = UINT64_MAX;
    for (uint64_t i = 0; i < b->count; i++)
        if (!lay_document(ctx, b, i, to))
            return false;
    return true;
}

static void bench_release(stk_context *ctx, bench *b)
{
    stk__free(ctx, b->tree);
    stk__free(ctx, b->pieces);
    stk__free(ctx, b->pack);
    stk__free(ctx, b->queue);
    stk__free(ctx, b->number);
}

static bool bench_open(stk_context *ctx, bench *b, uint64_t most)
{
    b->leaves = 1;
    while (b->leaves < most)
        b->leaves *= 2;
    b->tree = stk__calloc(ctx, 2 * b->leaves, sizeof *b->tree);
    b->pieces = stk__calloc(ctx, most, sizeof *b->pieces);
    b->pack = stk__calloc(ctx, most, sizeof *b->pack);
    b->queue = stk__calloc(ctx, most, sizeof *b->queue);
    b->number = stk__calloc(ctx, most, sizeof *b->number);
    return b->tree && b->pieces && b->pack && b->queue && b->number;
}

stk_status stk__packing_make(stk_context *ctx, const stk__documents *documents,
                             const stk__packing_options *options, const char *key,
                             stk__packing *out, stk_error *err)
{
    bench b = {.documents = documents, .options = options};
    uint64_t bytes = 0;
    bool good = false;

    *out = (stk__packing){0};
    for (uint64_t d = 0; d < documents->count; d++)
        out->num_pieces += stk__divide_up(length_of(documents, d), options->length);
    if (!stk__mul_size(out->num_pieces, sizeof *out->pieces, &bytes) ||
        bytes > stk__memory_left(ctx)) {
        out->num_pieces = 0;
        return no_room(ctx, key, documents->count, bytes, err);
    }
    out->pieces = stk__alloc(ctx, bytes);
    if (out->pieces && bench_open(ctx, &b, STK_MIN(options->block, documents->count)))
        good = true;
    for (; good && b.first < documents->count; b.first += options->block, out->num_blocks++) {
        b.count = STK_MIN(options->block, documents->count - b.first);
        good = pack_block(ctx, &b, out);
    }
    bench_release(ctx, &b);
    if (good)
        return STK_OK;
    bytes = 2 * (out->num_packs + 2) * sizeof *out->first;
    stk__packing_release(ctx, out);
    return no_room(ctx, key, documents->count, bytes, err);
}

void stk__packing_release(stk_context *ctx, stk__packing *packing)
{
    stk__free(ctx, packing->pieces);
    stk__free(ctx, packing->first);
    *packing = (stk__packing){0};
}
