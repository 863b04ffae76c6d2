/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Surveys: what the pictures of a dataset are. Samples are read one by one by a few threads,
 * through the same seam as the loader's (locate, read, prepare). Every figure is a sum of integers,
 * so that it is exact and the order of the threads does not show.
 */
#include <inttypes.h>
#include <math.h>

#include "base/sized.h"
#include "codec/image/image.h"
#include "convert/convert.h"
#include "convert/survey_sample.h"
#include "dataset/dataset.h"

#define CLAIM         16 /* samples that a thread takes at a time */
#define MOST_WORKERS  256
#define PROGRESS_NS   UINT64_C(100000000)
#define MOST_CHANNELS 4
#define DECODED_PIXEL 3
#define FILES_PART    4 /* of memory_limit: what all files in memory at one time may take */
#define DECODE_PART   2 /* and all pictures that are decoded */

/* Sums of what one thread has seen; added up at the end. */
typedef struct tally {
    stk_survey found;
    uint64_t widths, heights, decoded_pixels;
    uint64_t sum[MOST_CHANNELS];
    unsigned __int128 squares[MOST_CHANNELS];
    uint64_t entropy_ns, decode_ns; /* of the JPEG that were timed */
} tally;

typedef struct survey {
    stk_dataset *dataset;
    const stk_survey_options *options;
    stk__image_limits limits;
    uint32_t field; /* the pictures */
    int32_t label;  /* field of the labels; -1: none */
    uint64_t count; /* samples to look at */
    atomic_uint_fast64_t next, done;
    atomic_bool stop;
    /* Who holds of the second waits for no part of the first. */
    stk__share files, decoding;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint32_t running;
    tally all;
    uint64_t *class_counts;
    stk_survey_broken_fn *broken;
    void *user;
    stk_error failure; /* status STK_OK: none */
} survey;

/* What one thread works with. */
typedef struct surveyor {
    survey *run;
    tally seen;
    uint64_t *class_counts;
    stk__survey_sample sample;
    stk__image_decoder *decoder;
    uint64_t jpegs;
    char reason[STK__SHARE_REASON];
} surveyor;

static const stk_option option_list[] = {STK__IMAGE_LIMIT_OPTIONS(stk_survey_options)};

const stk_option_table stk__survey_option_table = {.name = "survey",
                                                   .doc = "Limits of pictures",
                                                   .struct_size = sizeof(stk_survey_options),
                                                   .options = option_list,
                                                   .count = STK_COUNT(option_list)};

/* ---- Looking at it --------------------------------------------------------------------------- */

static void add_values(tally *t, const uint8_t *row, uint64_t pixels, uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++) {
        uint64_t sum = 0, squares = 0; /* a row has at most 2^32 pixels: no overflow */

        for (uint64_t i = 0; i < pixels; i++) {
            uint64_t x = row[i * channels + c];

            sum += x;
            squares += x * x;
        }
        t->sum[c] += sum;
        t->squares[c] += squares;
    }
    t->decoded_pixels += pixels;
}

static void add_size(stk_survey *found, tally *t, uint32_t width, uint32_t height)
{
    uint32_t side = STK_MIN(width, height), bin = 0;

    while (bin + 1 < STK_SURVEY_SIDES && side >= UINT32_C(32) << bin)
        bin++;
    found->sides[bin]++;
    if (!found->max_width) {
        found->min_width = width;
        found->min_height = height;
    }
    found->min_width = STK_MIN(found->min_width, width);
    found->min_height = STK_MIN(found->min_height, height);
    found->max_width = STK_MAX(found->max_width, width);
    found->max_height = STK_MAX(found->max_height, height);
    t->widths += width;
    t->heights += height;
}

/* Decode all of a picture, and add its values where there is a tally. */
static stk_status decode(surveyor *s, const stk_value *value, tally *add, const char **reason)
{
    stk__image_region region;
    stk__image_rows rows;
    stk_status status =
        stk__image_decoder_begin(s->decoder, value->data, value->size, NULL, 1, &region, reason);

    while (status == STK_OK) {
        status = stk__image_decoder_rows(s->decoder, 0, &rows, reason);
        for (uint32_t y = 0; status == STK_OK && add && y < rows.count; y++)
            add_values(add, rows.data + y * rows.stride, region.width, DECODED_PIXEL);
    }
    return status == STK_EOS ? STK_OK : status;
}

/* How much of decoding a JPEG is entropy decoding. */
static stk_status time_entropy(surveyor *s, const stk_value *value, const char **reason)
{
    uint64_t entropy, start = stk__thread_cpu_ns();

    STK_TRY(decode(s, value, NULL, reason));
    const uint64_t took = stk__thread_cpu_ns() - start;
    STK_TRY(stk__image_entropy_time(s->decoder, value->data, value->size, &entropy, reason));
    s->seen.entropy_ns += entropy;
    s->seen.decode_ns += took;
    return STK_OK;
}

/* The tally of a picture is its own, and counts when the picture is sound. */
static stk_status decode_values(surveyor *s, const stk_value *value, const char **reason)
{
    tally picture = {0};

    STK_TRY(decode(s, value, &picture, reason));
    for (uint32_t c = 0; c < DECODED_PIXEL; c++) {
        s->seen.sum[c] += picture.sum[c];
        s->seen.squares[c] += picture.squares[c];
    }
    s->seen.decoded_pixels += picture.decoded_pixels;
    if (stk__image_recognize(value->data, value->size) == STK__IMAGE_JPEG &&
        s->run->options->entropy_every && s->jpegs++ % s->run->options->entropy_every == 0)
        return time_entropy(s, value, reason);
    return STK_OK;
}

static stk_status look_encoded(surveyor *s, const stk_value *value, const char **reason)
{
    stk_survey *found = &s->seen.found;
    stk__share *memory = &s->run->decoding; /* libjpeg's is not the context's */
    stk__image_info info;

    STK_TRY(stk__image_peek(value->data, value->size, &s->run->limits, &info, reason));
    stk_status status = stk__share_take(memory, info.memory, s->reason);
    if (status != STK_OK) {
        *reason = s->reason;
        return status;
    }
    status = decode_values(s, value, reason);
    stk__share_give(memory, info.memory);
    STK_TRY(status);
    found->bytes += value->size;
    found->jpeg += info.format == STK__IMAGE_JPEG;
    found->jpeg_progressive += info.format == STK__IMAGE_JPEG && info.progressive;
    found->png += info.format == STK__IMAGE_PNG;
    found->grey += info.channels <= 2;
    found->turned += info.orientation != 1;
    add_size(found, &s->seen, info.width, info.height);
    return STK_OK;
}

static void look_raw(surveyor *s, const stk_value *value)
{
    const stk_field *field = &s->run->dataset->fields[s->run->field];
    const uint64_t height = (uint64_t)field->shape[0], width = (uint64_t)field->shape[1];
    const uint32_t channels = (uint32_t)field->shape[2];

    s->seen.found.bytes += value->size;
    s->seen.found.grey += channels <= 2;
    add_size(&s->seen.found, &s->seen, (uint32_t)width, (uint32_t)height);
    for (uint64_t y = 0; y < height; y++)
        add_values(&s->seen, (const uint8_t *)value->data + y * width * channels, width, channels);
}

static void count_label(surveyor *s)
{
    int64_t label;

    if (s->run->label < 0 || !s->class_counts)
        return;
    memcpy(&label, s->sample.values[s->run->label].data, sizeof label);
    if (label >= 0 && (uint64_t)label < s->run->dataset->num_classes)
        s->class_counts[label]++;
}

static void note_broken(surveyor *s, uint64_t index, stk_status status, const char *reason)
{
    const bool unread = status == STK_EBUDGET || status == STK_EACCES;
    survey *run = s->run;

    s->seen.found.broken += !unread;
    s->seen.found.unread += unread;
    if (!run->broken)
        return;
    pthread_mutex_lock(&run->lock);
    run->broken(run->user, index, s->sample.key, unread, reason ? reason : stk_status_text(status));
    pthread_mutex_unlock(&run->lock);
}

static void fail(survey *run, stk_status status, const stk_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->failure.status == STK_OK) {
        run->failure = *err;
        if (run->failure.status == STK_OK)
            (void)stk__fail(&run->failure, status, STK_STAGE_DATASET, "survey: %s",
                            stk_status_text(status));
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->stop, true);
}

static void look(surveyor *s, uint64_t index)
{
    const stk_field *field = &s->run->dataset->fields[s->run->field];
    const char *reason;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk__survey_sample_take(&s->sample, index, &reason, &err);
    if (status == STK_OK) {
        const stk_value *value = &s->sample.values[s->run->field];

        if (field->layout == STK_BYTES)
            status = look_encoded(s, value, &reason);
        else
            look_raw(s, value);
    }
    s->seen.found.pictures++;
    if (status == STK_OK)
        count_label(s);
    else if (stk_status_fault(status) == STK_FAULT_SAMPLE)
        note_broken(s, index, status, reason ? reason : err.text[0] ? err.text : NULL);
    else
        fail(s->run, status, &err);
    stk__survey_sample_drop(&s->sample);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void add_tally(survey *run, const tally *t)
{
    stk_survey *a = &run->all.found;
    const stk_survey *b = &t->found;
    const bool first = !a->max_width;

    a->pictures += b->pictures;
    a->broken += b->broken;
    a->unread += b->unread;
    a->bytes += b->bytes;
    a->jpeg += b->jpeg;
    a->jpeg_progressive += b->jpeg_progressive;
    a->png += b->png;
    a->grey += b->grey;
    a->turned += b->turned;
    for (uint32_t i = 0; i < STK_SURVEY_SIDES; i++)
        a->sides[i] += b->sides[i];
    if (b->max_width) {
        a->min_width = first ? b->min_width : STK_MIN(a->min_width, b->min_width);
        a->min_height = first ? b->min_height : STK_MIN(a->min_height, b->min_height);
        a->max_width = STK_MAX(a->max_width, b->max_width);
        a->max_height = STK_MAX(a->max_height, b->max_height);
    }
    for (uint32_t c = 0; c < MOST_CHANNELS; c++) {
        run->all.sum[c] += t->sum[c];
        run->all.squares[c] += t->squares[c];
    }
    run->all.widths += t->widths;
    run->all.heights += t->heights;
    run->all.decoded_pixels += t->decoded_pixels;
    run->all.entropy_ns += t->entropy_ns;
    run->all.decode_ns += t->decode_ns;
}

static stk_status surveyor_init(surveyor *s, survey *run)
{
    const stk_dataset *dataset = run->dataset;
    stk_context *ctx = dataset->context;

    *s = (surveyor){.run = run};
    STK_TRY(stk__survey_sample_init(&s->sample, run->dataset, &run->files));
    s->class_counts = stk__calloc(ctx, dataset->num_classes + 1, sizeof *s->class_counts);
    if (!s->class_counts)
        return STK_ENOMEM;
    return dataset->fields[run->field].layout == STK_BYTES
               ? stk__image_decoder_create(ctx, &run->limits, DECODED_PIXEL, &s->decoder, NULL)
               : STK_OK;
}

static void surveyor_release(surveyor *s)
{
    stk_context *ctx = s->run->dataset->context;

    stk__image_decoder_destroy(&s->decoder);
    stk__survey_sample_release(&s->sample);
    stk__free(ctx, s->class_counts);
}

/* Sample `k` of those to look at: evenly spread over the dataset. */
static uint64_t index_of(const survey *run, uint64_t k)
{
    return (uint64_t)((unsigned __int128)k * run->dataset->size / run->count);
}

static void work(void *argument)
{
    survey *run = argument;
    surveyor s;
    stk_error err;

    stk_error_init(&err);
    stk_status status = surveyor_init(&s, run);
    if (status != STK_OK)
        fail(run, status, &err);
    while (!atomic_load(&run->stop)) {
        uint64_t first = atomic_fetch_add(&run->next, CLAIM);

        if (first >= run->count)
            break;
        for (uint64_t k = first; k < STK_MIN(first + CLAIM, run->count) && !atomic_load(&run->stop);
             k++) {
            look(&s, index_of(run, k));
            atomic_fetch_add(&run->done, 1);
        }
    }
    pthread_mutex_lock(&run->lock);
    add_tally(run, &s.seen);
    for (uint32_t c = 0; run->class_counts && s.class_counts && c < run->dataset->num_classes; c++)
        run->class_counts[c] += s.class_counts[c];
    run->running--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    surveyor_release(&s);
}

/* Start the threads and tell of progress until they have ended. */
static stk_status run_threads(survey *run, uint32_t workers, stk_error *err)
{
    stk_context *ctx = run->dataset->context;
    stk__thread *threads = stk__calloc(ctx, workers, sizeof *threads);
    stk_status status = threads ? STK_OK : STK_ENOMEM;
    uint32_t started = 0;

    run->running = workers; /* there is no other thread yet */
    for (; status == STK_OK && started < workers; started += status == STK_OK)
        status = stk__thread_start(ctx, &threads[started], "stk-survey", work, run, err);
    if (started) /* fewer threads do it as well */
        status = STK_OK;
    pthread_mutex_lock(&run->lock);
    run->running -= workers - started;
    while (run->running) {
        stk__cond_wait_until(&run->changed, &run->lock, stk__now_ns() + PROGRESS_NS);
        pthread_mutex_unlock(&run->lock);
        stk__progress(ctx, "reading pictures", atomic_load(&run->done), run->count);
        if (run->options->stop && run->options->stop(run->user))
            atomic_store(&run->stop, true);
        pthread_mutex_lock(&run->lock);
    }
    pthread_mutex_unlock(&run->lock);
    for (uint32_t i = 0; i < started; i++)
        stk__thread_join(&threads[i]);
    stk__free(ctx, threads);
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static stk_status choose_fields(survey *run, stk_error *err)
{
    const stk_dataset *dataset = run->dataset;

    run->label = -1;
    run->field = UINT32_MAX;
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        const stk_field *field = &dataset->fields[f];
        const bool encoded = field->layout == STK_BYTES && strcmp(field->codec, "image") == 0;
        const bool raw = field->layout == STK_FIXED && field->dtype == STK_UINT8 &&
                         field->rank == 3 && field->shape[2] >= 1 &&
                         field->shape[2] <= MOST_CHANNELS;

        if (field->picture && (encoded || raw) && run->field == UINT32_MAX)
            run->field = f;
        if (field->layout == STK_FIXED && field->dtype == STK_INT64 && field->rank == 0 &&
            strcmp(field->name, "label") == 0)
            run->label = (int32_t)f;
    }
    return run->field != UINT32_MAX
               ? STK_OK
               : stk__fail(err, STK_EKIND, STK_STAGE_DATASET,
                           "this dataset has no pictures: a survey reads JPEG, PNG, or uint8 "
                           "[height, width, channels]");
}

static void conclude(const survey *run, stk_survey *out)
{
    const stk_field *field = &run->dataset->fields[run->field];
    const double n = (double)run->all.decoded_pixels;
    const stk_survey *found = &run->all.found;
    const double sound = (double)(found->pictures - found->broken - found->unread);

    *out = run->all.found;
    out->struct_size = sizeof *out;
    out->channels = field->layout == STK_BYTES ? DECODED_PIXEL : (uint32_t)field->shape[2];
    out->mean_width = sound > 0 ? (double)run->all.widths / sound : 0;
    out->mean_height = sound > 0 ? (double)run->all.heights / sound : 0;
    for (uint32_t c = 0; c < out->channels && n > 0; c++) {
        double mean = (double)run->all.sum[c] / n, square = (double)run->all.squares[c] / n;

        out->mean[c] = mean / 255.0;
        out->std[c] = sqrt(STK_MAX(square - mean * mean, 0.0)) / 255.0;
    }
    out->entropy_share =
        run->all.decode_ns ? (double)run->all.entropy_ns / (double)run->all.decode_ns : -1.0;
    out->entropy_share = STK_MIN(out->entropy_share, 1.0);
}

/* What the survey may hold, and which pictures it takes. */
static void choose_limits(survey *run)
{
    const uint64_t memory = stk__context_memory_limit(run->dataset->context);

    stk__share_init(&run->files, memory / FILES_PART, "its file", "a quarter", "");
    stk__share_init(&run->decoding, memory / DECODE_PART, "decoding it", "half",
                    ", or save a progressive or interlaced picture again as one that is not");
    stk__image_limits_init(&run->limits);
    run->limits.max_pixels = run->options->max_pixels;
    run->limits.max_blocks = run->options->max_blocks;
    run->limits.max_memory = UINT64_MAX; /* a share's */
}

stk_status stk_survey_run(stk_dataset *dataset, const stk_survey_options *options,
                          uint64_t *class_counts, stk_survey_broken_fn *broken, void *user,
                          stk_survey *out, stk_error *err)
{
    stk_survey_options o;
    survey run = {.dataset = dataset,
                  .options = &o,
                  .class_counts = class_counts,
                  .broken = broken,
                  .user = user};
    stk_cores cores = {.struct_size = sizeof cores};
    stk_survey found = {.struct_size = sizeof found};

    STK_TRY(stk__sized_check(out, "stk_survey", STK_STAGE_DATASET, err));
    stk__sized_write(out, &found);
    STK_TRY(stk__context_check(dataset->context, err));
    stk_survey_options_init(&o);
    if (options)
        STK_TRY(
            stk__sized_read(&o, sizeof o, options, "stk_survey_options", STK_STAGE_DATASET, err));
    STK_TRY(choose_fields(&run, err));
    choose_limits(&run);
    run.count = o.limit ? STK_MIN(o.limit, dataset->size) : dataset->size;
    stk_context_cores(dataset->context, &cores);
    uint64_t workers = o.num_workers == STK_AUTO ? cores.usable : (uint64_t)o.num_workers;
    workers = STK_MIN(STK_MAX(workers, 1), MOST_WORKERS);
    if (class_counts)
        memset(class_counts, 0, dataset->num_classes * sizeof *class_counts);
    pthread_mutex_init(&run.lock, NULL);
    stk__cond_init(&run.changed);
    stk_status status = run_threads(&run, (uint32_t)workers, err);
    stk__share_release(&run.files);
    stk__share_release(&run.decoding);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_DATASET, "no thread for the survey: %s",
                         stk_status_text(status));
    if (run.failure.status != STK_OK) {
        if (err)
            *err = run.failure;
        return run.failure.status;
    }
    if (run.stop)
        return stk__fail(err, STK_ECANCELED, STK_STAGE_DATASET,
                         "the survey was interrupted after %" PRIu64 " of %" PRIu64 " pictures",
                         (uint64_t)run.done, run.count);
    conclude(&run, &found);
    stk__sized_write(out, &found);
    return STK_OK;
}
