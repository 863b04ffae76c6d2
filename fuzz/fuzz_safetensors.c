/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files and checkpoints. The input is a file. What must hold whatever the bytes: the
 * tensors lie in the memory that was read, without holes; what is read and written again is the
 * same; nothing is left behind.
 */
#include "fuzz_support.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/safetensors.h"

stk_status stk_checkpoint_describe(stk_context *ctx, const char *path,
                                   void (*line)(void *user, const char *name, const char *value),
                                   void *user, stk_error *err);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write the head anew and parse it: the same names, types, shapes, texts. */
static void round_trip(stk_context *ctx, const stk__safetensors *s)
{
    stk__safetensors_head head = {.text.ctx = ctx};
    stk__safetensors again;
    stk_error err;

    /* The writer needs names; the format allows the empty one. */
    for (size_t i = 0; i < s->num_tensors; i++)
        if (!s->tensors[i].name[0])
            return;
    for (size_t i = 0; i < s->num_texts; i++)
        if (!s->texts[i].name[0])
            return;
    FUZZ_CHECK(stk__safetensors_head_make(&head, s->tensors, s->num_tensors, s->texts, s->num_texts,
                                          &err) == STK_OK);
    FUZZ_CHECK(head.text.length % STK__SAFETENSORS_ALIGN == 0 && head.data_bytes == s->data_bytes);
    char *json = stk__alloc(ctx, head.text.length - 8 + 1);
    FUZZ_CHECK(json);
    memcpy(json, head.text.bytes + 8, head.text.length - 8);
    FUZZ_CHECK(stk__safetensors_parse(ctx, json, head.text.length - 8, "again", &again, &err) ==
               STK_OK);
    FUZZ_CHECK(again.num_tensors == s->num_tensors && again.num_texts == s->num_texts);
    for (size_t i = 0; i < s->num_tensors; i++) {
        const stk_state_tensor *a = &s->tensors[i], *b = stk__safetensors_find(&again, a->name);
        FUZZ_CHECK(b && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
                   memcmp(a->shape, b->shape, sizeof a->shape) == 0);
    }
    for (size_t i = 0; i < s->num_texts; i++) {
        const char *text = stk__safetensors_find_text(&again, s->texts[i].name);
        FUZZ_CHECK(text && strcmp(text, s->texts[i].text) == 0);
    }
    stk__safetensors_release(&again);
    stk__safetensors_head_release(&head);
}

static void load(stk_context *ctx, const char *path)
{
    stk__safetensors_file file;
    uint8_t *data = NULL, *moved = NULL;
    uint64_t at = 0;
    stk_error err;

    stk_error_init(&err);
    if (stk__safetensors_file_open(ctx, path, &file, &err) != STK_OK) {
        FUZZ_CHECK(err.status != STK_OK && err.status != STK_EINTERNAL && err.text[0]);
        return;
    }
    FUZZ_CHECK(stk__safetensors_file_load(&file, path, &data, &moved, &err) == STK_OK);
    const stk__safetensors *s = &file.parsed;
    for (size_t i = 0; i < s->num_tensors; i++) {
        const stk_state_tensor *t = &s->tensors[i];
        FUZZ_CHECK(s->begins[i] == at && (uintptr_t)t->data % stk_dtype_size(t->dtype) == 0);
        FUZZ_CHECK(t->bytes == 0 || memcmp(t->data, data + at, t->bytes) == 0);
        FUZZ_CHECK(stk__safetensors_find(s, t->name) == t);
        at += t->bytes;
    }
    FUZZ_CHECK(file.head_bytes + at == file.size);
    round_trip(ctx, s);
    stk__safetensors_file_close(&file);
    stk__free(ctx, data);
    stk__free(ctx, moved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__checkpoint *checkpoint = NULL;
    char path[64];
    stk_error err;

    stk_context *ctx = fuzz_context();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint64_t held = fuzz_held(ctx);
    load(ctx, path);
    stk_status opened = stk__checkpoint_open(ctx, path, &checkpoint, &err);
    FUZZ_CHECK(stk__checkpoint_verify(ctx, path, &err) == opened);
    stk__checkpoint_close(&checkpoint);
    if (stk_checkpoint_describe(ctx, path, fuzz_line, &err, &err) == STK_OK)
        FUZZ_CHECK(opened == STK_OK || opened == STK_EFORMAT);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    close(fd);
    stk_context_destroy(&ctx);
    return 0;
}
