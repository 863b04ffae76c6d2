/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of bad samples: noted where they are met, judged where their batch is delivered. */
#include "loader/bad.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/options.h"
#include "base/probe.h"
#include "base/text.h"
#include "loader/planner.h"

/* ---- Options ---- */

static stk_status open_log(stk__bad *b, const char *path, stk_error *err)
{
    if (!path || !*path)
        return STK_OK;
    b->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (b->file < 0)
        return stk__fail_at(err, stk__status_of_errno(errno), STK_STAGE_LOADER, path, STK_NO_OFFSET,
                            "quarantine log %s: could not be opened: %s", path,
                            strerrordesc_np(errno));
    b->path = stk__strdup(b->ctx, path);
    return b->path ? STK_OK : STK_ENOMEM;
}

stk_status stk__bad_init(stk__bad *b, const char *max_errors, const char *quarantine,
                         uint64_t batch_rows, stk_error *err)
{
    const stk__order *order = b->order;
    const uint64_t epoch = (order->size + order->world - 1) / order->world;
    const bool fails = b->on_error == STK_ON_ERROR_FAIL;

    b->file = -1;
    STK_TRY(stk__option_bound(max_errors, fails ? "skip or replace" : NULL, epoch, batch_rows,
                              &b->most, err));
    return open_log(b, quarantine, err);
}

void stk__bad_release(stk__bad *b)
{
    if (!b->ctx)
        return;
    stk__free(b->ctx, b->path);
    if (b->file >= 0)
        close(b->file);
}

/* ---- Noting ---- */

void stk__bad_note_locked(stk__step *step, uint32_t r, bool replaced)
{
    const stk__row *row = &step->rows[r];
    stk__bad_sample *bad = stk__calloc(step->steps->ring->ctx, 1, sizeof *bad);

    step->num_bad++;
    if (!bad)
        return;
    *bad = (stk__bad_sample){.position = row->position,
                             .index = row->index,
                             .wanted = row->wanted,
                             .left = row->left,
                             .offset = STK_NO_OFFSET,
                             .need = row->bad_need,
                             .status = row->status,
                             .stage = row->stage,
                             .replaced = replaced,
                             .reason = row->reason,
                             .line = row->line,
                             .next = step->bad};
    if (row->num_needs) {
        bad->has_object = true;
        bad->object = row->needs[row->bad_need].need.object;
        bad->offset = row->needs[row->bad_need].need.offset;
    }
    step->bad = bad;
}

void stk__bad_free(stk_context *ctx, stk__bad_sample *list)
{
    for (stk__bad_sample *next; list; list = next) {
        next = list->next;
        stk__free(ctx, list);
    }
}

/* In order of position, and of the tries at one position: the list grows at its front. */
static stk__bad_sample *sort_bad(stk__bad_sample *list)
{
    stk__bad_sample *sorted = NULL;

    for (stk__bad_sample *next; list; list = next) {
        stk__bad_sample **at = &sorted;
        next = list->next;
        while (*at && (*at)->position < list->position)
            at = &(*at)->next;
        list->next = *at;
        *at = list;
    }
    return sorted;
}

/* ---- Naming ---- */

typedef struct finder {
    stk_locator seam;
    stk__bad_sample *bad;
    uint32_t needs;
} finder;

static stk_status find_need(stk_locator *seam, size_t i, const stk_need *need)
{
    finder *f = (finder *)seam;

    (void)i;
    if (f->needs++ == f->bad->need) {
        f->bad->has_object = true;
        f->bad->object = need->object;
        f->bad->offset = need->offset;
    }
    return STK_OK;
}

/* Object and offset, also of a sample that the cache gave. */
static void name_bad(stk_dataset *dataset, stk__bad_sample *bad)
{
    const stk_dataset_ops *ops = dataset->ops;
    finder f = {.seam = stk__locator_of_needs(find_need), .bad = bad};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    stk_error said;

    if (!ops->locate || !ops->object)
        return;
    stk_error_init(&said);
    if (!bad->has_object && ops->locate(dataset, &bad->index, 1, &f.seam, &said) != STK_OK) {
        stk__copy_tail(bad->key, sizeof bad->key, said.key);
        return;
    }
    if (bad->has_object && ops->object(dataset, bad->object, &store, key, sizeof key) < sizeof key)
        stk__copy_tail(bad->key, sizeof bad->key, key);
}

/* Why it is bad, with both numbers where it is too large. */
static void write_reason(const stk__bad *b, const stk__bad_sample *bad, char *text, size_t size)
{
    const char *reason = bad->reason ? bad->reason : stk_status_text(bad->status);
    const bool decoding = bad->reason == stk__decode_too_large,
               ragged = bad->reason == stk__ragged_too_large;

    if (bad->status == STK_EBUDGET && bad->wanted)
        snprintf(text, size,
                 "%s (%" PRIu64 " bytes wanted, memory_budget of %" PRIu64 ": %" PRIu64
                 " left for %s)",
                 reason, bad->wanted, b->budget, bad->left,
                 decoding ? "decoding"
                 : ragged ? "the values of a batch"
                          : "the reads of one sample");
    else
        snprintf(text, size, "%s", reason);
}

static stk_status describe(const stk__bad *b, const stk__bad_sample *bad, uint64_t epoch,
                           stk_error *err)
{
    const stk_fault fault = stk_status_fault(bad->status);
    char reason[400], offset[40] = "";

    if (*bad->key && bad->line)
        snprintf(offset, sizeof offset, ":%" PRIu64, bad->line);
    else if (*bad->key && bad->offset != STK_NO_OFFSET)
        snprintf(offset, sizeof offset, " at byte %" PRIu64, bad->offset);
    write_reason(b, bad, reason, sizeof reason);
    stk_status status = stk__fail_at(
        err, bad->status, (stk_stage)bad->stage, bad->key, bad->offset,
        "sample %" PRIu64 " (position %" PRIu64 " of epoch %" PRIu64 "): %s%s%s%s; %s", bad->index,
        bad->position, epoch, reason, *bad->key ? ": " : "", bad->key, offset,
        fault == STK_FAULT_MACHINE  ? "trying again may help, more retries too"
        : fault != STK_FAULT_SAMPLE ? "this is no fault of the sample: on_error does not pass it"
        : bad->status == STK_EBUDGET && b->on_error != STK_ON_ERROR_FAIL ? "raise memory_budget"
        : bad->status == STK_EBUDGET       ? "raise memory_budget, or set on_error: skip"
        : b->on_error == STK_ON_ERROR_FAIL ? "mend or remove it, or set on_error: skip or replace"
                                           : "mend or remove it");
    if (err)
        err->sample = bad->index;
    return status;
}

/* ---- The log of them ---- */

/* One line of the quarantine log; a JSON object, written at once. */
static void quarantine(stk__bad *b, uint64_t epoch, const stk__bad_sample *bad, const char *action)
{
    stk__text text = {.ctx = b->ctx};
    char reason[400];

    write_reason(b, bad, reason, sizeof reason);
    stk__text_add(&text,
                  "{\"epoch\": %" PRIu64 ", \"position\": %" PRIu64 ", \"index\": %" PRIu64
                  ", \"key\": ",
                  epoch, bad->position, bad->index);
    stk__text_add_json(&text, bad->key);
    stk__text_add(&text,
                  ", \"offset\": %" PRId64 ", \"stage\": \"%s\", \"status\": \"%s\", \"reason\": ",
                  bad->offset == STK_NO_OFFSET ? -1 : (int64_t)bad->offset,
                  stk__stage_name((stk_stage)bad->stage), stk_status_name(bad->status));
    stk__text_add_json(&text, reason);
    if (bad->line)
        stk__text_add(&text, ", \"line\": %" PRIu64, bad->line);
    stk__text_add(&text, ", \"action\": \"%s\"}\n", action);
    errno = ENOMEM;
    if (text.failed || write(b->file, text.bytes, text.length) != (ssize_t)text.length) {
        stk__message(b->ctx, STK_MESSAGE_WARNING,
                     "quarantine log %s: could not be written: %s; it ends here", b->path,
                     strerrordesc_np(errno));
        close(b->file);
        b->file = -1;
    }
    stk__text_release(&text);
}

/* ---- Counting ---- */

/* Count it among those of its reason, or as the first of one. (L) held. */
static void count_reason_locked(stk__bad *b, const stk__bad_sample *bad, uint64_t epoch)
{
    stk_bad_samples *all = &b->counts;

    for (uint32_t i = 0; i < all->num_reasons; i++)
        if (all->reasons[i].first.status == bad->status && b->reasons[i] == bad->reason) {
            all->reasons[i].samples++;
            return;
        }
    if (all->num_reasons == STK_BAD_REASONS)
        return;
    b->reasons[all->num_reasons] = bad->reason;
    all->reasons[all->num_reasons].samples = 1;
    (void)describe(b, bad, epoch, &all->reasons[all->num_reasons++].first);
}

/* What the batch adds to the counts; false: more are bad in this epoch than may be. */
static bool count(stk__bad *b, uint64_t epoch, const stk__bad_sample *list, uint32_t n)
{
    pthread_mutex_lock(&b->ring->lock);
    if (b->epoch != epoch) {
        b->epoch = epoch;
        b->in_epoch = 0;
    }
    b->in_epoch += n;
    b->counts.samples += n;
    for (const stk__bad_sample *bad = list; bad; bad = bad->next)
        count_reason_locked(b, bad, epoch);
    pthread_mutex_unlock(&b->ring->lock);
    return b->in_epoch <= b->most;
}

/* What the batch fails with on account of one sample; the first in order of position. */
static stk_status judge(const stk__bad *b, uint64_t epoch, const stk__bad_sample *list,
                        stk_error *err)
{
    if (!list)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER,
                         "a bad sample, and no memory to say which");
    /* Only a sample's own fault is left out: the outcome must not depend on timing. */
    for (const stk__bad_sample *bad = list; bad; bad = bad->next)
        if (!bad->replaced &&
            (b->on_error != STK_ON_ERROR_SKIP || stk_status_fault(bad->status) != STK_FAULT_SAMPLE))
            return describe(b, bad, epoch, err);
    return STK_OK;
}

/* What became of each, and a batch that nothing is left of. */
static void tell(stk__bad *b, const stk_batch *batch, const stk__bad_sample *list, bool fails)
{
    uint64_t skipped = 0, replaced = 0, failed = 0;
    const bool empty = !fails && batch->count == 0;
    stk_error first;

    for (const stk__bad_sample *bad = list; bad; bad = bad->next) {
        *(fails ? &failed : bad->replaced ? &replaced : &skipped) += 1;
        stk__event event = {.kind = STK__EVENT_BAD_SAMPLE,
                            .status = bad->status,
                            .worker = UINT32_MAX,
                            .epoch = batch->epoch,
                            .position = bad->position,
                            .index = bad->index,
                            .loader = b->ring};
        stk__emit(b->ctx, &event);
        if (b->file >= 0)
            quarantine(b, batch->epoch, bad, fails ? "fail" : bad->replaced ? "replace" : "skip");
    }
    pthread_mutex_lock(&b->ring->lock);
    b->counts.skipped += skipped;
    b->counts.replaced += replaced;
    b->counts.failed += failed;
    b->counts.empty_batches += empty;
    pthread_mutex_unlock(&b->ring->lock);
    if (!empty)
        return;
    (void)describe(b, list, batch->epoch, &first);
    stk__message(b->ctx, STK_MESSAGE_WARNING,
                 "batch %" PRIu64 " of epoch %" PRIu64
                 " is empty: each of its samples was skipped; the first: %s",
                 batch->step, batch->epoch, first.text);
}

stk_status stk__bad_settle(stk__bad *b, const stk_batch *batch, stk__bad_sample *list, uint32_t n,
                           stk_error *err)
{
    list = sort_bad(list);
    for (stk__bad_sample *bad = list; bad; bad = bad->next)
        name_bad(b->dataset, bad);
    stk_status status = judge(b, batch->epoch, list, err);
    const bool allowed = count(b, batch->epoch, list, n);
    if (status == STK_OK && !allowed) {
        stk_error first;
        (void)describe(b, list, batch->epoch, &first);
        status =
            stk__fail(err, STK_EBADSAMPLES, STK_STAGE_LOADER,
                      "%" PRIu64 " bad samples in epoch %" PRIu64 ", max_errors allows %" PRIu64
                      ": mend the data (the option quarantine lists them) or raise "
                      "max_errors; of this batch the first: %.300s",
                      b->in_epoch, batch->epoch, b->most, first.text);
    }
    tell(b, batch, list, status != STK_OK);
    stk__bad_free(b->ctx, list);
    return status;
}

void stk__bad_show(stk__bad *b, stk_bad_samples *out)
{
    pthread_mutex_lock(&b->ring->lock);
    *out = b->counts;
    pthread_mutex_unlock(&b->ring->lock);
    if (b->path)
        stk__copy_tail(out->quarantine, sizeof out->quarantine, b->path);
}
