/* SPDX-License-Identifier: Apache-2.0 */
/* Filter pipelines -> lists of codecs [HDF5 format IV.A.2.l; registered filters]. */
#include "array/hdf5/object.h"

#include "base/text.h"

#define FIRST_REGISTERED 256u /* identifiers from here on have a name in version 2 */
#define MOST_ENTRIES     31u /* bits of the set that is skipped, but for that of the bytes' order */

stk_status stk__hdf5_filters_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                  stk__hdf5_filters *out)
{
    out->count = 0;
    if (!m)
        return STK_OK;
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    const uint64_t version = stk__hdf5_field(&at, 1), count = stk__hdf5_field(&at, 1);
    if (version < 1 || version > 2 || count > STK__HDF5_MAX_FILTERS)
        return stk__hdf5_damaged(f, m->address, "a list of filters is of no known version");
    stk__hdf5_skip(&at, version == 1 ? 6 : 0);
    for (uint32_t i = 0; i < count && !at.failed; i++) {
        out->filter[i].id = (uint32_t)stk__hdf5_field(&at, 2);
        const bool named = version == 1 || out->filter[i].id >= FIRST_REGISTERED;
        const uint64_t name = named ? stk__hdf5_field(&at, 2) : 0;
        stk__hdf5_skip(&at, 2); /* whether it is optional: a mask says where it was left out */
        const uint64_t values = stk__hdf5_field(&at, 2);
        stk__hdf5_skip(&at, version == 1 ? stk__round_up(name, 8) : name);
        if (values > STK__HDF5_MAX_VALUES)
            return stk__hdf5_refuse(f, m->address, "a filter has more values than are read, so it");
        for (uint32_t v = 0; v < values; v++)
            out->filter[i].values[v] = (uint32_t)stk__hdf5_field(&at, 4);
        stk__hdf5_skip(&at, version == 1 && values % 2 ? 4 : 0);
        out->filter[i].num_values = (uint32_t)values;
    }
    out->count = (uint32_t)count;
    return at.failed ? stk__hdf5_damaged(f, m->address, "a list of filters is cut off") : STK_OK;
}

typedef struct filter_name {
    uint32_t id;
    const char *codec; /* NULL: it changes nothing that reading would undo */
    bool values;       /* the codec takes them as they are */
} filter_name;

static const filter_name names[] = {
    {1, "zlib", false},        {2, "shuffle", false},
    {3, "fletcher32", false},  {4, "hdf5.szip", true},
    {5, "hdf5.nbit", true},    {6, "hdf5.scaleoffset", true},
    {307, "bz2", false},       {32001, "blosc", false},
    {32004, "hdf5.lz4", true}, {32008, "hdf5.bitshuffle", true},
    {32013, "hdf5.zfp", true}, {32015, "zstd", false},
    {32022, NULL, false},      {32023, NULL, false},
};

static stk_status unknown(const stk__hdf5 *f, uint32_t id)
{
    return stk__fail_at(f->err, STK_EKIND, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                        "%.300s: the HDF5 filter %u is not read; write it again with deflate, as "
                        "with h5repack -f GZIP=4",
                        f->key, id);
}

static void put_filter(const stk__hdf5_filters *filters, uint32_t i, const filter_name *n,
                       const stk__hdf5_type *type, stk__text *out)
{
    stk__text_add(out, ",{\"name\":\"%s\"", n->codec);
    if (filters->filter[i].id == 2) {
        const uint32_t size = filters->filter[i].num_values ? filters->filter[i].values[0] : 0;
        stk__text_add(out, ",\"configuration\":{\"elementsize\":%u}", size ? size : type->size);
    } else if (n->values) {
        stk__text_add(out, ",\"configuration\":{\"values\":[");
        for (uint32_t v = 0; v < filters->filter[i].num_values; v++)
            stk__text_add(out, "%s%u", v ? "," : "", filters->filter[i].values[v]);
        stk__text_add(out, "]}");
    }
    stk__text_add(out, "}");
}

stk_status stk__hdf5_codecs(const stk__hdf5 *f, const stk__hdf5_filters *filters,
                            const stk__hdf5_type *type, stk__text *out,
                            uint8_t entry[STK__HDF5_MAX_FILTERS])
{
    uint8_t entries = 0;

    stk__text_add(out, "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"%s\"}}",
                  type->big_endian ? "big" : "little");
    for (uint32_t i = 0; i < filters->count; i++) {
        const filter_name *n = NULL;
        for (size_t k = 0; k < STK_COUNT(names) && !n; k++)
            if (names[k].id == filters->filter[i].id)
                n = &names[k];
        if (!n)
            return unknown(f, filters->filter[i].id);
        if (n->codec && entries == MOST_ENTRIES)
            return stk__hdf5_refuse(f, STK__HDF5_NONE,
                                    "a dataset of more than 31 filters that change it is not read");
        entry[i] = n->codec ? ++entries : STK__HDF5_NO_ENTRY;
        if (n->codec)
            put_filter(filters, i, n, type, out);
    }
    stk__text_add(out, "]");
    return out->failed ? stk__hdf5_no_memory(f) : STK_OK;
}
