/* SPDX-License-Identifier: Apache-2.0 */
/* Storages into memory, and tensors over them: those that are dense are not copied. */
#include <inttypes.h>

#include "checkpoint/pth/pth.h"

/* A file that is read. */
typedef struct reading {
    stk_context *ctx;
    const char *path;
    stk_error *err;
    const stk__checkpoint_source *source;
    stk__zip zip;
    uint8_t *pickle;
    char *name;      /* of an entry: the folder and room for a key */
    size_t folder;   /* length of "NAME/" */
    void **storages; /* of each entry; NULL: not read yet */
    stk__pth_tensors tensors;
} reading;

static stk_status no_memory(const reading *r, uint64_t bytes)
{
    return stk__fail_at(r->err, STK_ENOMEM, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                        "no memory for %" PRIu64 " bytes of '%.300s'", bytes, r->path);
}

static stk_status fail_tensor(const reading *r, const stk__pth_tensor *t, stk_status status,
                              const char *what)
{
    char shown[STK__PICKLE_SHOWN];

    return stk__fail_at(r->err, status, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                        "'%.300s' is damaged: the tensor '%s' %s; copy it again", r->path,
                        stk__pickle_show(t->name, shown), what);
}

/* ---- Entries ---- */

/* The folder of the file: the one that has data.pkl. */
static stk_status find_folder(reading *r, const stk__zip_entry **pickle)
{
    size_t found = 0;

    for (size_t i = 0; i < r->zip.num_entries; i++) {
        const stk__zip_entry *e = &r->zip.entries[i];
        if (!stk__ends_with(e->name.at, e->name.length, "/data.pkl"))
            continue;
        *pickle = e;
        found++;
    }
    if (found != 1)
        return stk__fail_at(r->err, STK_EKIND, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                            "'%.300s' is a zip but not of torch.save: it has %s data.pkl", r->path,
                            found ? "more than one" : "no");
    r->folder = (*pickle)->name.length - strlen("data.pkl");
    if (r->folder > STK__PTH_MAX_NAME)
        return stk__fail_at(r->err, STK_EKIND, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                            "'%.300s' has its data.pkl in a folder whose name has more than %d "
                            "bytes",
                            r->path, STK__PTH_MAX_NAME);
    r->name = stk__alloc(r->ctx, r->folder + STK__PTH_MAX_NAME + 16);
    if (!r->name)
        return no_memory(r, r->folder);
    memcpy(r->name, (*pickle)->name.at, r->folder);
    return STK_OK;
}

static const stk__zip_entry *find_entry(reading *r, const char *within, stk__pickle_text key)
{
    size_t length = r->folder + strlen(within);

    if (key.length > STK__PTH_MAX_NAME)
        return NULL;
    memcpy(r->name + r->folder, within, strlen(within));
    memcpy(r->name + length, key.at, key.length);
    return stk__zip_find(&r->zip, r->name, length + key.length);
}

static stk_status check_order(reading *r)
{
    const stk__zip_entry *e = find_entry(r, "byteorder", (stk__pickle_text){"", 0});
    char order[6] = "";

    if (!e)
        return STK_OK;
    if (e->size == sizeof order)
        STK_TRY(stk__zip_read(r->source, r->path, e, order, sizeof order, r->err));
    if (memcmp(order, "little", sizeof order) == 0)
        return STK_OK;
    return stk__fail_at(r->err, STK_EKIND, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                        "'%.300s' was written by a big-endian machine: load it with torch and save "
                        "it again",
                        r->path);
}

static stk_status read_pickle(reading *r)
{
    const stk__zip_entry *e = NULL;

    STK_TRY(find_folder(r, &e));
    if (e->size > STK__PTH_MAX_PICKLE)
        return stk__fail_at(r->err, STK_ELIMIT, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                            "the pickle of '%.300s' has %" PRIu64 " bytes; %" PRIu64
                            " are the most",
                            r->path, e->size, STK__PTH_MAX_PICKLE);
    STK_TRY(check_order(r));
    r->pickle = stk__alloc(r->ctx, e->size + 1);
    if (!r->pickle)
        return no_memory(r, e->size);
    STK_TRY(stk__zip_read(r->source, r->path, e, r->pickle, e->size, r->err));
    return stk__pth_pickle_parse(r->ctx, r->pickle, (size_t)e->size, r->path, &r->tensors, r->err);
}

/* ---- Tensors ---- */

/* Where in its storage, in bytes, the last element ends of a tensor that has any; false: beyond any
 * storage. */
static bool find_end(const stk__pth_tensor *t, size_t size, uint64_t *end)
{
    uint64_t reach;

    *end = t->offset;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!stk__mul_size(t->shape[i] - 1, t->stride[i], &reach) ||
            !stk__add_size(*end, reach, end))
            return false;
    return stk__add_size(*end, 1, end) && stk__mul_size(*end, size, end);
}

static bool is_dense(const stk__pth_tensor *t)
{
    uint64_t step = 1;

    for (uint32_t i = t->rank; i-- > 0; step *= t->shape[i])
        if (t->shape[i] > 1 && t->stride[i] != step)
            return false;
    return true;
}

/* What it takes to load a tensor. */
typedef struct need {
    const stk__zip_entry *entry; /* of its storage */
    bool copied;
} need;

/* Look at a tensor: type, shape and size are set, and that its storage has all of it is checked. */
static stk_status look(reading *r, const stk__pth_tensor *t, stk_state_tensor *to, need *out)
{
    const size_t size = stk_dtype_size(t->dtype);
    uint64_t end = 0;

    to->dtype = t->dtype;
    to->rank = t->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        to->shape[i] = (int64_t)t->shape[i];
    if (!stk__shape_bytes(to->shape, to->rank, size, &to->bytes) ||
        (to->bytes && !find_end(t, size, &end)))
        return fail_tensor(r, t, STK_EFORMAT, "has more elements than any file");
    out->entry = find_entry(r, "data/", t->key);
    if (!out->entry)
        return fail_tensor(r, t, STK_EFORMAT, "has no bytes");
    if (out->entry->size < t->storage_bytes || out->entry->size < end)
        return fail_tensor(r, t, STK_EFORMAT, "goes beyond the bytes of its storage");
    out->copied = to->bytes && !is_dense(t);
    return STK_OK;
}

/* All storages and copies together fit in memory, before any is read. */
static stk_status check_memory(const reading *r, const need *needs, const stk_state_tensor *tensors)
{
    const uint64_t left = stk__memory_left(r->ctx);
    uint64_t bytes = 0;
    bool fits = true;

    for (size_t i = 0; i < r->tensors.count && fits; i++) {
        void **storage = &r->storages[needs[i].entry - r->zip.entries];
        if (!*storage)
            fits = stk__add_size(bytes, needs[i].entry->size, &bytes);
        *storage = r->storages; /* seen */
        if (fits && needs[i].copied)
            fits = stk__add_size(bytes, tensors[i].bytes, &bytes);
    }
    memset(r->storages, 0, r->zip.num_entries * sizeof *r->storages);
    if (fits && bytes <= left)
        return STK_OK;
    return stk__fail_at(r->err, STK_EBUDGET, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                        "'%.300s' needs %" PRIu64
                        " bytes for its tensors; this process may use %" PRIu64
                        " more (memory_limit)",
                        r->path, fits ? bytes : UINT64_MAX, left);
}

static stk_status take_block(const reading *r, uint64_t bytes, stk__pth *out, void **block)
{
    *block = stk__alloc_buffer(r->ctx, STK_MAX(bytes, 1u));
    if (!*block)
        return no_memory(r, bytes);
    out->blocks[out->num_blocks++] = *block;
    return STK_OK;
}

/* Copy the elements in C order: the last dimension in runs, an odometer over the others. */
static void gather(const stk__pth_tensor *t, const uint8_t *from, size_t size, uint8_t *to,
                   uint64_t bytes)
{
    uint64_t at[STK_MAX_RANK] = {0}, place = t->offset;
    const uint32_t last = t->rank - 1;

    for (const uint8_t *end = to + bytes; to < end;) {
        for (uint64_t i = 0; i < t->shape[last]; i++, to += size)
            memcpy(to, from + (place + i * t->stride[last]) * size, size);
        for (uint32_t k = last; k-- > 0;) {
            place += t->stride[k];
            if (++at[k] < t->shape[k])
                break;
            place -= t->stride[k] * t->shape[k];
            at[k] = 0;
        }
    }
}

static stk_status load_tensor(reading *r, const stk__pth_tensor *t, const need *n, stk__pth *out,
                              stk_state_tensor *to)
{
    const size_t size = stk_dtype_size(t->dtype);
    void **storage = &r->storages[n->entry - r->zip.entries];

    if (!*storage) {
        STK_TRY(take_block(r, n->entry->size, out, storage));
        STK_TRY(stk__zip_read(r->source, r->path, n->entry, *storage, n->entry->size, r->err));
    }
    if (!n->copied) {
        to->data = (uint8_t *)*storage + (to->bytes ? t->offset * size : 0);
        return STK_OK;
    }
    STK_TRY(take_block(r, to->bytes, out, &to->data));
    gather(t, *storage, size, to->data, to->bytes);
    return STK_OK;
}

static stk_status load_all(reading *r, const need *needs, stk__pth *out)
{
    STK_TRY(check_memory(r, needs, out->tensors));
    for (size_t i = 0; i < r->tensors.count; i++)
        STK_TRY(load_tensor(r, &r->tensors.all[i], &needs[i], out, &out->tensors[i]));
    return STK_OK;
}

/* Each storage once. */
static stk_status verify_all(reading *r, const need *needs)
{
    stk_status status = STK_OK;

    void *piece = stk__alloc_buffer(r->ctx, STK__VERIFY_BYTES);
    if (!piece)
        return no_memory(r, STK__VERIFY_BYTES);
    for (size_t i = 0; i < r->tensors.count && status == STK_OK; i++) {
        const stk__zip_entry *e = needs[i].entry;
        void **storage = &r->storages[e - r->zip.entries];
        if (!*storage)
            status = stk__zip_read(r->source, r->path, e, piece, STK__VERIFY_BYTES, r->err);
        *storage = piece;
    }
    stk__free(r->ctx, piece);
    return status;
}

static stk_status take_tensors(reading *r, bool keep, need *needs, stk__pth *out)
{
    char *name = out->names;

    for (size_t i = 0; i < r->tensors.count; i++) {
        const stk__pth_tensor *t = &r->tensors.all[i];
        memcpy(name, t->name.at, t->name.length);
        out->tensors[i].name = name;
        name += t->name.length + 1;
        STK_TRY(look(r, t, &out->tensors[i], &needs[i]));
    }
    STK_TRY(keep ? load_all(r, needs, out) : verify_all(r, needs));
    out->num_tensors = r->tensors.count;
    return STK_OK;
}

static stk_status take_state(reading *r, bool keep, stk__pth *out)
{
    const size_t n = r->tensors.count;
    uint64_t names = 0;

    for (size_t i = 0; i < n; i++)
        names += (uint64_t)r->tensors.all[i].name.length + 1;
    out->tensors = stk__calloc(r->ctx, n + 1, sizeof *out->tensors);
    out->names = stk__calloc(r->ctx, names + 1, 1);
    out->blocks = stk__calloc(r->ctx, 2 * n + 1, sizeof *out->blocks);
    r->storages = stk__calloc(r->ctx, r->zip.num_entries + 1, sizeof *r->storages);
    need *needs = stk__calloc(r->ctx, n + 1, sizeof *needs);
    const bool room = out->tensors && out->names && out->blocks && r->storages && needs;
    const stk_status status = room ? take_tensors(r, keep, needs, out) : no_memory(r, names);
    stk__free(r->ctx, needs);
    return status;
}

bool stk__pth_begins(const uint8_t first[4])
{
    return memcmp(first, "PK\3\4", 4) == 0;
}

static stk_status read_file(reading r, bool keep, stk__pth *out)
{
    stk_context *ctx = r.ctx;

    *out = (stk__pth){.ctx = ctx};
    stk_status status = stk__zip_open(ctx, r.source, r.path, &r.zip, r.err);
    if (status == STK_OK)
        status = read_pickle(&r);
    if (status == STK_OK)
        status = take_state(&r, keep, out);
    stk__zip_release(&r.zip);
    stk__free(ctx, r.pickle);
    stk__free(ctx, r.name);
    stk__free(ctx, r.storages);
    stk__free(ctx, r.tensors.all);
    if (status != STK_OK)
        stk__pth_release(out);
    return status;
}

stk_status stk__pth_load(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                         stk__pth *out, stk_error *err)
{
    return read_file((reading){.ctx = ctx, .path = path, .err = err, .source = source}, true, out);
}

stk_status stk__pth_verify(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                           stk__pth *out, stk_error *err)
{
    return read_file((reading){.ctx = ctx, .path = path, .err = err, .source = source}, false, out);
}

void stk__pth_release(stk__pth *pth)
{
    for (size_t i = 0; i < pth->num_blocks; i++)
        stk__free(pth->ctx, pth->blocks[i]);
    stk__free(pth->ctx, pth->blocks);
    stk__free(pth->ctx, pth->names);
    stk__free(pth->ctx, pth->tensors);
    *pth = (stk__pth){.ctx = pth->ctx};
}
