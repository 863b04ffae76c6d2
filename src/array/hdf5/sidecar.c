/* SPDX-License-Identifier: Apache-2.0 */
#include "array/hdf5/sidecar.h"

#include "base/bytes.h"
#include "base/crc32c.h"

#define MAGIC         "stkHDF5i"
#define VERSION       1u
#define HEADER_BYTES  40u
#define ROW_BYTES     40u
#define CHUNK_BYTES   24u
#define MOST_SECTIONS 4096u

_Static_assert(sizeof(stk__hdf5_chunk) == CHUNK_BYTES, "chunks are kept as they are in memory");

typedef struct row {
    uint64_t dataset, fingerprint, offset, count;
    uint32_t crc, zero;
} row;

_Static_assert(sizeof(row) == ROW_BYTES, "rows are kept as they are in memory");

/* The rows of a sidecar that is of this state of the file. */
static stk_status read_table(const uint8_t *data, uint64_t length, const stk__sidecar_of *of,
                             uint32_t *count)
{
    if (length < HEADER_BYTES || memcmp(data, MAGIC, 8) != 0 ||
        stk__little_endian(data + 8, 4) != VERSION)
        return STK_EFORMAT;
    *count = (uint32_t)stk__little_endian(data + 12, 4);
    if (*count > MOST_SECTIONS || (uint64_t)*count * ROW_BYTES > length - HEADER_BYTES)
        return STK_EFORMAT;
    uint32_t crc = stk__crc32c(0, data, 32);
    crc = stk__crc32c(crc, data + HEADER_BYTES, (size_t)*count * ROW_BYTES);
    if (crc != stk__little_endian(data + 32, 4))
        return STK_ECHECKSUM;
    return stk__little_endian(data + 16, 8) == of->file_bytes &&
                   stk__little_endian(data + 24, 8) == of->identity
               ? STK_OK
               : STK_ENOENT;
}

static row row_at(const uint8_t *data, uint32_t i)
{
    row r;

    memcpy(&r, data + HEADER_BYTES + (size_t)i * ROW_BYTES, sizeof r);
    return r;
}

/* Whether the chunks of a row lie in the sidecar and are as they were written. */
static stk_status check_row(const uint8_t *data, uint64_t length, const row *r)
{
    if (r->offset > length || r->count > (length - r->offset) / CHUNK_BYTES)
        return STK_EFORMAT;
    return stk__crc32c(0, data + r->offset, (size_t)(r->count * CHUNK_BYTES)) == r->crc
               ? STK_OK
               : STK_ECHECKSUM;
}

static bool is_sound(const stk__hdf5_index *index, const stk__sidecar_of *of)
{
    for (size_t i = 0; i < index->count; i++) {
        const stk__hdf5_chunk *c = &index->chunks[i];
        if (c->number >= of->most_chunks || (i && c->number <= c[-1].number) || c->bytes == 0 ||
            c->bytes > STK__HDF5_MOST_STORED || c->offset > of->file_bytes ||
            c->bytes > of->file_bytes - c->offset)
            return false;
    }
    return true;
}

stk_status stk__sidecar_parse(stk_context *ctx, const void *data, uint64_t length,
                              const stk__sidecar_of *of, stk__hdf5_index *out)
{
    uint32_t count = 0, i = 0;
    row r = {0};

    *out = (stk__hdf5_index){0};
    STK_TRY(read_table(data, length, of, &count));
    for (; i < count; i++) {
        r = row_at(data, i);
        if (r.dataset == of->dataset && r.fingerprint == of->fingerprint)
            break;
    }
    if (i == count)
        return STK_ENOENT;
    STK_TRY(check_row(data, length, &r));
    const uint64_t bytes = r.count * CHUNK_BYTES; /* at most `length` */
    if (bytes > of->most_memory)
        return STK_ELIMIT;
    if (!(out->chunks = stk__alloc(ctx, bytes)))
        return STK_ENOMEM;
    memcpy(out->chunks, (const uint8_t *)data + r.offset, bytes);
    out->count = out->room = (size_t)r.count;
    if (is_sound(out, of))
        return STK_OK;
    stk__free(ctx, out->chunks);
    *out = (stk__hdf5_index){0};
    return STK_EFORMAT;
}

/* Rows of `old` that are kept: of other datasets, whole, and no more together than it holds, as
 * rows may name the same chunks. */
static uint32_t kept_rows(const uint8_t *old, uint64_t length, const stk__sidecar_of *of, row *rows)
{
    uint32_t count = 0, kept = 0;
    uint64_t left = length;

    if (!old || read_table(old, length, of, &count) != STK_OK)
        return 0;
    for (uint32_t i = 0; i < count && kept + 1 < MOST_SECTIONS; i++) {
        const row r = row_at(old, i);
        if (r.dataset == of->dataset || r.count > left / CHUNK_BYTES ||
            check_row(old, length, &r) != STK_OK)
            continue;
        left -= r.count * CHUNK_BYTES;
        rows[kept++] = r;
    }
    return kept;
}

static void put_header(uint8_t *header, const stk__sidecar_of *of, const row *rows, uint32_t count)
{
    const uint32_t version = VERSION;

    memset(header, 0, HEADER_BYTES);
    memcpy(header, MAGIC, 8);
    memcpy(header + 8, &version, sizeof version);
    memcpy(header + 12, &count, sizeof count);
    memcpy(header + 16, &of->file_bytes, 8);
    memcpy(header + 24, &of->identity, 8);
    uint32_t crc = stk__crc32c(0, header, 32);
    crc = stk__crc32c(crc, (const uint8_t *)rows, count * sizeof *rows);
    memcpy(header + 32, &crc, sizeof crc);
}

static bool put_all(stk__bytes *out, const uint8_t *old, const stk__sidecar_of *of, row *rows,
                    uint32_t kept, const stk__hdf5_index *index)
{
    const size_t bytes = index->count * sizeof *index->chunks;
    uint64_t offset = HEADER_BYTES + (kept + 1) * sizeof *rows;
    uint8_t header[HEADER_BYTES];
    uint64_t from[MOST_SECTIONS];

    for (uint32_t i = 0; i < kept; i++) {
        from[i] = rows[i].offset;
        rows[i].offset = offset;
        offset += rows[i].count * CHUNK_BYTES;
    }
    rows[kept] = (row){.dataset = of->dataset,
                       .fingerprint = of->fingerprint,
                       .offset = offset,
                       .count = index->count,
                       .crc = stk__crc32c(0, (const uint8_t *)index->chunks, bytes)};
    put_header(header, of, rows, kept + 1);
    bool good = stk__bytes_put(out, header, sizeof header) &&
                stk__bytes_put(out, rows, (kept + 1) * sizeof *rows);
    for (uint32_t i = 0; good && i < kept; i++)
        good = stk__bytes_put(out, old + from[i], (size_t)(rows[i].count * CHUNK_BYTES));
    return good && stk__bytes_put(out, index->chunks, bytes);
}

stk_status stk__sidecar_make(stk_context *ctx, const void *old, uint64_t old_length,
                             const stk__sidecar_of *of, const stk__hdf5_index *index, void **data,
                             uint64_t *length)
{
    stk__bytes out = {.ctx = ctx};

    *data = NULL;
    row *rows = stk__calloc(ctx, MOST_SECTIONS, sizeof *rows);
    if (!rows)
        return STK_ENOMEM;
    const uint32_t kept = kept_rows(old, old_length, of, rows);
    const bool good = put_all(&out, old, of, rows, kept, index);
    stk__free(ctx, rows);
    if (!good) {
        stk__bytes_release(&out);
        return STK_ENOMEM;
    }
    *data = out.data;
    *length = out.length;
    return STK_OK;
}
