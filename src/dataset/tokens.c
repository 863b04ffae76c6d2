/* SPDX-License-Identifier: Apache-2.0 */
/* tokens: one long row of integers, raw, npy or of Megatron, cut into windows or packed by
 * documents; with the same shifted by one. */
#include "dataset/tokens.h"

#include <stdio.h>

#include "base/npy_head.h"
#include "base/text.h"
#include "dataset/megatron.h"
#include "dataset/npy.h"

#define BLOCK_BYTES 65536u
#define PRINT_BYTES 4096u /* of the file in the fingerprint */
#define AT(member)  offsetof(stk__tokens_options, member)

enum { INDEX_AUTO, INDEX_NONE };

static const stk_option option_list[] = {
    {"length", STK_OPTION_UINT, AT(length), "1024", 1, 1u << 30, NULL, "N", "Tokens of a sample."},
    {"stride", STK_OPTION_UINT, AT(stride), "0", 0, 1u << 30, NULL, "N",
     "Distance of neighbouring samples; 0: the length; 1: every place is a sample."},
    {"target", STK_OPTION_BOOL, AT(target), "false", 0, 0, NULL, NULL,
     "Also a field target: for each token the one that follows it."},
    {"output", STK_OPTION_ENUM, AT(output), "int64", 0, 0, "int64|int32", NULL,
     "Type of the fields."},
    {"documents", STK_OPTION_ENUM, AT(documents), "join", 0, 0, "join|mark|split|pack", NULL,
     "join: samples are windows of all tokens; mark: with fields positions, documents, loss_mask; "
     "split: windows within a document; pack: documents put together."},
    {"eod", STK_OPTION_INT, AT(eod), "-1", -1, (double)UINT32_MAX, NULL, "TOKEN",
     "Of a file without an index: the token that ends a document; -1: none."},
    {"pad", STK_OPTION_INT, AT(pad), "0", INT32_MIN, INT32_MAX, NULL, "TOKEN",
     "Of split and pack: what fills a sample up."},
    {"ignore", STK_OPTION_INT, AT(ignore), "-100", INT32_MIN, INT32_MAX, NULL, "N",
     "The target where no token of the document follows; unless documents=join."},
    {"max_documents", STK_OPTION_UINT, AT(max_documents), "0", 0, 1u << 30, NULL, "N",
     "Documents in a pack, at most; 0: any number."},
    {"pack_block", STK_OPTION_UINT, AT(pack_block), "4096", 1, 1u << 24, NULL, "N",
     "Neighbouring documents that are packed together."},
    {"pack_seed", STK_OPTION_UINT, AT(pack_seed), "0", 0, 0, NULL, "N",
     "Which documents of a block meet in a pack."},
    {"index", STK_OPTION_ENUM, AT(index), "auto", 0, 0, "auto|none", NULL,
     "auto: FILE.bin is read by a Megatron index FILE.idx beside it; none: as a raw file."},
    {"dtype", STK_OPTION_STRING, AT(dtype), NULL, 0, 0, NULL, "TYPE",
     "Of a raw file: type of its tokens; without it uint16."},
    {"offset", STK_OPTION_SIZE, AT(offset), "0", 0, 0, NULL, "SIZE",
     "Of a raw file: bytes in front of the tokens."},
    {"memory", STK_OPTION_BOOL, AT(memory), "false", 0, 0, NULL, NULL,
     "Read the file into memory when opening."},
};

const stk_option_table stk__tokens_table = {"tokens", "Windows or packs of a long row of integers.",
                                            sizeof(stk__tokens_options), option_list,
                                            STK_COUNT(option_list)};

static void tokens_close(stk_dataset *dataset)
{
    stk__tokens *t = (stk__tokens *)dataset;
    stk_context *ctx = t->base.context;

    stk__tokens_release(t);
    stk__object_release(ctx, &t->file);
    stk_store_close(&t->store);
    stk__free(ctx, t);
}

static stk_status open_npy(stk__tokens *t, uint64_t *print, stk_error *err)
{
    stk__npy_header h;
    char shape[256];

    STK_TRY(stk__npy_read_header(t->store, &t->file, false, &h, print, err));
    stk__shape_tuple(h.shape, h.rank, shape, sizeof shape);
    if (h.rank != 1)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, t->file.key, 0,
                            "tokens: %s is of shape %s; tokens lie in one dimension", t->file.key,
                            shape);
    t->dtype = h.dtype;
    t->swap = h.swap;
    t->first = h.offset;
    t->count = (uint64_t)h.shape[0];
    return STK_OK;
}

static stk_status open_raw(stk__tokens *t, const stk__tokens_options *o, stk_error *err)
{
    const char *dtype = o->dtype && o->dtype[0] ? o->dtype : "uint16";

    t->dtype = stk_dtype_parse(dtype);
    const uint64_t size = stk_dtype_size(t->dtype);
    if (!size)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
                            "dtype=%.60s is no type; give one as uint16", dtype);
    if (o->offset > t->file.size || (t->file.size - o->offset) % size)
        return stk__fail_at(
            err, STK_EFORMAT, STK_STAGE_DATASET, t->file.key, o->offset,
            "tokens: %s has %llu bytes behind the first %llu, which is no number of "
            "whole tokens of %s; give dtype and offset",
            t->file.key, (unsigned long long)(t->file.size - STK_MIN(o->offset, t->file.size)),
            (unsigned long long)o->offset, dtype);
    t->first = o->offset;
    t->count = (t->file.size - o->offset) / size;
    return STK_OK;
}

/* An option that would change nothing is refused. */
static stk_status useless(const char *option, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "%s does nothing here: %s; leave it out", option, why);
}

static stk_status check_options(const stk__tokens_options *o, stk_error *err)
{
    const bool pack = o->documents == STK__TOKENS_PACK, join = o->documents == STK__TOKENS_JOIN;

    if (join && o->eod != -1)
        return useless("eod", "documents=join goes over the ends of documents", err);
    if (o->pad != 0 && (join || o->documents == STK__TOKENS_MARK))
        return useless("pad", "only documents=split and documents=pack fill samples up", err);
    if (o->ignore != -100 && (join || !o->target))
        return useless("ignore", "it is for target=true with documents other than join", err);
    if (pack && o->stride)
        return useless("stride", "packs take every token once", err);
    if (!pack && o->max_documents)
        return useless("max_documents", "it is for documents=pack", err);
    if (!pack && (o->pack_seed || o->pack_block != 4096))
        return useless(o->pack_seed ? "pack_seed" : "pack_block", "it is for documents=pack", err);
    return STK_OK;
}

/* A file that an index speaks for. */
static stk_status open_megatron(stk__tokens *t, const stk__tokens_options *o,
                                const stk__object *index, stk_error *err)
{
    static const char why[] = "the index beside the file says it (index=none: it is not read)";
    stk__megatron found;

    if (o->eod != -1)
        return useless("eod", why, err);
    if (o->offset)
        return useless("offset", why, err);
    STK_TRY(stk__megatron_read(t->store, index, t->file.size,
                               t->mode == STK__TOKENS_JOIN ? NULL : &t->documents, &found, err));
    if (o->dtype && o->dtype[0] && stk_dtype_parse(o->dtype) != found.dtype)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
                            "dtype=%.60s: %s says %s; leave dtype out, or read %s without by "
                            "index=none",
                            o->dtype, index->key, stk_dtype_name(found.dtype), t->file.key);
    t->dtype = found.dtype;
    t->count = found.tokens;
    t->num_documents = found.documents;
    return STK_OK;
}

/* How tokens lie in the file. */
static stk_status open_row(stk__tokens *t, const stk__tokens_options *o, const stk__object *index,
                           uint64_t *print, stk_error *err)
{
    unsigned char head[PRINT_BYTES];
    uint64_t length = STK_MIN(t->file.size, sizeof head);

    STK_TRY(o->memory ? stk__object_load(t->store, &t->file, err)
                      : stk__object_map(t->store, &t->file, err));
    STK_TRY(stk__object_read(t->store, &t->file, 0, length, head, err));
    *print = stk__fingerprint(*print, head, length);
    if (index)
        STK_TRY(open_megatron(t, o, index, err));
    else
        STK_TRY(stk__npy_begins(head, length) ? open_npy(t, print, err) : open_raw(t, o, err));
    t->size = (uint32_t)stk_dtype_size(t->dtype);
    t->widen = stk__widen(t->base.context, t->dtype);
    if (!t->widen)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, t->file.key, 0,
                            "tokens: %s holds %s; tokens are integers that int64 holds",
                            t->file.key, stk_dtype_name(t->dtype));
    t->narrow = o->output ? stk__narrow(t->dtype) : NULL;
    return STK_OK;
}

static stk_status open_tokens(stk__tokens *t, const stk__tokens_options *o,
                              const stk__object *index, uint64_t *samples, uint64_t *print,
                              stk_error *err)
{
    STK_TRY(check_options(o, err));
    t->mode = (stk__tokens_mode)o->documents;
    t->target = o->target;
    t->length = o->length;
    t->stride = o->stride ? o->stride : o->length;
    t->span = o->length + o->target;
    t->pad = o->pad;
    t->ignore = o->ignore;
    t->indexed = index != NULL;
    STK_TRY(open_row(t, o, index, print, err));
    if (t->mode != STK__TOKENS_JOIN && !index) {
        if (o->eod == -1)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "documents", STK_NO_OFFSET,
                                "documents: nothing says where those of %s end; give eod, the "
                                "token that ends each, or a Megatron index beside it",
                                t->file.key);
        STK_TRY(stk__tokens_scan(t, o->eod, err));
    }
    /* The plan frees what it does not need of them. */
    if (t->mode != STK__TOKENS_JOIN)
        *print = stk__fingerprint(*print, t->documents.starts,
                                  t->documents.count * sizeof *t->documents.starts);
    return stk__tokens_plan(t, o, samples, err);
}

static uint32_t fill_fields(stk__tokens *t)
{
    const int64_t shape[] = {(int64_t)t->length, -1};
    const stk_dtype type = t->narrow ? STK_INT32 : STK_INT64;
    uint32_t n = 0;

    t->fields[n++] = stk__field(t->target ? "input" : "tokens", type, shape, false);
    if (t->target)
        t->fields[n++] = stk__field("target", type, shape, false);
    if (t->mode != STK__TOKENS_JOIN) {
        t->fields[n++] = stk__field("positions", type, shape, false);
        t->fields[n++] = stk__field("documents", type, shape, false);
        t->fields[n++] = stk__field("loss_mask", STK_BOOL, shape, false);
    }
    return n;
}

/* Neighbours that are stored together: some tokens, or what a block of documents became. */
static uint64_t block_of(const stk__tokens *t, uint64_t samples)
{
    const uint64_t tokens = t->mode == STK__TOKENS_PACK ? t->length : t->stride,
                   near = STK_MAX(BLOCK_BYTES / (tokens * t->size), 1);

    return STK_MIN(t->packing.num_blocks ? STK_MAX(samples / t->packing.num_blocks, near) : near,
                   samples);
}

static void fill_head(stk__tokens *t, const stk__tokens_options *o, uint64_t samples,
                      uint64_t print)
{
    const uint64_t numbers[] = {t->first,  t->count,  t->length,
                                t->stride, t->target, (uint64_t)t->dtype};
    /* What came later; those of windows as int64 are as they were without. */
    const uint64_t more[] = {(uint64_t)t->mode,   t->narrow != NULL, (uint64_t)t->pad,
                             (uint64_t)t->ignore, o->max_documents,  o->pack_block,
                             o->pack_seed};

    stk__dataset_init(&t->base, &stk__dataset_tokens, t->base.context, samples, t->fields,
                      fill_fields(t));
    print = stk__fingerprint(print, numbers, sizeof numbers);
    if (t->mode != STK__TOKENS_JOIN || t->narrow)
        print = stk__fingerprint(print, more, sizeof more);
    t->base.fingerprint = stk__fingerprint(t->base.fingerprint, &print, sizeof print);
    t->base.block_size = block_of(t, samples);
    t->base.held_bytes = stk__object_held(&t->file);
    t->base.cost_ns = 50 + (t->mode == STK__TOKENS_JOIN ? 0.5 : 1.5) * (double)t->span;
}

/* The name `key` with another end, if it has room. */
static bool other_end(const char *key, const char *end, const char *other, char *out, size_t size)
{
    size_t length = strlen(key);

    if (!stk__ends_with(key, length, end))
        return false;
    const int n = snprintf(out, size, "%.*s%s", (int)(length - strlen(end)), key, other);
    return n > 0 && (size_t)n < size;
}

/* The .bin and the .idx that `key` names with its end or without. False: they are not both there.
 */
static stk_status find_pair(stk__tokens *t, const char *key, const char *end, stk__object *index,
                            bool *found, stk_error *err)
{
    char bin[STK_MAX_OBJECT_KEY], idx[STK_MAX_OBJECT_KEY];

    *found = false;
    if (!other_end(key, end, ".bin", bin, sizeof bin) ||
        !other_end(key, end, ".idx", idx, sizeof idx))
        return STK_OK;
    STK_TRY(stk__object_find(t->store, idx, index, found, err));
    if (*found)
        STK_TRY(stk__object_find(t->store, bin, &t->file, found, err));
    return STK_OK;
}

/* The file of the tokens, and the index that speaks for it. */
static stk_status find_file(stk__tokens *t, const char *key, const stk__tokens_options *o,
                            stk__object *index, bool *found, bool *indexed, stk_error *err)
{
    const size_t length = strlen(key);

    *indexed = false;
    STK_TRY(stk__object_find(t->store, key, &t->file, found, err));
    if (o->index == INDEX_NONE)
        return STK_OK;
    if (*found && stk__ends_with(key, length, ".idx")) {
        STK_TRY(find_pair(t, key, ".idx", index, indexed, err));
        if (!*indexed)
            return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                                "tokens: %s is an index, and %.*s.bin, which it is for, is not "
                                "beside it",
                                key, (int)(length - strlen(".idx")), key);
        return STK_OK;
    }
    if (*found && stk__ends_with(key, length, ".bin")) {
        STK_TRY(find_pair(t, key, ".bin", index, indexed, err));
        return *indexed ? stk__megatron_is_index(t->store, index, indexed, err) : STK_OK;
    }
    if (!*found) {
        STK_TRY(find_pair(t, key, "", index, found, err));
        *indexed = *found;
    }
    return STK_OK;
}

/* A store may find nothing under the name that .idx and .bin share: it is asked for the index then.
 */
static stk_status open_place(stk__tokens *t, const char *url, bool pairs, char *key, size_t size,
                             stk_error *err)
{
    stk_context *ctx = t->base.context;
    const size_t length = strcspn(url, "?");

    stk_status status = stk_store_open(ctx, url, &t->store, key, size, err);
    if (status != STK_ENOENT || !pairs || length > INT32_MAX)
        return status;
    char *index = stk__format(ctx, "%.*s.idx%s", (int)length, url, url + length);
    if (!index)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tokens: no memory to open %.200s",
                         url);
    stk_error_init(err);
    status = stk_store_open(ctx, index, &t->store, key, size, err);
    stk__free(ctx, index);
    /* The error is to name what was asked for. */
    return status == STK_ENOENT ? stk_store_open(ctx, url, &t->store, key, size, err) : status;
}

static stk_status open_store(stk__tokens *t, const char *url, const stk__tokens_options *o,
                             uint64_t *samples, uint64_t *print, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    bool found = false, indexed = false;
    stk__object index;

    STK_TRY(open_place(t, url, o->index != INDEX_NONE, key, sizeof key, err));
    if (key[0])
        STK_TRY(find_file(t, key, o, &index, &found, &indexed, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "tokens: '%.200s' is no file; name the file of the tokens", url);
    return open_tokens(t, o, indexed ? &index : NULL, samples, print, err);
}

static stk_status tokens_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    uint64_t print = stk__fingerprint(0, "tokens", 6), samples = 0;

    *out = NULL;
    stk__tokens *t = stk__calloc(ctx, 1, sizeof *t);
    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tokens: no memory to open %.200s",
                         url);
    t->base.context = ctx;
    stk_status status = open_store(t, url, options, &samples, &print, err);
    if (status != STK_OK) {
        tokens_close(&t->base);
        return status;
    }
    fill_head(t, options, samples, print);
    *out = &t->base;
    return STK_OK;
}

/* A need for each piece, and the token behind it where that is a target. */
static stk_status locate_pieces(const stk__tokens *t, const uint64_t *indices, size_t n,
                                stk_locator *to)
{
    stk__token_piece piece;

    for (size_t i = 0; i < n; i++)
        for (stk__token_pieces walk = stk__token_pieces_of(t, indices[i]);
             stk__token_pieces_next(&walk, &piece);) {
            const uint64_t tokens = (uint64_t)piece.length + (t->target && piece.more);
            stk_need need = {.offset = t->first + piece.start * t->size,
                             .length = tokens * t->size};
            STK_TRY(to->add(to, i, &need));
        }
    return STK_OK;
}

static stk_status tokens_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    stk__tokens *t = (stk__tokens *)dataset;

    STK_TRY(stk__object_unchanged(t->store, &t->file, &t->watched, "tokens", err));
    if (t->mode == STK__TOKENS_SPLIT || t->mode == STK__TOKENS_PACK)
        return t->file.data ? STK_OK : locate_pieces(t, indices, n, to);
    return stk__object_locate(&t->file, t->first, t->stride * t->size, t->span * t->size, indices,
                              n, to);
}

static size_t tokens_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    stk__tokens *t = (stk__tokens *)dataset;

    *store = t->store;
    return stk__object_copy_key(key, size, t->file.key);
}

static stk_status tokens_describe(stk_dataset *dataset,
                                  void (*line)(void *user, const char *name, const char *value),
                                  void *user, stk_error *err)
{
    const stk__tokens *t = (const stk__tokens *)dataset;
    char text[128];

    (void)err;
    line(user, "file", t->file.key);
    snprintf(text, sizeof text, "%llu of %s", (unsigned long long)t->count,
             stk_dtype_name(t->dtype));
    line(user, "tokens", text);
    if (t->indexed || t->mode != STK__TOKENS_JOIN) {
        snprintf(text, sizeof text, "%llu%s", (unsigned long long)t->num_documents,
                 t->indexed ? ", by a Megatron index" : "");
        line(user, "documents", text);
    }
    if (t->mode == STK__TOKENS_PACK) {
        snprintf(text, sizeof text, "%llu, %.1f %% of them filled",
                 (unsigned long long)t->packing.num_packs,
                 100.0 * (double)t->count / (double)t->packing.num_packs / (double)t->length);
        line(user, "packs", text);
    }
    line(user, "kept in", t->file.data ? "memory" : "the store, read by range");
    return STK_OK;
}

const stk_dataset_ops stk__dataset_tokens = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "tokens",
    .doc = "Windows or packs of a long row of integers: raw, npy, Megatron.",
    .options = &stk__tokens_table,
    .open = tokens_open,
    .close = tokens_close,
    .locate = tokens_locate,
    .object = tokens_object,
    .prepare = stk__tokens_prepare,
    .describe = tokens_describe,
};
