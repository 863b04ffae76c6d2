/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any dataset as shards of WebDataset: tars [POSIX.1-2017, "ustar Interchange Format"] of samples
 * in their order, each a few members of one number. A shard has its name when it is whole; a
 * conversion that was stopped begins again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/npy_head.h"
#include "codec/image/image.h"
#include "convert/shards.h"
#include "convert/unpacked.h"
#include "dataset/dataset.h"

#define BLOCK      512u
#define MOST_BYTES ((UINT64_C(1) << 33) - 1) /* of a member: 11 octal digits */
#define MOST_NAME  100                       /* bytes of the name of a member, with its end */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write a sample");
}

/* ---- Members --------------------------------------------------------------------------------- */

/* What the bytes of a picture are; NULL: none that is read. */
static const char *picture_end(const stk_value *value)
{
    static const char *const ends[] = {
        [STK__IMAGE_JPEG] = "jpg", [STK__IMAGE_PNG] = "png", [STK__IMAGE_PPM] = "ppm"};

    return ends[stk__image_recognize(value->data, value->size)];
}

static bool is_label(const stk_field *field)
{
    return field->layout == STK_FIXED && field->rank == 0 && field->dtype == STK_INT64;
}

/* The extension of a field: the name that reading makes its field of. */
static void name_extension(const stk_field *field, const char *end, char *out, size_t size)
{
    const char *usual = is_label(field) ? "label" : "image", *name = field->name;
    const bool same = !end || strcmp(name, end) == 0 ||
                      (strlen(name) > strlen(end) && name[strlen(name) - strlen(end) - 1] == '.' &&
                       strcmp(name + strlen(name) - strlen(end), end) == 0);

    if (same)
        snprintf(out, size, "%s", name);
    else if ((field->codec[0] || is_label(field)) && strcmp(name, usual) == 0)
        snprintf(out, size, "%s", end);
    else
        snprintf(out, size, "%s.%s", name, end);
}

/* A header: what is not set is zero. */
static stk_status add_header(stk__bytes *to, const char *name, uint64_t size, stk_error *err)
{
    unsigned char head[BLOCK] = {0};
    unsigned sum = 0;

    if (size > MOST_BYTES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "%s has %" PRIu64 " bytes; a member has at most %" PRIu64, name, size,
                         MOST_BYTES);
    snprintf((char *)head, MOST_NAME, "%s", name);
    memcpy(head + 100, "0000644", 8);
    memcpy(head + 108, "0000000", 8);
    memcpy(head + 116, "0000000", 8);
    snprintf((char *)head + 124, 12, "%011" PRIo64, size & MOST_BYTES);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum & 0777777);
    return stk__bytes_put(to, head, sizeof head) ? STK_OK : no_memory(err);
}

static stk_status add_member(stk__bytes *to, uint64_t number, const char *extension,
                             const void *head, size_t head_size, const void *data, uint64_t size,
                             stk_error *err)
{
    static const char zeros[BLOCK];
    const uint64_t all = head_size + size;
    char name[MOST_NAME];

    const int n = snprintf(name, sizeof name, "%09" PRIu64 ".%s", number, extension);
    if (n < 0 || (size_t)n >= sizeof name || strpbrk(extension, "/"))
        return stk__fail(err, STK_EKIND, STK_STAGE_CONVERT,
                         "the field '%.100s' has no name that a member can have", extension);
    STK_TRY(add_header(to, name, all, err));
    if (stk__bytes_put(to, head, head_size) && stk__bytes_put(to, data, size) &&
        stk__bytes_put(to, zeros, stk__round_up(all, BLOCK) - all))
        return STK_OK;
    return no_memory(err);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* The head of the array that a value is. */
static size_t npy_head(const stk_field *field, uint64_t size, char out[STK__NPY_HEAD])
{
    uint64_t row = stk_dtype_size(field->dtype);
    int64_t shape[STK_MAX_RANK];

    memcpy(shape, field->shape, sizeof shape);
    for (uint32_t i = field->layout == STK_RAGGED; i < field->rank; i++)
        row *= (uint64_t)shape[i];
    if (field->layout == STK_RAGGED)
        shape[0] = row ? (int64_t)(size / row) : 0;
    return stk__npy_head(out, field->dtype, shape, field->rank);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static stk_status add_field(stk__bytes *to, uint64_t number, const stk_field *field,
                            const stk_value *value, stk_error *err)
{
    char extension[MOST_NAME + 8], head[STK__NPY_HEAD];
    int64_t label;

    if (field->codec[0]) {
        const char *end = picture_end(value);
        if (!end)
            return stk__fail(err, STK_EFORMAT, STK_STAGE_CONVERT,
                             "sample %" PRIu64 ": '%.60s' is no JPEG, PNG or PPM", number,
                             field->name);
        name_extension(field, end, extension, sizeof extension);
        return add_member(to, number, extension, "", 0, value->data, value->size, err);
    }
    if (field->layout == STK_BYTES)
        return add_member(to, number, field->name, "", 0, value->data, value->size, err);
    if (is_label(field)) {
        memcpy(&label, value->data, sizeof label);
        const int n = snprintf(head, sizeof head, "%" PRId64, label);
        name_extension(field, "cls", extension, sizeof extension);
        return add_member(to, number, extension, head, (size_t)n, "", 0, err);
    }
    name_extension(field, "npy", extension, sizeof extension);
    const size_t n = npy_head(field, value->size, head);
    return add_member(to, number, extension, head, n, value->data, value->size, err);
}

static stk_status add_sample(const stk__samples *samples, size_t i, uint64_t number, stk__bytes *to,
                             stk_error *err)
{
    const stk_dataset *dataset = samples->dataset;

    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        const stk_value value = {.data = stk__samples_value(samples, i, f),
                                 .size = stk__samples_size(samples, i, f)};
        STK_TRY(add_field(to, number, &dataset->fields[f], &value, err));
    }
    return STK_OK;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    static const char end[2 * BLOCK];
    static const stk__shards_format format = {
        .ending = ".tar", .tail = end, .tail_bytes = sizeof end, .record = add_sample};
    const stk_convert_shards_options *own = job->own;

    if (!job->dataset)
        return stk__unpacked_run(job, true, report, err);
    return stk__shards_write(job, &format, own->shard_size, report, err);
}

static bool accepts(const stk_dataset *dataset, const char **why)
{
    *why = NULL;
    if (dataset->ops->decode)
        *why = "has samples that are put together of compressed pieces; convert pictures, npy or "
               "other shards";
    for (uint32_t f = 0; !*why && f < dataset->num_fields; f++) {
        const stk_field *field = &dataset->fields[f];
        if (field->layout != STK_BYTES && !stk__npy_code(field->dtype))
            *why = "has a field of a type that npy does not have";
        for (uint32_t i = 1; field->layout == STK_RAGGED && i < field->rank; i++)
            if (field->shape[i] < 0)
                *why = "has a field that varies in more than its first dimension";
    }
    return !*why;
}

const stk_converter_ops stk__convert_webdataset = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "webdataset",
    .from = "any samples",
    .doc = "shards of WebDataset",
    .options = &stk__convert_shards_option_table,
    .endings = "|.webdataset|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run,
    .takes = stk__unpacked_takes,
};
