/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files and checkpoints. The input is a file. What must hold whatever the bytes: the
 * tensors lie in the memory that was read, without holes; what is read and written again is the
 * same; nothing is left behind. The mutator changes the JSON of the head as JSON, and then mostly
 * makes right what the rest of a file says of it: its length, where the tensors lie, the hash.
 */
#include "fuzz_support.h"
#include "json_mutator.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/hash.h"
#include "checkpoint/safetensors/safetensors.h"

stk_status stk_checkpoint_describe(stk_context *ctx, const char *path,
                                   void (*line)(void *user, const char *name, const char *value),
                                   void *user, stk_error *err);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD      8 /* bytes of its length */
#define MOST_DATA 65536

/* ---- The mutator ---- */

static const char *const words[] = {
    "\"F64\"",
    "\"F32\"",
    "\"BF16\"",
    "\"F8_E4M3\"",
    "\"BOOL\"",
    "\"I64\"",
    "\"U8\"",
    "[2, 3]",
    "[0]",
    "[1, 1, 1, 1, 1, 1, 1, 1, 1]",
    "[0, 4]",
    "[4, 0]",
    "{\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}",
    "\"a\\u0000b\"",
    "\"\\ud800\"",
    "\"00112233445566778899aabbccddeeff 0 2\"",
    "\"\\\"\""};

static uint64_t element(const char *dtype)
{
    const char *digits = dtype + strcspn(dtype, "123468");

    return *digits ? strtoull(digits, NULL, 10) / 8 : 1;
}

/* Have the tensors lie one behind the other; the bytes of all, 0 where there are too many. */
static uint64_t place(json_t *root)
{
    uint64_t at = 0;
    const char *name;
    json_t *tensor, *extent;
    size_t i;

    json_object_foreach(root, name, tensor)
    {
        const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
        uint64_t bytes = dtype ? element(dtype) : 0;

        if (!dtype)
            continue;
        json_array_foreach(json_object_get(tensor, "shape"), i, extent)
        {
            uint64_t n = (uint64_t)json_integer_value(extent);
            if (n > MOST_DATA || (bytes *= n) > MOST_DATA)
                return 0;
        }
        json_object_set_new(tensor, "data_offsets",
                            json_pack("[I, I]", (json_int_t)at, (json_int_t)(at + bytes)));
        at += bytes;
    }
    return at <= MOST_DATA ? at : 0;
}

/* Place the tensors of a head of `length` bytes in `text`; its new length, 0: as it was. */
static size_t place_all(char *text, size_t length, size_t most, uint64_t *bytes)
{
    json_t *root = json_loadb(text, length, 0, NULL);
    size_t written = 0;

    if (!root)
        return 0;
    *bytes = place(root);
    char *json = json_dumps(root, JSON_COMPACT);
    if (json && *bytes && strlen(json) <= most) {
        written = strlen(json);
        memcpy(text, json, written);
    }
    free(json);
    json_decref(root);
    return written;
}

/* The hash of a checkpoint is of the whole file. */
static void sign(uint8_t *data, size_t head, size_t size)
{
    char digits[STK__HASH_DIGITS + 1];
    stk__hash hash;
    size_t at;

    if (stk__hash_head(&hash, data, head, &at) != STK_OK)
        return;
    stk__hash_update(&hash, data + head, size - head);
    stk__hash_digits(&hash, digits);
    memcpy(data + at, digits, STK__HASH_DIGITS);
}

/* A changed head at the front of `text`, which has `room` bytes; 0: there is none. */
static size_t change(char *text, size_t length, size_t room, uint64_t *state, uint64_t *bytes)
{
    static const fuzz_json_words own = {words, sizeof words / sizeof *words};
    size_t written = fuzz_json_mutate((uint8_t *)text, length, room, &own, state);

    if (written && fuzz_json_random(state, 4)) {
        size_t placed = place_all(text, written, room, bytes);
        written = placed ? placed : written;
    }
    while (written && written % STK__SAFETENSORS_ALIGN && written < room)
        text[written++] = ' ';
    return written;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, length = 0, bytes = UINT64_MAX;
    size_t written = 0, rest;

    if (size >= HEAD)
        memcpy(&length, data, HEAD);
    if (size < HEAD || length > size - HEAD || most < size || !fuzz_json_random(&state, 8))
        return LLVMFuzzerMutate(data, size, most);
    rest = size - HEAD - length;
    char *text = calloc(1, most - HEAD - rest + 1);
    FUZZ_CHECK(text);
    memcpy(text, data + HEAD, length);
    written = change(text, length, most - HEAD - rest, &state, &bytes);
    if (written) {
        memmove(data + HEAD + written, data + HEAD + length, rest);
        memcpy(data + HEAD, text, written);
        length = written;
        memcpy(data, &length, HEAD);
        size = HEAD + written + rest;
        if (bytes != UINT64_MAX && bytes && HEAD + written + bytes <= most) {
            if (bytes > rest)
                memset(data + size, 1, bytes - rest);
            size = HEAD + written + bytes;
        }
        sign(data, HEAD + written, size);
    }
    free(text);
    return written ? size : LLVMFuzzerMutate(data, size, most);
}

/* ---- What must hold ---- */

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
    FUZZ_CHECK(file.head_bytes + at == file.source.size);
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
