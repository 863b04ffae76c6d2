/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAX_FIELDS 64

/* Mix the bytes of row `i` of a field into a hash. */
static void hash_row(XXH3_state_t *hash, const stk_tensor *tensor, uint64_t i)
{
    size_t item = stk_dtype_size(tensor->dtype);

    if (tensor->offsets) {
        uint64_t from = tensor->offsets[i], to = tensor->offsets[i + 1];
        XXH3_64bits_update(hash, (const char *)tensor->data + from * item,
                           (size_t)(to - from) * item);
        return;
    }
    for (uint32_t d = 1; d < tensor->rank; d++)
        item *= (size_t)tensor->shape[d];
    XXH3_64bits_update(hash, (const char *)tensor->data + i * item, item);
}

static stk_status hash_batch(const stk_batch *batch, uint32_t num_fields, FILE *out, stk_error *err)
{
    stk_tensor tensors[MAX_FIELDS], index;
    const uint64_t *positions = stk_batch_positions(batch);
    uint64_t count = stk_batch_count(batch);
    XXH3_state_t *hash = XXH3_createState();
    stk_status status = hash ? STK_OK : STK_ENOMEM;

    if (num_fields > MAX_FIELDS)
        num_fields = MAX_FIELDS;
    for (uint32_t i = 0; i < num_fields && status == STK_OK; i++)
        status = stk_batch_field(batch, i, &tensors[i]);
    if (status == STK_OK)
        status = stk_batch_find(batch, "index", &index);
    for (uint64_t i = 0; i < count && status == STK_OK; i++) {
        XXH3_64bits_reset(hash);
        for (uint32_t f = 0; f < num_fields; f++)
            hash_row(hash, &tensors[f], i);
        if (fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                    stk_batch_epoch(batch), stk_batch_step(batch), positions[i],
                    ((const uint64_t *)index.data)[i], (uint64_t)XXH3_64bits_digest(hash)) < 0)
            status = STK_EIO;
    }
    XXH3_freeState(hash);
    if (status != STK_OK && err) {
        stk_error_init(err);
        err->status = status;
        snprintf(err->text, sizeof err->text, "could not hash step %" PRIu64 ": %s",
                 stk_batch_step(batch), stk_status_text(status));
    }
    return status;
}

static stk_status hash_epochs(stk_loader *loader, const struct bench_options *bench, FILE *out,
                              stk_error *err)
{
    uint64_t epochs = bench->num_epochs ? bench->num_epochs : 1, batches = bench->num_batches;
    stk_status status = STK_OK;
    uint32_t num_fields;

    stk_loader_fields(loader, &num_fields);
    for (uint64_t epoch = 0; status == STK_OK && epoch < epochs; epoch++) {
        stk_batch *batch = NULL;
        for (uint64_t i = 0; status == STK_OK && (!batches || i < batches); i++) {
            status = stk_loader_next(loader, -1, &batch, err);
            if (status == STK_OK)
                status = hash_batch(batch, num_fields, out, err);
            stk_batch_release(&batch);
        }
        if (status == STK_EOS)
            status = STK_OK;
        else if (status == STK_OK && epoch + 1 < epochs)
            status = stk_loader_set_epoch(loader, epoch + 1, err);
    }
    return status;
}

stk_status bench_hash_pass(stk_dataset *dataset, const stk_loader_options *options,
                           const struct bench_options *bench, int fd, stk_error *err)
{
    stk_loader_options again = *options;
    stk_loader *loader = NULL;
    int own = dup(fd);
    FILE *out = own < 0 ? NULL : fdopen(own, "w");
    stk_status status = out ? STK_OK : STK_ESYSTEM;

    again.epochs = bench->num_epochs ? bench->num_epochs : 1;
    if (status == STK_OK)
        status = stk_loader_create(dataset, &again, &loader, err);
    if (status == STK_OK) {
        cli_on_interrupt(bench_interrupt, loader);
        status = hash_epochs(loader, bench, out, err);
        cli_on_interrupt(bench_interrupt, NULL);
    }
    stk_loader_destroy(&loader);
    if (!out || (fclose(out) != 0 && status == STK_OK)) {
        status = STK_EIO;
        stk_error_init(err);
        err->status = status;
        snprintf(err->text, sizeof err->text,
                 "could not keep the hashes: %s; the folder for temporary files "
                 "(TMPDIR) may be full",
                 strerror(errno));
    }
    if (!out && own >= 0)
        close(own);
    return status;
}

/* The line at the head of one input. */
struct head {
    char *line;
    size_t size;
    uint64_t key[3]; /* epoch, step, position */
    bool there;
};

static void next_line(FILE *in, struct head *head)
{
    char *at = head->line;

    head->there = getline(&head->line, &head->size, in) > 0;
    if (!head->there)
        return;
    at = head->line;
    for (int i = 0; i < 3; i++)
        head->key[i] = strtoull(at, &at, 10);
}

static bool comes_before(const struct head *a, const struct head *b)
{
    for (int i = 0; i < 3; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i];
    return false;
}

int bench_hash_merge(FILE *const *in, size_t n, FILE *out)
{
    struct head *heads = calloc(n, sizeof *heads);
    int result = heads ? 0 : -1;

    for (size_t i = 0; i < n && heads; i++) {
        rewind(in[i]);
        next_line(in[i], &heads[i]);
    }
    while (result == 0) {
        size_t first = n;
        for (size_t i = 0; i < n; i++)
            if (heads[i].there && (first == n || comes_before(&heads[i], &heads[first])))
                first = i;
        if (first == n)
            break;
        if (fputs(heads[first].line, out) < 0)
            result = -1;
        next_line(in[first], &heads[first]);
    }
    for (size_t i = 0; i < n && heads; i++)
        free(heads[i].line);
    free(heads);
    return result;
}
