/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of the plug-in of outsider.c: a format of arrays and a converter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

extern const stk_array_format_ops tiles_ops;
extern const stk_converter_ops lines_ops;

/* ---- A format of arrays: "TILES1", then height, width and side as int64, then square tiles of
 * int16; or several of them in one file: "TILES2", their number as int64, and of each the name and
 * where it begins ---- */

typedef struct tiles_options {
    uint32_t struct_size;
    bool read; /* by this plug-in instead of by the library */
} tiles_options;

static const stk_option tiles_list[] = {{"read", STK_OPTION_BOOL, offsetof(tiles_options, read),
                                         "false", 0, 0, NULL, NULL, "Read tiles in the plug-in."}};
static const stk_option_table tiles_table = {"tiles", "Tiles", sizeof(tiles_options), tiles_list,
                                             1};

typedef struct tiles_head {
    char magic[8];
    int64_t shape[2], side;
} tiles_head;

typedef struct tiles_entry {
    char name[24];
    int64_t at;
} tiles_entry;

typedef struct tiles {
    tiles_head head;
    int64_t at; /* of the head in the file */
    stk_store *store;
    char key[256];
} tiles;

static int tiles_recognise(stk_store *store, const char *key)
{
    char magic[8];

    if (!*key || stk_store_read(store, key, 0, sizeof magic, magic, NULL) != STK_OK)
        return 0;
    return memcmp(magic, "TILES1", 7) == 0 || memcmp(magic, "TILES2", 7) == 0 ? 2 : 0;
}

/* Find the array that the path names below the file. */
static stk_status tiles_find(const stk_array_opening *opening, tiles *self, stk_error *err)
{
    struct {
        char magic[8];
        int64_t count;
    } start;
    tiles_entry entry;

    self->at = 0;
    stk_status status = stk_store_read(opening->store, opening->key, 0, sizeof start, &start, err);
    if (status != STK_OK || (memcmp(start.magic, "TILES1", 7) == 0 && !*opening->rest))
        return status;
    for (int64_t i = 0; memcmp(start.magic, "TILES2", 7) == 0 && i < start.count; i++) {
        status =
            stk_store_read(opening->store, opening->key, sizeof start + (uint64_t)i * sizeof entry,
                           sizeof entry, &entry, err);
        if (status != STK_OK)
            return status;
        entry.name[sizeof entry.name - 1] = 0;
        self->at = entry.at;
        if (strcmp(entry.name, opening->rest) == 0)
            return STK_OK;
    }
    if (err) {
        err->status = STK_ENOENT;
        snprintf(err->text, sizeof err->text, "%s holds no tiles '%s'", opening->key,
                 opening->rest);
    }
    return STK_ENOENT;
}

static stk_status tiles_open(stk_array *array, const stk_array_opening *opening, stk_error *err)
{
    stk_array_layout layout = {.struct_size = sizeof layout, .type_name = "int16", .rank = 2};
    tiles *self = calloc(1, sizeof *self);
    int64_t chunk[2];

    if (!self)
        return STK_ENOMEM;
    stk_status status = tiles_find(opening, self, err);
    if (status == STK_OK)
        status = stk_store_read(opening->store, opening->key, (uint64_t)self->at, sizeof self->head,
                                &self->head, err);
    if (status == STK_OK) {
        self->store = opening->store;
        snprintf(self->key, sizeof self->key, "%s", opening->key);
        chunk[0] = chunk[1] = self->head.side;
        layout.shape = self->head.shape;
        layout.chunk_shape = chunk;
        layout.reads_chunks = ((const tiles_options *)opening->options)->read;
        layout.state = self;
        status = stk_array_lay_out(array, &layout, err);
    }
    if (status != STK_OK)
        free(self);
    return status;
}

static stk_status tiles_locate(void *state, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    const tiles *self = state;

    out->length = (uint64_t)(self->head.side * self->head.side * 2);
    out->offset = (uint64_t)self->at + sizeof self->head + chunk * out->length;
    return STK_OK;
}

static stk_status tiles_read(void *state, const int64_t *start, const int64_t *shape,
                             const stk_store_call *call, void *out, uint64_t bytes, stk_error *err)
{
    const tiles *self = state;
    const int64_t side = self->head.side, wide = (self->head.shape[1] + side - 1) / side;
    const int64_t tile = start[0] / side * wide + start[1] / side;

    for (int64_t y = 0; y < shape[0]; y++) {
        if (call->canceled && call->canceled(call->user))
            return STK_ECANCELED;
        const int64_t at =
            self->at + (int64_t)sizeof self->head + (tile * side * side + y * side) * 2;
        const stk_status status =
            stk_store_read(self->store, self->key, (uint64_t)at, (uint64_t)shape[1] * 2,
                           (char *)out + y * shape[1] * 2, err);
        if (status != STK_OK)
            return status;
    }
    return STK_OK;
}

const stk_array_format_ops tiles_ops = {.struct_size = sizeof tiles_ops,
                                        .name = "tiles",
                                        .doc = "Square tiles of int16 in one file",
                                        .options = &tiles_table,
                                        .takes_rest = true,
                                        .recognise = tiles_recognise,
                                        .open = tiles_open,
                                        .locate = tiles_locate,
                                        .read = tiles_read,
                                        .close = free};

/* ---- A converter: labels as lines of a text ---- */

typedef struct lines_options {
    uint32_t struct_size;
    const char *word; /* in front of each */
} lines_options;

static const stk_option lines_list[] = {{"word", STK_OPTION_STRING, offsetof(lines_options, word),
                                         "label", 0, 0, NULL, "TEXT", "In front of each label."}};
static const stk_option_table lines_table = {"lines", "Labels as lines", sizeof(lines_options),
                                             lines_list, 1};

static bool lines_accepts(const stk_dataset *dataset, const char **why)
{
    stk_dataset_info info = {.struct_size = sizeof info};

    stk_dataset_get_info(dataset, &info);
    *why = "has no field 'label'";
    for (uint32_t i = 0; i < info.num_fields; i++)
        if (strcmp(stk_field_at(info.fields, i)->name, "label") == 0)
            return true;
    return false;
}

static stk_status lines_write(const stk_conversion_job *job, const stk_batch *batch, stk_put *put,
                              stk_conversion_report *report, stk_error *err)
{
    const char *word = ((const lines_options *)job->own)->word;
    stk_tensor label = {.struct_size = sizeof label};
    char line[256];

    stk_status status = stk_batch_find(batch, "label", &label);
    for (uint64_t i = 0; status == STK_OK && i < stk_batch_count(batch); i++) {
        const int n = snprintf(line, sizeof line, "%.200s %lld\n", word,
                               (long long)((const int64_t *)label.data)[i]);
        status = put->ops->write(put, line, (size_t)n, err);
        report->total++;
    }
    return status;
}

static stk_status lines_run(const stk_conversion_job *job, stk_conversion_report *report,
                            stk_error *err)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_put *put = NULL;

    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 0;
    stk_status status = stk_loader_create(job->dataset, &options, &loader, err);
    if (status == STK_OK)
        status = stk_put_open(job->context, job->target, NULL, &put, err);
    while (status == STK_OK && (status = stk_loader_next(loader, -1, &batch, err)) == STK_OK) {
        status = lines_write(job, batch, put, report, err);
        stk_batch_release(&batch);
        if (status == STK_OK && job->canceled(job))
            status = STK_ECANCELED;
    }
    if (status == STK_EOS)
        status = put->ops->commit(put, err);
    else if (put)
        put->ops->abandon(put);
    stk_loader_destroy(&loader);
    return status;
}

const stk_converter_ops lines_ops = {.struct_size = sizeof lines_ops,
                                     .name = "lines",
                                     .from = "anything with labels",
                                     .doc = "lines of a text",
                                     .options = &lines_table,
                                     .endings = "|.lines|",
                                     .accepts = lines_accepts,
                                     .run = lines_run};
