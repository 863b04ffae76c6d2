/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tfrecord: records of tf.train.Example and SequenceExample. A shard is its records one behind the
 * other [tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details"]:
 *
 *     uint64 length, uint32 masked CRC-32C of it, the data, uint32 masked CRC-32C of them
 *
 * The scan reads and checks the first two. A part is all of it, so that neighbours are read in one
 * go, and preparing checks all: whatever was said where the records lie.
 */
#include <stdio.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "codec/codec.h"
#include "dataset/records/example_schema.h"
#include "dataset/records/tfrecord.h"

#define HEAD       12u /* bytes in front of the data, and behind them */
#define TAIL       4u
#define FRAME      STK__TFRECORD_FRAME
#define MOST_DATA  STK__TFRECORD_MOST
#define AT(member) offsetof(tfrecord_options, member)
#define DIGITS     5u /* of the numbers in "-00000-of-00128" */

typedef struct tfrecord_options {
    stk__records_options records;
    const char *schema, *pad;
    uint64_t learn;
} tfrecord_options;

static const stk_option option_list[] = {
    STK__RECORDS_OPTION_INDEX,
    {"schema", STK_OPTION_STRING, AT(schema), NULL, 0, 0, NULL, "FIELDS",
     "Features that are fields, with their types: image/encoded:image, label:int64, "
     "embedding:float[128], tokens:int64[], pixels:raw_uint8[28,28]; NAME=FEATURE:TYPE names one. "
     "Without it the schema is learnt, and stoker info prints it."},
    {"pad", STK_OPTION_STRING, AT(pad), NULL, 0, 0, NULL, "NUMBER",
     "Value of what a field of fixed shape has too few of; without it such a record is bad."},
    {"learn", STK_OPTION_UINT, AT(learn), "16", 1, 4096, NULL, "N",
     "Without schema: records that are looked at, from the first to the last shard."},
};

static const stk_option_table tfrecord_table = {
    "tfrecord", "Records of tf.train.Example in shards.", sizeof(tfrecord_options), option_list,
    STK_COUNT(option_list)};

/* What the format keeps of a dataset. */
typedef struct tfrecord {
    stk__schema schema;
    stk_field fields[STK__SCHEMA_MAX_FIELDS];
    stk__text text, left; /* the schema; what was learnt to be no field */
    bool learnt;
    stk__codec_crc32c_fn *crc32c;
} tfrecord;

/* ---- Scanning -------------------------------------------------------------------------------- */

/* Why a shard whose first record has no good head is none. */
static stk_status not_a_shard(const stk__shard *shard, const uint8_t head[HEAD], stk_error *err)
{
    const bool gzip = head[0] == 0x1f && head[1] == 0x8b;
    const bool zlib = (head[0] & 0x0f) == 8 && (head[0] << 8 | head[1]) % 31 == 0;

    if (gzip || zlib)
        return stk__shard_fail(shard, STK_EKIND, 0, err,
                               "it is compressed by %s, which cannot be read from the middle; "
                               "unpack it once: stoker convert tfrecord:SHARDS tfrecord:DIR",
                               gzip ? "gzip" : "zlib");
    return stk__shard_fail(shard, STK_ECHECKSUM, 0, err,
                           "the checksum of its length does not match: it is no TFRecord file, or "
                           "is damaged; copy or download it again");
}

static stk_status scan_record(stk__shard *shard, uint64_t *at, stk_error *err)
{
    const uint64_t left = stk__shard_size(shard) - *at;
    uint8_t head[HEAD] = {0};

    STK_TRY(stk__shard_record(shard, err));
    STK_TRY(stk__shard_read(shard, *at, head, STK_MIN(left, HEAD), err));
    const uint64_t length = stk__little_endian(head, 8);
    const uint32_t crc = stk__crc32c_masked(stk__crc32c(0, head, 8));
    if (left < HEAD || crc != stk__little_endian(head + 8, 4)) {
        if (*at == 0)
            return not_a_shard(shard, head, err);
        return left < HEAD
                   ? stk__shard_fail(shard, STK_ETRUNCATED, *at, err,
                                     "the shard ends within the head of the record; copy or "
                                     "download it again")
                   : stk__shard_fail(shard, STK_ECHECKSUM, *at, err,
                                     "the checksum of its length does not match; copy or download "
                                     "the shard again");
    }
    if (length > MOST_DATA)
        return stk__shard_fail(shard, STK_ELIMIT, *at, err,
                               "it has %llu bytes, and a record has %llu at most",
                               (unsigned long long)length, (unsigned long long)MOST_DATA);
    if (length + FRAME > left)
        return stk__shard_fail(shard, STK_ETRUNCATED, *at, err,
                               "it has %llu bytes and the shard ends after %llu of them; copy or "
                               "download it again",
                               (unsigned long long)length, (unsigned long long)(left - HEAD));
    STK_TRY(stk__shard_part(shard, STK__TFRECORD_KIND, *at, length + FRAME, err));
    *at += length + FRAME;
    return STK_OK;
}

static stk_status tfrecord_scan(stk__shard *shard, const void *options, stk_error *err)
{
    bool listed = false;

    STK_TRY(stk__tfrecord_list(shard, options, &listed, err));
    if (listed)
        return STK_OK;
    for (uint64_t at = 0; at < stk__shard_size(shard);)
        STK_TRY(scan_record(shard, &at, err));
    return STK_OK;
}

/* Digits that end at `end`, of a text that begins at `name`. */
static size_t digits_before(const char *name, const char *end)
{
    size_t n = 0;

    while (n < (size_t)(end - name) && end[-1 - (ptrdiff_t)n] >= '0' &&
           end[-1 - (ptrdiff_t)n] <= '9')
        n++;
    return n;
}

/* train.tfrecord, train.tfrec, train.tfrecord-00000-of-00128, train-00000-of-00128. */
static bool tfrecord_is_shard(const char *name, size_t length)
{
    static const char *const ends[] = {".tfrecord", ".tfrecords", ".tfrec", ".tfrecs"};
    const size_t all = digits_before(name, name + length);
    const size_t of = length - all > strlen("-of-") ? length - all - strlen("-of-") : 0;

    for (size_t i = 0; i < STK_COUNT(ends); i++)
        if (stk__ends_with(name, length, ends[i]))
            return true;
    return all >= DIGITS && of && memcmp(name + of, "-of-", strlen("-of-")) == 0 &&
           digits_before(name, name + of) >= DIGITS;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Whether these bytes are one record whose length and checksums are right. */
static bool is_sound(const tfrecord *t, const uint8_t *record, uint64_t size)
{
    return size >= FRAME && stk__little_endian(record, 8) == size - FRAME &&
           stk__crc32c_masked(stk__crc32c(0, record, 8)) == stk__little_endian(record + 8, 4) &&
           stk__crc32c_masked(t->crc32c(0, record + HEAD, (size_t)(size - FRAME))) ==
               stk__little_endian(record + size - TAIL, 4);
}

/* Records from the first to the last, as shards may differ. */
static stk_status learn_records(stk__records *set, const tfrecord *t, uint64_t count,
                                stk__schema_learner *learner, stk_error *err)
{
    const uint64_t all = set->table.num_records;
    uint64_t length = 0;
    void *data = NULL;

    for (uint64_t i = 0; i < STK_MIN(count, all); i++) {
        const uint64_t record =
            count >= all ? i : (uint64_t)((double)all / (double)count * (double)i);
        STK_TRY(stk__records_load(set, record, 0, &data, &length, err));
        stk_status status = STK_OK;
        if (is_sound(t, data, length))
            status =
                stk__schema_learn_offer(learner, (const uint8_t *)data + HEAD, length - FRAME, err);
        stk__free(set->base.context, data);
        STK_TRY(status);
    }
    return STK_OK;
}

static stk_status learn(stk__records *set, tfrecord *t, uint64_t count, stk_error *err)
{
    stk__schema_learner *learner = stk__schema_learn_begin(set->base.context);

    if (!learner)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tfrecord: no memory for the schema");
    stk_status status = learn_records(set, t, count, learner, err);
    if (status == STK_OK)
        status = stk__schema_learn_finish(learner, &t->text, &t->left, err);
    stk__schema_learn_end(&learner);
    t->learnt = true;
    return status;
}

static stk_status tfrecord_open_set(stk__records *set, const void *options, stk_error *err)
{
    const tfrecord_options *o = options;
    stk_context *ctx = set->base.context;
    tfrecord *t = stk__calloc(ctx, 1, sizeof *t);

    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tfrecord: no memory for the schema");
    set->state = t;
    t->text.ctx = t->left.ctx = t->schema.ctx = ctx;
    t->crc32c = stk__codec_crc32c_of(ctx);
    if (!o->schema)
        STK_TRY(learn(set, t, o->learn, err));
    STK_TRY(stk__schema_parse(ctx, o->schema ? o->schema : t->text.bytes, o->pad, &t->schema, err));
    stk__text_release(&t->text);
    t->text = (stk__text){.ctx = ctx};
    stk__schema_print(&t->schema, &t->text);
    if (t->text.failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tfrecord: no memory for the schema");
    stk__schema_describe(&t->schema, t->fields);
    set->base.fields = t->fields;
    set->base.num_fields = t->schema.count;
    return STK_OK;
}

static void tfrecord_close_set(stk__records *set)
{
    tfrecord *t = set->state;

    if (!t)
        return;
    stk__schema_release(&t->schema);
    stk__text_release(&t->text);
    stk__text_release(&t->left);
    stk__free(set->base.context, t);
}

/* One file, by its name. */
static int tfrecord_recognise(stk_context *ctx, const char *url)
{
    const size_t length = strcspn(url, "?");
    const char *name = url + length;

    (void)ctx;
    while (name > url && name[-1] != '/')
        name--;
    return name < url + length && tfrecord_is_shard(name, (size_t)(url + length - name)) ? 2 : 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void tfrecord_bound(const stk__records *set, const stk__record_part *parts, uint32_t n,
                           stk_locator *to, size_t i)
{
    const tfrecord *t = set->state;

    (void)n;
    for (uint32_t k = 0; k < t->schema.count; k++)
        if (t->fields[k].layout != STK_FIXED)
            to->bytes(to, i, k, stk__schema_bound(&t->schema.fields[k], parts->length - FRAME));
}

static void tfrecord_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const tfrecord *t = ((const stk__records *)dataset)->state;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        if (!is_sound(t, s->needs[0].data, s->needs[0].size)) {
            s->status = STK_ECHECKSUM;
            s->reason = "a checksum of the record does not match; copy or download the shard again";
            continue;
        }
        stk__schema_take(&t->schema, (const uint8_t *)s->needs[0].data + HEAD,
                         s->needs[0].size - FRAME, s);
    }
}

static void tfrecord_describe(const stk__records *set,
                              void (*line)(void *user, const char *name, const char *value),
                              void *user)
{
    const tfrecord *t = set->state;

    line(user, t->learnt ? "schema, learnt" : "schema", t->text.bytes);
    if (t->left.length)
        line(user, "no fields", t->left.bytes);
}

static stk_status tfrecord_open(stk_context *ctx, const char *url, const void *options,
                                stk_dataset **out, stk_error *err);

const stk_dataset_ops stk__dataset_tfrecord = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "tfrecord",
    .doc = "Records of tf.train.Example in shards.",
    .options = &tfrecord_table,
    .open = tfrecord_open,
    .recognise = tfrecord_recognise,
    .close = stk__records_close,
    .locate = stk__records_locate,
    .object = stk__records_object,
    .prepare = tfrecord_prepare,
    .describe = stk__records_describe,
};

static const stk__record_format format = {
    .ops = &stk__dataset_tfrecord,
    .suffix = ".tfrecord",
    .is_shard = tfrecord_is_shard,
    .version = 1,
    .scan = tfrecord_scan,
    .open = tfrecord_open_set,
    .close = tfrecord_close_set,
    .bound = tfrecord_bound,
    .describe = tfrecord_describe,
};

static stk_status tfrecord_open(stk_context *ctx, const char *url, const void *options,
                                stk_dataset **out, stk_error *err)
{
    return stk__records_open(ctx, url, &format, options, out, err);
}
