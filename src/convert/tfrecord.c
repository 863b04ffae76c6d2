/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any samples as TFRecord shards of tf.train.Example. Encoded pictures and bytes are a bytes_list,
 * float32 a float_list, integers an int64_list; what these do not hold (pictures of pixels, other
 * floats, uint64) lies little-endian in a bytes_list, as tf.io.decode_raw reads it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "base/proto.h"
#include "codec/codec.h"
#include "convert/shards.h"
#include "convert/unpacked.h"
#include "dataset/dataset.h"

enum { EXAMPLE_FEATURES = 1, MAP_ENTRY = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2, LIST_VALUE = 1 };
enum { LIST_BYTES = 1, LIST_FLOATS = 2, LIST_INTEGERS = 3 }; /* of a Feature */

/* ---- Fields ---------------------------------------------------------------------------------- */

static bool is_integer(stk_dtype dtype)
{
    return dtype == STK_BOOL || (dtype >= STK_UINT8 && dtype <= STK_INT64 && dtype != STK_UINT64);
}

/* The list that the values of a field become. Pixels are bytes: a varint for each is no way. */
static int list_of(const stk_field *f)
{
    if (f->layout == STK_BYTES || (f->dtype == STK_UINT8 && f->layout == STK_FIXED && f->rank > 1))
        return LIST_BYTES;
    return f->dtype == STK_FLOAT32 ? LIST_FLOATS
           : is_integer(f->dtype)  ? LIST_INTEGERS
                                   : LIST_BYTES;
}

static bool has_encoded(const stk_dataset *dataset)
{
    const stk_field *image = stk__convert_field(dataset, "image");

    return image && image->layout == STK_BYTES && strcmp(image->codec, "image") == 0;
}

/* The names that everybody uses, which are read as `image` and `label` again. */
static const char *feature_of(const stk_dataset *dataset, const stk_field *f)
{
    const bool encoded = has_encoded(dataset),
               pixels = f->layout == STK_FIXED && list_of(f) == LIST_BYTES;

    if (strcmp(f->name, "image") == 0 && (encoded || pixels))
        return encoded ? "image/encoded" : "image_raw";
    return strcmp(f->name, "label") == 0 && encoded ? "image/class/label" : f->name;
}

/* The schema that reads them again. */
static void add_schema(const stk_dataset *dataset, const stk_field *f, stk__text *to)
{
    const bool raw = f->layout != STK_BYTES && list_of(f) == LIST_BYTES;

    stk__text_add(to, "%s%s:", to->length ? "," : "", feature_of(dataset, f));
    if (f->layout == STK_BYTES) {
        stk__text_add(to, *f->codec ? "image" : "bytes");
        return;
    }
    stk__text_add(to, "%s%s", raw ? "raw_" : "",
                  f->dtype == STK_BOOL ? "uint8" : stk_dtype_name(f->dtype));
    if (f->layout == STK_RAGGED)
        stk__text_add(to, "[]");
    for (uint32_t k = 0; f->layout == STK_FIXED && k < f->rank; k++)
        stk__text_add(to, "%s%" PRId64 "%s", k ? "," : "[", f->shape[k],
                      k + 1 == f->rank ? "]" : "");
}

/* ---- Records --------------------------------------------------------------------------------- */

static int64_t integer_at(const uint8_t *at, stk_dtype dtype)
{
    const size_t size = stk_dtype_size(dtype);
    const uint64_t bits = stk__little_endian(at, (unsigned)size);
    const bool is_signed = dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32;

    if (is_signed && bits >> (8 * size - 1))
        return (int64_t)(bits | UINT64_MAX << (8 * size));
    return (int64_t)bits;
}

static bool put_integers(stk__bytes *to, const stk_field *f, const uint8_t *data, uint64_t length)
{
    const size_t size = stk_dtype_size(f->dtype), begun = stk__proto_begin(to, LIST_VALUE);

    if (!begun)
        return false;
    for (uint64_t at = 0; at < length; at += size)
        if (!stk__proto_put_varint(to, (uint64_t)integer_at(data + at, f->dtype)))
            return false;
    return stk__proto_end(to, begun);
}

static bool put_values(stk__bytes *to, const stk_field *f, const void *data, uint64_t length)
{
    const int list = list_of(f);
    const size_t begun = stk__proto_begin(to, (unsigned)list);

    if (!begun)
        return false;
    if (list == LIST_INTEGERS && !put_integers(to, f, data, length))
        return false;
    /* Floats that are packed are their bytes. */
    if (list != LIST_INTEGERS &&
        !(stk__proto_head(to, LIST_VALUE, length) && stk__bytes_put(to, data, (size_t)length)))
        return false;
    return stk__proto_end(to, begun);
}

static bool put_example(const stk__samples *samples, size_t i, stk__bytes *to)
{
    const stk_dataset *d = samples->dataset;
    const size_t features = stk__proto_begin(to, EXAMPLE_FEATURES);

    for (uint32_t f = 0; features && f < d->num_fields; f++) {
        const size_t entry = stk__proto_begin(to, MAP_ENTRY);
        if (!entry || !stk__proto_text(to, ENTRY_KEY, feature_of(d, &d->fields[f])))
            return false;
        const size_t value = stk__proto_begin(to, ENTRY_VALUE);
        if (!value ||
            !put_values(to, &d->fields[f], stk__samples_value(samples, i, f),
                        stk__samples_size(samples, i, f)) ||
            !stk__proto_end(to, value) || !stk__proto_end(to, entry))
            return false;
    }
    return features && stk__proto_end(to, features);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* A record with its head and checksums; `to` is empty. */
static bool put_record(const stk__samples *samples, size_t i, stk__codec_crc32c_fn *crc32c,
                       stk__bytes *to)
{
    uint8_t head[12] = {0}, tail[4];

    if (!stk__bytes_put(to, head, sizeof head) || !put_example(samples, i, to))
        return false;
    const uint64_t length = to->length - sizeof head;
    put_u32(head, (uint32_t)length);
    put_u32(head + 4, (uint32_t)(length >> 32));
    put_u32(head + 8, stk__crc32c_masked(crc32c(0, head, 8)));
    memcpy(to->data, head, sizeof head);
    put_u32(tail,
            stk__crc32c_masked(crc32c(0, (const uint8_t *)to->data + sizeof head, (size_t)length)));
    return stk__bytes_put(to, tail, sizeof tail);
}

/* ---- The conversion -------------------------------------------------------------------------- */

static bool tfrecord_accepts(const stk_dataset *dataset, const char **why)
{
    *why = dataset->ops->decode ? "has samples that are cut out of chunks; give arrays to zarr:"
                                : NULL;
    for (uint32_t f = 0; !*why && f < dataset->num_fields; f++)
        if (dataset->fields[f].dtype == STK_COMPLEX64 || dataset->fields[f].dtype == STK_COMPLEX128)
            *why = "has complex numbers";
    return !*why;
}

static stk_status add_record(const stk__samples *samples, size_t i, uint64_t number, stk__bytes *to,
                             stk_error *err)
{
    return put_record(samples, i, stk__codec_crc32c_of(to->ctx), to)
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for sample %" PRIu64,
                           number);
}

static void tell_schema(const stk_conversion_job *c)
{
    stk__text text = {.ctx = c->context};

    for (uint32_t f = 0; f < c->dataset->num_fields; f++)
        add_schema(c->dataset, &c->dataset->fields[f], &text);
    if (!text.failed)
        stk__message(c->context, STK_MESSAGE_INFO, "tfrecord: read them with schema=%s",
                     text.bytes);
    stk__text_release(&text);
}

static stk_status tfrecord_run(const stk_conversion_job *c, stk_conversion_report *report,
                               stk_error *err)
{
    static const stk__shards_format format = {.ending = ".tfrecord", .record = add_record};
    const stk_convert_shards_options *own = c->own;

    if (!c->dataset)
        return stk__unpacked_run(c, true, report, err);
    STK_TRY(stk__shards_write(c, &format, own->shard_size, report, err));
    tell_schema(c);
    return STK_OK;
}

const stk_converter_ops stk__convert_tfrecord = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "tfrecord",
    .from = "any samples of fields",
    .doc = "TFRecord shards",
    .options = &stk__convert_shards_option_table,
    .endings = "", /* by its name alone: what ends with .tfrecord is a file */
    .ignores = stk__convert_heeds_overwrite,
    .accepts = tfrecord_accepts,
    .run = tfrecord_run,
    .takes = stk__unpacked_takes,
};
