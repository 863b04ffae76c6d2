/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of torch.save. The input is such a file, or a pickle that is put into one with two
 * storages, so that what a mutation changes is read in spite of checksums. What must hold whatever
 * the bytes: each tensor lies in memory, dense and aligned; nothing is left behind.
 */
#include "fuzz_support.h"

#include <libdeflate.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct piece {
    const char *name;
    const uint8_t *data;
    size_t size;
} piece;

static void put(FILE *f, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        fputc((int)(i < 8 ? value >> 8 * i & 0xff : 0), f);
}

/* What both records of an entry have. */
static void put_entry(FILE *f, const piece *p)
{
    put(f, 20, 2);
    put(f, 0, 8);
    put(f, libdeflate_crc32(0, p->data, p->size), 4);
    put(f, p->size, 4);
    put(f, p->size, 4);
    put(f, strlen(p->name), 2);
    put(f, 0, 2);
}

static void write_zip(FILE *f, const piece *pieces, size_t n)
{
    long at[4];

    for (size_t i = 0; i < n; i++) {
        at[i] = ftell(f);
        put(f, 0x04034b50, 4);
        put_entry(f, &pieces[i]);
        fputs(pieces[i].name, f);
        fwrite(pieces[i].data, 1, pieces[i].size, f);
    }
    at[n] = ftell(f);
    for (size_t i = 0; i < n; i++) {
        put(f, 0x02014b50, 4);
        put(f, 20, 2);
        put_entry(f, &pieces[i]);
        put(f, 0, 10);
        put(f, (uint64_t)at[i], 4);
        fputs(pieces[i].name, f);
    }
    const long end = ftell(f);
    put(f, 0x06054b50, 4);
    put(f, 0, 4);
    put(f, n, 2);
    put(f, n, 2);
    put(f, (uint64_t)(end - at[n]), 4);
    put(f, (uint64_t)at[n], 4);
    put(f, 0, 2);
}

/* Without the bytes: the same tensors, or refused as well, unless memory is what it lacks. */
static void verify(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                   stk_status loaded, size_t tensors)
{
    stk__pth pth;

    const stk_status status = stk__pth_verify(ctx, source, path, &pth, NULL);
    FUZZ_CHECK(status == loaded || loaded == STK_EBUDGET || loaded == STK_ENOMEM);
    FUZZ_CHECK(status != STK_OK || loaded != STK_OK || pth.num_tensors == tensors);
    stk__pth_release(&pth);
}

static void load(stk_context *ctx, const stk__checkpoint_source *source, const char *path)
{
    stk__pth pth;
    stk_error err;

    stk_error_init(&err);
    const stk_status status = stk__pth_load(ctx, source, path, &pth, &err);
    verify(ctx, source, path, status, pth.num_tensors);
    if (status != STK_OK) {
        FUZZ_CHECK(err.status != STK_OK && err.status != STK_EINTERNAL && err.text[0]);
        FUZZ_CHECK(pth.num_tensors == 0 && !pth.tensors);
        return;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < pth.num_tensors; i++) {
        const stk_state_tensor *t = &pth.tensors[i];
        FUZZ_CHECK(t->name[0] && t->rank <= STK_MAX_RANK);
        FUZZ_CHECK((uintptr_t)t->data % stk_dtype_size(t->dtype) == 0);
        uint64_t count = 1;
        for (uint32_t k = 0; k < t->rank; k++)
            count *= (uint64_t)t->shape[k];
        FUZZ_CHECK(count * stk_dtype_size(t->dtype) == t->bytes);
        for (uint64_t k = 0; k < t->bytes; k++)
            sum += ((const uint8_t *)t->data)[k];
    }
    FUZZ_CHECK(sum != UINT64_MAX);
    stk__pth_release(&pth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t storage[64] = {1, 2, 3};
    const piece pieces[] = {
        {"a/data.pkl", data, size}, {"a/data/0", storage, 64}, {"a/data/1", storage, 24}};
    char path[64];

    stk_context *ctx = fuzz_context();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    FILE *f = fdopen(fd, "wb");
    FUZZ_CHECK(f);
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0)
        fwrite(data, 1, size, f);
    else
        write_zip(f, pieces, 3);
    FUZZ_CHECK(fflush(f) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint64_t held = fuzz_held(ctx);
    stk__checkpoint_source source;
    FUZZ_CHECK(stk__checkpoint_source_open(ctx, path, "a file", &source, NULL) == STK_OK);
    load(ctx, &source, path);
    stk__checkpoint_source_close(&source);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    fclose(f);
    stk_context_destroy(&ctx);
    return 0;
}
