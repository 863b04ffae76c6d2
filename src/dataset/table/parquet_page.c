/* SPDX-License-Identifier: Apache-2.0 */
/* A page: its header, its checksum, its compression and where its levels and values begin. */
#include "dataset/table/parquet.h"

#define SLACK 4096 /* bytes that a page may have however little was stored */

/* ---- Header ---- */

/* Also of a dictionary, whose third field is another. */
static void read_data(stk__thrift *t, bool dictionary, stk__parquet_page *out)
{
    stk__thrift_field f = {0};

    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            out->values = stk__thrift_int(t, &f);
        else if (f.id == 2)
            out->encoding = (int32_t)stk__thrift_int(t, &f);
        else if (f.id == 3 && !dictionary)
            out->definition_encoding = (int32_t)stk__thrift_int(t, &f);
        else if (f.id == 4)
            out->repetition_encoding = (int32_t)stk__thrift_int(t, &f);
        else
            stk__thrift_skip(t, &f);
    }
}

static void read_data2(stk__thrift *t, stk__parquet_page *out)
{
    stk__thrift_field f = {0};

    out->packed = true;
    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            out->values = stk__thrift_int(t, &f);
        else if (f.id == 2)
            out->nulls = stk__thrift_int(t, &f);
        else if (f.id == 3)
            out->rows = stk__thrift_int(t, &f);
        else if (f.id == 4)
            out->encoding = (int32_t)stk__thrift_int(t, &f);
        else if (f.id == 5)
            out->definition_bytes = stk__thrift_int(t, &f);
        else if (f.id == 6)
            out->repetition_bytes = stk__thrift_int(t, &f);
        else if (f.id == 7)
            out->packed = stk__thrift_bool(t, &f);
        else
            stk__thrift_skip(t, &f);
    }
}

static void read_fields(stk__thrift *t, stk__parquet_page *out)
{
    stk__thrift_field f = {0};
    bool has[9] = {false};

    *out = (stk__parquet_page){.type = -1,
                               .encoding = -1,
                               .repetition_encoding = STK__PARQUET_RLE,
                               .definition_encoding = STK__PARQUET_RLE};
    while (stk__thrift_next(t, &f)) {
        if (f.id >= 0 && f.id < 9)
            has[f.id] = true;
        if (f.id == 1)
            out->type = (int32_t)stk__thrift_int(t, &f);
        else if (f.id == 2)
            out->uncompressed = stk__thrift_int(t, &f);
        else if (f.id == 3)
            out->compressed = stk__thrift_int(t, &f);
        else if (f.id == 4)
            out->crc = (uint32_t)stk__thrift_int(t, &f);
        else if ((f.id == 5 || f.id == 7) && stk__thrift_struct(t, &f))
            read_data(t, f.id == 7, out);
        else if (f.id == 8 && stk__thrift_struct(t, &f))
            read_data2(t, out);
        else
            stk__thrift_skip(t, &f);
    }
    out->has_crc = has[4];
    if (!has[2] || !has[3] || (out->type == STK__PARQUET_DATA && !has[5]) ||
        (out->type == STK__PARQUET_DICT && !has[7]) || (out->type == STK__PARQUET_DATA2 && !has[8]))
        t->bad = true;
}

const char *stk__parquet_page_read(const uint8_t *data, uint64_t length, stk__parquet_page *out,
                                   bool *more)
{
    stk__thrift t = {data, data + length, false};

    read_fields(&t, out);
    *more = t.bad && t.at == t.end;
    if (t.bad)
        return "the header of a page is damaged";
    out->header = (uint32_t)(t.at - data);
    if (out->compressed < 0 || out->uncompressed < 0 || out->compressed > INT32_MAX ||
        out->uncompressed > INT32_MAX || out->values < 0 || out->values > INT32_MAX)
        return "the header of a page says sizes that cannot be";
    if (out->type == STK__PARQUET_DATA2 &&
        (out->rows < 0 || out->rows > out->values || out->nulls < 0 || out->nulls > out->values ||
         out->definition_bytes < 0 || out->repetition_bytes < 0 ||
         out->definition_bytes > out->compressed || out->repetition_bytes > out->compressed ||
         out->definition_bytes + out->repetition_bytes >
             STK_MIN(out->compressed, out->uncompressed)))
        return "the header of a page says sizes that cannot be";
    return NULL;
}

/* ---- Memory ---- */

uint8_t *stk__parquet_room_part(stk__parquet_room *room, int part, uint64_t size)
{
    if (room->parts[part].data && room->parts[part].size >= size)
        return room->parts[part].data;
    stk__free(room->ctx, room->parts[part].data);
    room->parts[part].data = NULL;
    room->parts[part].size = 0;
    if (size > stk__memory_left(room->ctx) ||
        !(room->parts[part].data = stk__alloc_buffer(room->ctx, size)))
        return NULL;
    room->parts[part].size = size;
    return room->parts[part].data;
}

void stk__parquet_room_release(stk__parquet_room *room)
{
    for (size_t i = 0; i < STK_COUNT(room->parts); i++)
        stk__free(room->ctx, room->parts[i].data);
    memset(room->parts, 0, sizeof room->parts);
}

uint64_t stk__parquet_room_held(const stk__parquet_room *room)
{
    uint64_t bytes = sizeof *room + stk__codec_state_held(room->codecs);

    for (size_t i = 0; i < STK_COUNT(room->parts); i++)
        bytes += room->parts[i].size;
    return bytes;
}

/* ---- Body ---- */

static stk_status fail(stk_status status, const char *text, const char **reason)
{
    *reason = text;
    return status;
}

/* Most bytes that one byte becomes; sizes beyond are forged. Of zstd there is none of use. */
static uint64_t ratio_of(uint32_t codec)
{
    switch (codec) {
    case STK__PARQUET_SNAPPY:
        return 64;
    case STK__PARQUET_GZIP:
        return STK_DEFLATE_RATIO;
    case STK__PARQUET_LZ4:
    case STK__PARQUET_LZ4_RAW:
        return 256;
    default:
        return UINT32_MAX;
    }
}

/* `size` bytes are what `length` may become. */
static stk_status check_size(const stk__parquet_leaf *leaf, uint64_t length, uint64_t size,
                             const char **reason)
{
    return size > length * ratio_of(leaf->codec) + SLACK
               ? fail(STK_EFORMAT, "a page says more bytes than its compression can give", reason)
               : STK_OK;
}

static stk_status unpack(const stk__parquet_leaf *leaf, stk__parquet_room *room, bool packed,
                         const uint8_t *in, uint64_t length, uint64_t size, const uint8_t **out,
                         const char **reason)
{
    if (leaf->codec == STK__PARQUET_NONE || !packed) {
        *out = in;
        return length == size
                   ? STK_OK
                   : fail(STK_EFORMAT, "a page without compression says two sizes; write it again",
                          reason);
    }
    STK_TRY(check_size(leaf, length, size, reason));
    uint8_t *to = stk__parquet_room_part(room, STK__PARQUET_UNPACKED, size);
    if (!to)
        return fail(STK_ENOMEM, "no memory to decompress a page; use fewer workers", reason);
    *out = to;
    if (!size) /* some writers leave such pages empty */
        return STK_OK;
    return stk__parquet_unpack(leaf->codec, room->codecs, in, length, to, size, reason);
}

/* Levels of a page of version 1: their length in 4 bytes, then they. */
static bool take_levels(const uint8_t **at, uint64_t *left, const uint8_t **out, uint64_t *length)
{
    if (*left < 4)
        return false;
    *length = stk__little_endian(*at, 4);
    *at += 4;
    *left -= 4;
    if (*length > *left)
        return false;
    *out = *at;
    *at += *length;
    *left -= *length;
    return true;
}

/* Bytes in front of the values, if all bytes of a page, `size`, are those that its home has room
 * for. */
static bool has_home(const stk__parquet_page *page, const stk__parquet_leaf *leaf,
                     const stk__parquet_home *home, bool packed, uint64_t size, uint64_t *head)
{
    if (!home || !home->size || !packed || leaf->codec == STK__PARQUET_NONE ||
        page->encoding != STK__PARQUET_PLAIN || size < home->size ||
        size - home->size > STK__PARQUET_HEAD)
        return false;
    *head = size - home->size;
    return true;
}

/* Decompress a page to where its values shall lie; the `head` bytes in front go to the body. */
static stk_status unpack_home(const stk__parquet_leaf *leaf, stk__parquet_room *room,
                              const uint8_t *in, uint64_t length, const stk__parquet_home *home,
                              uint64_t head, stk__parquet_body *out, const char **reason)
{
    uint8_t *to = home->values - head, before[STK__PARQUET_HEAD];

    STK_TRY(check_size(leaf, length, head + home->size, reason));
    memcpy(before, to, head);
    const stk_status status =
        stk__parquet_unpack(leaf->codec, room->codecs, in, length, to, head + home->size, reason);
    memcpy(out->head, to, head);
    memcpy(to, before, head);
    return status;
}

/* A page of version 1 of numbers, none of which is null: it is at home then. */
static stk_status open_home(const stk__parquet_leaf *leaf, stk__parquet_room *room,
                            const uint8_t *data, uint64_t length, const stk__parquet_home *home,
                            uint64_t head, stk__parquet_body *out, const char **reason)
{
    const uint8_t *at = out->head;

    STK_TRY(unpack_home(leaf, room, data, length, home, head, out, reason));
    const bool told =
        !leaf->most || take_levels(&at, &head, &out->definition, &out->definition_length);
    out->values = told && !head ? home->values : NULL;
    out->values_length = home->size;
    return STK_OK;
}

static stk_status open_first(const stk__parquet_page *page, const stk__parquet_leaf *leaf,
                             stk__parquet_room *room, const uint8_t *data,
                             const stk__parquet_home *home, stk__parquet_body *out,
                             const char **reason)
{
    const uint8_t *at;
    uint64_t left = (uint64_t)page->uncompressed, head;

    if (page->type == STK__PARQUET_DATA && !leaf->repeated &&
        page->definition_encoding == STK__PARQUET_RLE &&
        has_home(page, leaf, home, true, left, &head)) {
        STK_TRY(open_home(leaf, room, data, (uint64_t)page->compressed, home, head, out, reason));
        if (out->values)
            return STK_OK;
    }
    STK_TRY(unpack(leaf, room, true, data, (uint64_t)page->compressed, left, &at, reason));
    if (page->type == STK__PARQUET_DATA) {
        if ((leaf->repeated && page->repetition_encoding != STK__PARQUET_RLE) ||
            (leaf->most && page->definition_encoding != STK__PARQUET_RLE))
            return fail(STK_EKIND, "its levels are in an encoding that was given up (BIT_PACKED)",
                        reason);
        if ((leaf->repeated &&
             !take_levels(&at, &left, &out->repetition, &out->repetition_length)) ||
            (leaf->most && !take_levels(&at, &left, &out->definition, &out->definition_length)))
            return fail(STK_EFORMAT, "the levels of a page end too early", reason);
    }
    out->values = at;
    out->values_length = left;
    return STK_OK;
}

stk_status stk__parquet_page_open(const stk__parquet_page *page, const stk__parquet_leaf *leaf,
                                  stk__parquet_room *room, const uint8_t *data,
                                  const stk__parquet_home *home, stk__parquet_body *out,
                                  const char **reason)
{
    uint64_t head;

    *out = (stk__parquet_body){0};
    if (page->has_crc && stk__crc32(data, (uint64_t)page->compressed) != page->crc)
        return fail(STK_ECHECKSUM, "the checksum of a page does not match it; fetch the file again",
                    reason);
    if (page->type != STK__PARQUET_DATA2)
        return open_first(page, leaf, room, data, home, out, reason);
    const uint64_t levels = (uint64_t)(page->repetition_bytes + page->definition_bytes);
    out->repetition = data;
    out->repetition_length = (uint64_t)page->repetition_bytes;
    out->definition = data + page->repetition_bytes;
    out->definition_length = (uint64_t)page->definition_bytes;
    out->values_length = (uint64_t)page->uncompressed - levels;
    if (has_home(page, leaf, home, page->packed, out->values_length, &head) && !head) {
        out->values = home->values;
        return unpack_home(leaf, room, data + levels, (uint64_t)page->compressed - levels, home, 0,
                           out, reason);
    }
    return unpack(leaf, room, page->packed, data + levels, (uint64_t)page->compressed - levels,
                  out->values_length, &out->values, reason);
}
