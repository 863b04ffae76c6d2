/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does with one picture after the other: read, decode, resize, put in its place. */
#include <inttypes.h>
#include <stdio.h>

#include "codec/image/image.h"
#include "convert/packed.h"
#include "store/store.h"

#define PIECE       UINT64_C(16)    /* rows that a thread takes at a time */
#define HEADER_MOST UINT64_C(65536) /* bytes of a file that are read for its header, at first */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for workers");
}

/* ---- Members --------------------------------------------------------------------------------- */

static stk_status member_open(stk__packed *p, stk__packed_member *m, stk_error *err)
{
    if (stk__survey_sample_init(&m->sample, p->dataset, &p->files) != STK_OK ||
        stk__decoding_create(p->context, &p->room, &m->decoding) != STK_OK)
        return no_memory(err);
    if (p->scratch)
        m->scratch = stk__alloc_buffer(p->context, p->scratch);
    return p->scratch && !m->scratch ? no_memory(err) : STK_OK;
}

stk_status stk__packed_members_open(stk__packed *p, stk_error *err)
{
    stk_status status = STK_OK;

    p->members = stk__calloc(p->context, p->num_members, sizeof *p->members);
    for (uint32_t i = 0; p->members && status == STK_OK && i < p->num_members; i++)
        status = member_open(p, &p->members[i], err);
    return p->members ? status : no_memory(err);
}

void stk__packed_members_close(stk__packed *p)
{
    for (uint32_t i = 0; p->members && i < p->num_members; i++) {
        stk__packed_member *m = &p->members[i];
        if (m->sample.dataset)
            stk__survey_sample_release(&m->sample);
        stk__decoding_destroy(&m->decoding);
        stk__pipeline_destroy(&m->sized);
        stk__free(p->context, m->scratch);
        stk__free(p->context, m->spare);
    }
    stk__free(p->context, p->members);
    p->members = NULL;
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* What a row failed with, with its name. */
static stk_status fail_row(const stk__packed_member *m, uint64_t row, stk_status status,
                           const char *reason, stk_error *err)
{
    char number[40];

    snprintf(number, sizeof number, "sample %" PRIu64, row);
    if (reason || !err || err->status == STK_OK)
        stk__image_fail(err, status, m->sample.key[0] ? m->sample.key : number,
                        reason ? reason : stk_status_text(status));
    if (err)
        err->sample = row;
    return status;
}

/* What does not fit the budget is sound: more memory would take it. */
static bool may_skip(const stk__packed *p, stk_status status)
{
    return p->skips && status != STK_EBUDGET && stk_status_fault(status) == STK_FAULT_SAMPLE;
}

stk_status stk__packed_left_out(stk__packed *p, uint64_t count, const char *last, stk_error *err)
{
    if (atomic_fetch_add(&p->left_out, count) + count <= p->max_errors)
        return STK_OK;
    return stk__fail(err, STK_EBADSAMPLES, STK_STAGE_CONVERT,
                     "%" PRIu64 " broken sources, max_errors allows %" PRIu64 ": mend the data or "
                     "raise max_errors%s%.300s",
                     p->max_errors + 1, p->max_errors, last ? "; one of them: " : "",
                     last ? last : "");
}

/* A row that failed with `err`: the end of the conversion, or one that is left out. */
static stk_status leave_out(stk__packed *p, uint64_t row, stk_error *err)
{
    if (!may_skip(p, err->status))
        return err->status;
    stk__message(p->context, STK_MESSAGE_WARNING, "left out: %s", err->text);
    p->kept[row - p->group_first] = 0;
    char last[STK_ERROR_TEXT];
    snprintf(last, sizeof last, "%s", err->text);
    return stk__packed_left_out(p, 1, last, err);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The pipeline of a picture of the ragged layout. */
static stk_status sized_pipeline(stk__packed *p, stk__packed_member *m, uint64_t row,
                                 stk_error *err)
{
    const stk_field *field = &p->dataset->fields[p->image];
    const stk__packed_side side = p->sides[row];
    stk_transform_header header = {
        .dtype = STK_UINT8, .rank = 3, .picture = true, .encoded = p->encoded};
    char text[64];

    if (m->sized && m->side.height == side.height && m->side.width == side.width)
        return STK_OK;
    stk__pipeline_destroy(&m->sized);
    memcpy(header.shape, field->shape, 3 * sizeof *header.shape);
    snprintf(text, sizeof text, "resize(%" PRIu32 "x%" PRIu32 ")", side.height, side.width);
    STK_TRY(stk__pipeline_create(p->context, text, &header, &m->sized, err));
    m->side = side;
    stk__free(p->context, m->scratch);
    m->scratch = stk__alloc_buffer(p->context, stk__pipeline_scratch(m->sized));
    return m->scratch ? STK_OK : no_memory(err);
}

/* The packed picture of a sample that is there. */
static stk_status pack(stk__packed *p, stk__packed_member *m, uint64_t row, uint8_t *out,
                       const char **reason, stk_error *err)
{
    const stk_value *value = &m->sample.values[p->image];
    const uint64_t epoch = 0;
    const void *source = value->data;
    void *target = out;
    stk_status status = STK_OK;
    uint64_t memory = 0;

    if (p->ragged)
        STK_TRY(sized_pipeline(p, m, row, err));
    const stk__pipeline *pipeline = p->ragged ? m->sized : p->pipeline;
    if (!pipeline) {
        memcpy(out, source, p->picture_bytes);
        return STK_OK;
    }
    if (p->encoded) {
        const stk_slice file = {.data = source, .size = value->size};
        stk__pipeline_decode(pipeline, 0, 1, &epoch, &row, &file, &target, &status, reason, &memory,
                             m->scratch, m->decoding);
    } else {
        stk__pipeline_run(pipeline, 0, 1, &epoch, &row, NULL, &source, &target, &status,
                          m->scratch);
    }
    return status;
}

static void note_label(stk__packed *p, const stk__packed_member *m, uint64_t row)
{
    memcpy(&p->labels[row - p->group_first], m->sample.values[p->label].data, sizeof *p->labels);
}

/* The name of the file of a sample, of which bytes that are no UTF-8 become '?'. */
static stk_status note_name(stk__packed *p, stk__packed_member *m, uint64_t row, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;

    if (!p->names || !m->sample.num_needs)
        return STK_OK;
    p->dataset->ops->object(p->dataset, m->sample.needs[0].object, &store, key, sizeof key);
    for (char *at = key, *end = key + strlen(key); at < end;) {
        const size_t n = stk__utf8_character(at, (size_t)(end - at));
        *at = n ? *at : '?';
        at += STK_MAX(n, 1);
    }
    char **name = &p->names[row - p->group_first];
    stk__free(p->context, *name);
    *name = stk__strdup(p->context, key);
    return *name ? STK_OK : no_memory(err);
}

/* Take a row; `out` NULL: its shard is done, and label and name are wanted, and whether it is
 * sound. */
static stk_status take_row(stk__packed *p, stk__packed_member *m, uint64_t row, uint8_t *out,
                           stk_error *err)
{
    const uint64_t bytes = stk__packed_row_bytes(p, row);
    const char *reason = NULL;

    stk_status status = stk__survey_sample_take(&m->sample, row, &reason, err);
    if (status == STK_OK) {
        note_label(p, m, row);
        status = note_name(p, m, row, err);
    }
    if (status == STK_OK && !out && p->skips && p->encoded) {
        out = stk__grow(p->context, m->spare, &m->spare_room, bytes, 1);
        m->spare = out ? out : m->spare;
        status = out ? STK_OK : no_memory(err);
    }
    if (status == STK_OK && p->ragged && !bytes)
        status = STK_EFORMAT;
    if (status == STK_OK && out)
        status = pack(p, m, row, out, &reason, err);
    if (status != STK_OK)
        fail_row(m, row, status, reason, err);
    stk__survey_sample_drop(&m->sample);
    return status;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

static stk_status fill_piece(void *user, uint32_t member, uint64_t task, stk_error *err)
{
    stk__packed *p = user;
    stk__packed_member *m = &p->members[member];
    const uint64_t first = stk__packed_first_row(p, p->first_shard) + task * PIECE;
    const uint64_t end = stk__packed_first_row(p, p->first_shard + p->num_shards);

    for (uint64_t row = first; row < STK_MIN(first + PIECE, end); row++) {
        const uint64_t shard = stk__packed_shard_of(p, row);
        const bool done = p->target->ops->has_object(p->target, p->at.pixels, shard);
        uint8_t *out =
            done ? NULL : p->slabs[shard - p->first_shard] + stk__packed_row_at(p, shard, row);
        if (p->job->canceled(p->job))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT, "stopped");
        const stk_status status = take_row(p, m, row, out, err);
        if (status == STK_OK && out && p->ragged)
            (void)stk__packed_head(p, row, (char *)out - stk__packed_head(p, row, NULL));
        if (status != STK_OK) {
            STK_TRY(leave_out(p, row, err));
            stk_error_init(err);
            if (out)
                memset(out, 0, stk__packed_row_bytes(p, row));
        }
        atomic_fetch_add(&p->passed, 1);
    }
    return STK_OK;
}

stk_status stk__packed_fill(stk__packed *p, stk_error *err)
{
    const uint64_t rows = stk__packed_first_row(p, p->first_shard + p->num_shards) -
                          stk__packed_first_row(p, p->first_shard);

    return stk__crew_run(p->crew, 0, (rows - 1) / PIECE + 1, fill_piece, stk__packed_watch, p, err);
}

/* ---- Sides ----------------------------------------------------------------------------------- */

/* False: the sides are more than a reader takes. */
static bool find_sides(const stk__packed *p, uint64_t height, uint64_t width, stk__packed_side *out)
{
    int64_t w, h;

    stk__resized_sides((int64_t)p->short_side, 0, (int64_t)width, (int64_t)height, &w, &h);
    const uint64_t most = STK_MIN(p->options->max_pixels / p->short_side, UINT32_MAX);
    if ((uint64_t)STK_MAX(w, h) > most)
        return false;
    *out = (stk__packed_side){.height = (uint32_t)h, .width = (uint32_t)w};
    return true;
}

/* Read the head of a file, or all of it where that does not reach the pixels. */
static stk_status peek(stk__packed *p, stk__packed_member *m, uint64_t row, stk__image_info *info,
                       const char **reason, stk_error *err)
{
    stk__image_limits limits;
    stk_status status = STK_ETRUNCATED;

    stk__image_limits_init(&limits);
    limits.max_pixels = p->options->max_pixels;
    limits.max_blocks = p->options->max_blocks;
    for (uint64_t most = HEADER_MOST; status == STK_ETRUNCATED;) {
        m->sample.most = most;
        status = stk__survey_sample_take(&m->sample, row, reason, err);
        m->sample.most = 0;
        const uint64_t read = m->sample.values[p->image].size;
        if (status == STK_OK)
            status = stk__image_peek(m->sample.values[p->image].data, read, &limits, info, reason);
        stk__survey_sample_drop(&m->sample);
        if (!most || status != STK_ETRUNCATED || read < most)
            break;
        most = 0;
    }
    return status;
}

static stk_status measure_row(stk__packed *p, stk__packed_member *m, uint64_t row, stk_error *err)
{
    const stk_field *field = &p->dataset->fields[p->image];
    const char *reason = NULL;
    stk__image_info info = {.height = (uint32_t)field->shape[0],
                            .width = (uint32_t)field->shape[1]};

    stk_status status = p->encoded ? peek(p, m, row, &info, &reason, err) : STK_OK;
    if (status == STK_OK && find_sides(p, info.height, info.width, &p->sides[row]))
        return STK_OK;
    if (status == STK_OK) {
        status = STK_ELIMIT;
        reason = "with this shorter side it has more pixels than max_pixels allows";
    }
    fail_row(m, row, status, reason, err);
    /* It is told, and counted, when its turn comes. */
    if (!may_skip(p, status))
        return status;
    stk_error_init(err);
    return STK_OK;
}

static stk_status measure_piece(void *user, uint32_t member, uint64_t task, stk_error *err)
{
    stk__packed *p = user;
    const uint64_t end = STK_MIN((task + 1) * PIECE, p->rows);

    for (uint64_t row = task * PIECE; row < end; row++)
        STK_TRY(measure_row(p, &p->members[member], row, err));
    return STK_OK;
}

stk_status stk__packed_measure(stk__packed *p, stk_error *err)
{
    p->sides = stk__calloc(p->context, p->rows, sizeof *p->sides);
    if (!p->sides)
        return no_memory(err);
    STK_TRY(stk__crew_run(p->crew, 0, (p->rows - 1) / PIECE + 1, measure_piece, stk__packed_watch,
                          p, err));
    for (uint64_t row = 0; row < p->rows; row++)
        p->picture_bytes = STK_MAX(p->picture_bytes, stk__packed_row_bytes(p, row));
    return STK_OK;
}

stk_status stk__packed_try(stk__packed *p, stk__packed_member *m, uint64_t row, uint64_t *bytes,
                           uint64_t *cpu_ns, stk_error *err)
{
    const char *reason = NULL;

    if (p->ragged)
        STK_TRY(measure_row(p, m, row, err));
    *bytes = stk__packed_row_bytes(p, row);
    uint8_t *spare = stk__grow(p->context, m->spare, &m->spare_room, *bytes, 1);
    if (!spare)
        return no_memory(err);
    m->spare = spare;
    stk_status status = stk__survey_sample_take(&m->sample, row, &reason, err);
    const uint64_t start = stk__thread_cpu_ns();
    if (status == STK_OK)
        status = *bytes ? pack(p, m, row, m->spare, &reason, err) : STK_EFORMAT;
    *cpu_ns = stk__thread_cpu_ns() - start;
    if (status != STK_OK)
        fail_row(m, row, status, reason, err);
    stk__survey_sample_drop(&m->sample);
    return status;
}
