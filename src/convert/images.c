/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of pictures packed again: same folders, same names, smaller pictures that decode faster.
 * Workers take one file after the other and write parts; the calling thread makes groups of parts
 * safe, gives them their names and notes them in the journal.
 */
#include "convert/images.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "dataset/dataset.h"

#define WAKE_NS       UINT64_C(100000000)   /* between looks at the cancel flag */
#define CHECKPOINT_NS UINT64_C(10000000000) /* between checkpoints of slow pictures */
#define LEAST_SHARE   (UINT64_C(32) << 20)  /* memory a worker should have; auto takes fewer */
#define BEST_PSNR     99.0                  /* what equal pictures count as */

/* ---- Options ------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_images_options, member)

static const stk_option own_list[] = {
    {"max_side", STK_OPTION_UINT, AT(max_side), "0", 0, STK__JPEG_MAX_SIDE, NULL, "N",
     "Pixels of the longer side at most; the shorter one keeps the aspect, rounded down. Nothing "
     "is made larger. 0: as they are."},
    {"quality", STK_OPTION_UINT, AT(quality), "90", 1, 100, NULL, "N",
     "Of the JPEGs that are encoded."},
    {"subsampling", STK_OPTION_ENUM, AT(subsampling), "420", 0, 0, "420|422|444", NULL,
     "Of their colour: 420 halves it both ways, 444 keeps it whole."},
    {"restart_interval", STK_OPTION_UINT, AT(restart_interval), "0", 0, 65535, NULL, "N",
     "MCUs between restart markers in what is not copied; 0: none."},
    {"dct_scaling", STK_OPTION_ENUM, AT(dct_scaling), "auto", 0, 0, "auto|off", NULL,
     "auto: decode a JPEG at 1/2, 1/4 or 1/8 where that is still at least twice the new size both "
     "ways; off: always whole."},
    {"upright", STK_OPTION_BOOL, AT(upright), "false", 0, 0, NULL, NULL,
     "Turn pictures by their EXIF orientation and drop it; else pixels stay as they are stored and "
     "the EXIF block is kept."},
    {"keep_png", STK_OPTION_BOOL, AT(keep_png), "false", 0, 0, NULL, NULL,
     "Copy all PNG files as they are. Without it only those with a palette, alpha or 16 bits are."},
};

const stk_option_table stk__convert_images_option_table = {
    .name = "images",
    .doc = "Pictures packed again.",
    .struct_size = sizeof(stk_convert_images_options),
    .options = own_list,
    .count = STK_COUNT(own_list),
};

/* ---- Threads ------------------------------------------------------------------------------- */

typedef struct worker {
    stk__images_run *run;
    stk__picture_worker picture;
    stk__thread thread;
} worker;

static void work(void *argument)
{
    worker *w = argument;
    stk__images_run *run = w->run;

    stk__thread_background();
    while (stk__images_step(run, &w->picture))
        ;
    pthread_mutex_lock(&run->lock);
    run->running--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void show_progress(stk__images_run *run)
{
    pthread_mutex_lock(&run->lock);
    uint64_t finished = run->finished;
    pthread_mutex_unlock(&run->lock);
    stk__progress(run->context, run->job->target, finished, run->total);
}

static void note_failure(stk__images_run *run, const stk_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->failure.status == STK_OK) {
        run->failure = *err;
        run->failed_at = 0;
    }
    atomic_store(&run->stop, true);
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void checkpoint(stk__images_run *run)
{
    stk_error err;

    stk_error_init(&err);
    if (stk__images_checkpoint(run, &err) != STK_OK)
        note_failure(run, &err);
}

/* Everything in the calling thread. */
static void run_alone(stk__images_run *run, worker *w)
{
    uint64_t last = stk__now_ns();

    while (stk__images_step(run, &w->picture)) {
        if (run->num_waiting >= run->options->checkpoint || stk__now_ns() - last >= CHECKPOINT_NS) {
            checkpoint(run);
            last = stk__now_ns();
        }
        show_progress(run);
    }
}

/* Wait for workers; what they finish is made safe meanwhile. */
static void oversee(stk__images_run *run)
{
    uint64_t last = stk__now_ns();
    bool running = true;

    while (running) {
        pthread_mutex_lock(&run->lock);
        if (run->running && run->num_waiting < run->options->checkpoint)
            stk__cond_wait_until(&run->changed, &run->lock, stk__now_ns() + WAKE_NS);
        running = run->running;
        bool due = run->num_waiting >= run->options->checkpoint ||
                   (run->num_waiting && stk__now_ns() - last >= CHECKPOINT_NS);
        pthread_mutex_unlock(&run->lock);
        if (due) {
            checkpoint(run);
            last = stk__now_ns();
        }
        show_progress(run);
    }
}

static stk_status run_workers(stk__images_run *run, stk_error *err)
{
    uint32_t count = STK_MAX(run->num_workers, 1), ready = 0;
    bool verify = run->options->verify == STK_VERIFY_FULL;
    stk_status status = STK_OK;

    worker *workers = stk__calloc(run->context, count, sizeof *workers);
    if (!workers)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for workers");
    for (; status == STK_OK && ready < count; ready += status == STK_OK) {
        workers[ready].run = run;
        status = stk__picture_worker_init(run->context, run->own, verify, run->budget,
                                          &workers[ready].picture, err);
    }
    run->running = run->num_workers;
    for (uint32_t i = 0; status == STK_OK && i < run->num_workers; i++) {
        char name[16];
        snprintf(name, sizeof name, "convert %u", (unsigned)(i % 1000));
        status = stk__thread_start(run->context, &workers[i].thread, name, work, &workers[i], err);
        if (status != STK_OK) {
            note_failure(run, err);
            pthread_mutex_lock(&run->lock);
            run->running -= run->num_workers - i;
            pthread_mutex_unlock(&run->lock);
        }
    }
    if (status == STK_OK && !run->num_workers)
        run_alone(run, &workers[0]);
    else if (status == STK_OK)
        oversee(run);
    for (uint32_t i = 0; i < run->num_workers; i++)
        stk__thread_join(&workers[i].thread);
    for (uint32_t i = 0; i < ready; i++)
        stk__picture_worker_release(&workers[i].picture);
    stk__free(run->context, workers);
    return status;
}

/* ---- The statement --------------------------------------------------------------------------- */

static double psnr_of(const stk__done *done)
{
    if (!done->sse)
        return BEST_PSNR;
    double psnr = 10 * log10(255.0 * 255.0 * (double)done->samples / (double)done->sse);
    return STK_MIN(psnr, BEST_PSNR);
}

static void count_one(stk_conversion_report *report, const stk__done *done)
{
    report->copied += done->kind == STK__DONE_COPIED || done->kind == STK__DONE_KEPT_PNG;
    report->kept_png += done->kind == STK__DONE_KEPT_PNG;
    report->rewritten += done->kind == STK__DONE_REWRITTEN;
    report->encoded += done->kind == STK__DONE_ENCODED;
    report->repeated += done->kind == STK__DONE_REPEATED;
    report->skipped += done->kind == STK__DONE_SKIPPED;
    report->resumed += done->earlier;
    report->bytes_before += done->source_size;
    report->bytes_after += done->size;
}

/* Counts, and that every sample of the source has become something that is there. */
static stk_status make_statement(stk__images_run *run, stk_error *err)
{
    stk_conversion_report *report = run->report;
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    double sum = 0;
    uint64_t worst = UINT64_MAX;

    report->total = run->total;
    report->verified = run->verified;
    for (uint64_t i = 0; i < run->total; i++) {
        const stk__done *done = &run->done[i];
        count_one(report, done);
        if (done->kind != STK__DONE_ENCODED || !done->samples)
            continue;
        double psnr = psnr_of(done);
        sum += psnr;
        if (!report->compared++ || psnr < report->worst_psnr) {
            report->worst_psnr = psnr;
            worst = i;
        }
    }
    report->mean_psnr = report->compared ? sum / (double)report->compared : 0;
    if (worst != UINT64_MAX) {
        STK_TRY(stk__images_source(run, worst, &store, key, err));
        stk__copy_tail(report->worst, sizeof report->worst, key);
    }
    if (run->total && report->skipped == run->total)
        return stk__fail(err, STK_EBADSAMPLES, STK_STAGE_CONVERT,
                         "nothing was converted: all %llu pictures are broken; %.200s says why",
                         (unsigned long long)run->total, report->errors_path);
    uint64_t known =
        report->copied + report->rewritten + report->encoded + report->repeated + report->skipped;
    if (known != run->total)
        return stk__fail(err, STK_EINTERNAL, STK_STAGE_CONVERT,
                         "%llu of %llu pictures were converted: a defect in stoker",
                         (unsigned long long)known, (unsigned long long)run->total);
    return STK_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

static stk_status convert_all(stk__images_run *run, stk_error *err)
{
    stk__images_names *names = NULL;

    STK_TRY(stk__option_bound(run->options->max_errors, run->options->on_error ? NULL : "skip",
                              run->total, run->options->checkpoint, &run->max_errors, err));
    stk_status status = stk__images_names_create(run, &names, err);

    if (status == STK_OK)
        status = run->target->ops->begin(run->target, err);
    if (status == STK_OK)
        status = stk__journal_open(run->job, run->target->journal, &run->journal, err);
    if (status == STK_OK)
        status = stk__images_resume(run, names, err);
    if (status == STK_OK)
        status = run_workers(run, err);
    /* What is complete is kept, however it ended. */
    if (run->num_waiting)
        checkpoint(run);
    const stk_status failure = run->failure.status;
    if (status == STK_OK && failure != STK_OK && failure != STK_ECANCELED) {
        status = failure;
        if (err)
            *err = run->failure;
    }
    if (status == STK_OK && (failure == STK_ECANCELED || run->job->canceled(run->job)))
        status = stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                           "the conversion to %.200s was stopped; run the same again to go on",
                           run->job->target);
    if (status == STK_OK)
        status = stk__images_finish(run, names, err);
    if (status == STK_OK)
        status = make_statement(run, err);
    stk__images_names_destroy(run, &names);
    return status;
}

static void choose_memory(stk__images_run *run)
{
    const uint64_t wanted = stk__convert_workers(run->context, run->options);

    run->budget = stk__convert_budget(run->context, run->options);
    uint64_t workers = run->options->num_workers == STK_AUTO
                           ? STK_MIN(wanted, STK_MAX(run->budget / LEAST_SHARE, 1))
                           : wanted;
    run->num_workers = (uint32_t)STK_MIN(workers, STK_MAX(run->total, 1));
    run->share = run->budget / STK_MAX(run->num_workers, 1);
}

static void release(stk__images_run *run)
{
    stk_context *ctx = run->context;

    for (uint64_t i = 0; i < run->num_old; i++)
        stk__free(ctx, run->old[i].name);
    for (uint64_t i = 0; i < run->num_left_out; i++)
        stk__free(ctx, run->left_out[i].text);
    stk__free(ctx, run->old);
    stk__free(ctx, run->left_out);
    stk__free(ctx, run->waiting);
    stk__free(ctx, run->done);
}

static void init_locks(stk__images_run *run)
{
    pthread_rwlockattr_t kind;

    pthread_mutex_init(&run->lock, NULL);
    stk__cond_init(&run->changed);
    pthread_rwlockattr_init(&kind);
    /* One that needs all the memory is not to wait for the end. */
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&run->all_memory, &kind);
    pthread_rwlockattr_destroy(&kind);
}

static stk_status images_run(const stk_conversion_job *job, stk_conversion_report *report,
                             stk_error *err)
{
    const stk_convert_options *options = job->options;
    stk_context *ctx = job->context;
    stk__images_run run = {.job = job,
                           .context = ctx,
                           .dataset = job->dataset,
                           .options = options,
                           .own = job->own,
                           .report = report,
                           .journal.fd = -1,
                           .total = job->dataset->size};

    init_locks(&run);
    choose_memory(&run);
    char folder[PATH_MAX];
    const bool local = stk__convert_folder(ctx, stk__convert_source(job), folder);
    run.head = (stk__journal_head){.kind = "images",
                                   .source = local ? folder : job->source,
                                   .table = &stk__convert_images_option_table,
                                   .options = job->own};
    run.done = stk__calloc(ctx, run.total, sizeof *run.done);
    run.waiting = stk__calloc(ctx, 2 * options->checkpoint, sizeof *run.waiting);
    stk_status status = run.done && run.waiting ? STK_OK
                                                : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                                            "no memory for a list of %llu pictures",
                                                            (unsigned long long)run.total);
    if (status == STK_OK)
        status = stk__target_open(job, "", &run.target, err);
    if (status == STK_OK)
        status = convert_all(&run, err);
    stk__journal_close(&run.journal);
    stk__target_close(&run.target);
    release(&run);
    pthread_rwlock_destroy(&run.all_memory);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    return status;
}

static bool images_accepts(const stk_dataset *dataset, const char **why)
{
    const stk_field *image = stk__convert_field(dataset, "image");

    *why = "has no pictures in files of their own";
    if (!image || image->layout != STK_BYTES || strcmp(image->codec, "image") != 0 ||
        !dataset->ops->locate)
        return false;
    if (stk__convert_has_masks(dataset))
        *why = "has masks, whose values JPEG would change";
    return !stk__convert_has_masks(dataset);
}

const stk_converter_ops stk__convert_images = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "images",
    .from = "images: (files of pictures)",
    .doc = "a folder of JPEG files",
    .options = &stk__convert_images_option_table,
    .accepts = images_accepts,
    .run = images_run,
};
