/* SPDX-License-Identifier: Apache-2.0 */
/* Where the documents of a row of tokens begin, and the samples that this gives. */
#include <stdio.h>

#include "dataset/tokens.h"

#define SCAN 8192u /* tokens looked at together for the end of a document */

/* Each token `eod` of a run is the end of a document. */
static stk_status scan_run(stk__tokens *t, const int64_t *run, uint64_t first, uint64_t n,
                           int64_t eod, stk_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (run[i] == eod)
            STK_TRY(stk__documents_add(t->base.context, &t->documents, first + i + 1, t->file.key,
                                       err));
    return STK_OK;
}

static stk_status scan_all(stk__tokens *t, int64_t eod, unsigned char *bytes, int64_t *run,
                           stk_error *err)
{
    for (uint64_t at = 0; at < t->count; at += SCAN * 64) {
        const uint64_t part = STK_MIN(t->count - at, SCAN * 64);
        STK_TRY(stk__object_read(t->store, &t->file, t->first + at * t->size, part * t->size, bytes,
                                 err));
        for (uint64_t k = 0; k < part; k += SCAN) {
            const uint64_t n = STK_MIN(part - k, SCAN);
            stk__tokens_put(t, bytes + k * t->size, n, run);
            STK_TRY(scan_run(t, run, at + k, n, eod, err));
        }
    }
    if (!t->documents.count)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "eod", STK_NO_OFFSET,
                            "eod=%lld: no token of %s is that; look at the end of a document and "
                            "at dtype",
                            (long long)eod, t->file.key);
    return stk__documents_add(t->base.context, &t->documents, t->count, t->file.key, err);
}

stk_status stk__tokens_scan(stk__tokens *t, int64_t eod, stk_error *err)
{
    stk_context *ctx = t->base.context;
    stk__dataset_narrow_fn *narrow = t->narrow;
    unsigned char *bytes = stk__alloc(ctx, (size_t)SCAN * 64 * t->size);
    int64_t *run = stk__alloc(ctx, SCAN * sizeof *run);
    stk_status status = STK_ENOMEM;

    t->narrow = NULL; /* compared as int64 */
    if (bytes && run)
        status = scan_all(t, eod, bytes, run, err);
    else
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, t->file.key, STK_NO_OFFSET,
                              "tokens: no memory to look for documents in %s", t->file.key);
    t->narrow = narrow;
    stk__free(ctx, run);
    stk__free(ctx, bytes);
    return status;
}

/* ---- Samples ---- */

/* Windows of a document of so many tokens: the last one ends with it or beyond. */
static uint64_t windows_of(const stk__tokens *t, uint64_t length)
{
    const uint64_t beyond = length > t->length ? length - t->length : 0;

    /* Where the stride is longer than a window some tokens are in none. */
    return STK_MIN(1 + stk__divide_up(beyond, t->stride), stk__divide_up(length, t->stride));
}

static stk_status plan_split(stk__tokens *t, uint64_t *samples, stk_error *err)
{
    const stk__documents *d = &t->documents;
    uint64_t bytes = (d->count + 1) * sizeof *t->before, all = 0;
    const uint64_t left = stk__memory_left(t->base.context);

    if (bytes > left)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, t->file.key, STK_NO_OFFSET,
                            "tokens: the numbers of the samples of %s take %llu bytes, and %llu of "
                            "memory_limit are left; raise it",
                            t->file.key, (unsigned long long)bytes, (unsigned long long)left);
    t->before = stk__alloc(t->base.context, bytes);
    if (!t->before)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, t->file.key, STK_NO_OFFSET,
                            "tokens: no memory for the numbers of the samples of %s", t->file.key);
    for (uint64_t i = 0; i < d->count; i++) {
        t->before[i] = all;
        all += windows_of(t, d->starts[i + 1] - d->starts[i]);
    }
    t->before[d->count] = *samples = all;
    return STK_OK;
}

static stk_status plan_pack(stk__tokens *t, const stk__tokens_options *o, uint64_t *samples,
                            stk_error *err)
{
    const stk__packing_options options = {.length = o->length,
                                          .max_documents = o->max_documents,
                                          .block = o->pack_block,
                                          .seed = o->pack_seed};

    STK_TRY(
        stk__packing_make(t->base.context, &t->documents, &options, t->file.key, &t->packing, err));
    *samples = t->packing.num_packs;
    stk__documents_release(t->base.context, &t->documents);
    return STK_OK;
}

stk_status stk__tokens_plan(stk__tokens *t, const stk__tokens_options *o, uint64_t *samples,
                            stk_error *err)
{
    if (t->mode != STK__TOKENS_JOIN)
        t->num_documents = t->documents.count;
    if (t->mode == STK__TOKENS_SPLIT && t->num_documents)
        return plan_split(t, samples, err);
    if (t->mode == STK__TOKENS_PACK && t->num_documents)
        return plan_pack(t, o, samples, err);
    if (t->mode == STK__TOKENS_SPLIT || t->mode == STK__TOKENS_PACK)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, t->file.key, STK_NO_OFFSET,
                            "tokens: %s has no documents with tokens", t->file.key);
    if (t->span > t->count)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "length", STK_NO_OFFSET,
                            "length: a sample takes %llu tokens, and %s has %llu; take fewer",
                            (unsigned long long)t->span, t->file.key, (unsigned long long)t->count);
    *samples = (t->count - t->span) / t->stride + 1;
    return STK_OK;
}

void stk__tokens_release(stk__tokens *t)
{
    stk__packing_release(t->base.context, &t->packing);
    stk__documents_release(t->base.context, &t->documents);
    stk__free(t->base.context, t->before);
}

/* ---- Pieces ---- */

/* The document of a sample: the last with no more samples in front. Each has one at least. */
static uint64_t document_of(const stk__tokens *t, uint64_t sample)
{
    const stk__documents by_sample = {.starts = t->before, .count = t->num_documents};

    return stk__documents_find(&by_sample, sample);
}

stk__token_pieces stk__token_pieces_of(const stk__tokens *t, uint64_t sample)
{
    if (t->mode == STK__TOKENS_PACK)
        return (stk__token_pieces){
            .t = t, .at = t->packing.first[sample], .end = t->packing.first[sample + 1]};
    if (t->mode == STK__TOKENS_SPLIT) {
        const uint64_t d = document_of(t, sample), *starts = t->documents.starts,
                       at = starts[d] + (sample - t->before[d]) * t->stride;
        return (stk__token_pieces){
            .t = t, .at = at, .end = STK_MIN(at + t->length, starts[d + 1]), .document = d};
    }
    const uint64_t at = sample * t->stride;
    return (stk__token_pieces){.t = t,
                               .at = at,
                               .end = at + t->length,
                               .document = stk__documents_find(&t->documents, at)};
}

bool stk__token_pieces_next(stk__token_pieces *walk, stk__token_piece *piece)
{
    if (walk->at == walk->end)
        return false;
    if (walk->t->mode == STK__TOKENS_PACK) {
        *piece = walk->t->packing.pieces[walk->at++];
        return true;
    }
    const uint64_t ends = walk->t->documents.starts[walk->document + 1],
                   end = STK_MIN(walk->end, ends);
    *piece = (stk__token_piece){walk->at, (uint32_t)(end - walk->at), end < ends};
    walk->at = end;
    walk->document++;
    return true;
}
