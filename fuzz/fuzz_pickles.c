/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles of CIFAR. Input: a byte, whose lowest bits say whether the file is CIFAR-100's and
 * whether it holds names, then the file. What must hold whatever the bytes: what is found lies
 * within the file, labels are those of a class, names are texts, and nothing is left behind.
 */
#include "fuzz_support.h"

#include "dataset/cifar_pickle.h"

#define ROW 3072

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_batch(fuzz_room *room, const stk__object *file, bool hundred)
{
    const uint32_t classes = hundred ? 100 : 10;
    stk__cifar_batch batch;
    stk_error err;

    stk_error_init(&err);
    const stk_status status = stk__cifar_read_batch(
        room->store, file, ROW, hundred ? "fine_labels" : "labels", classes, &batch, &err);
    if (status != STK_OK) {
        FUZZ_CHECK(err.status != STK_OK && err.status != STK_EINTERNAL && err.text[0]);
        FUZZ_CHECK(batch.count == 0 && !batch.labels);
        return;
    }
    FUZZ_CHECK(batch.count > 0 && batch.pixels <= file->size);
    FUZZ_CHECK(batch.count <= (file->size - batch.pixels) / ROW);
    for (uint64_t i = 0; i < batch.count; i++)
        FUZZ_CHECK(batch.labels[i] < classes);
    stk__free(room->ctx, batch.labels);
}

static void read_names(fuzz_room *room, const stk__object *file, bool hundred)
{
    const uint32_t classes = hundred ? 100 : 10;
    const char *names[100];
    char *text = malloc(4096);
    stk_error err;

    FUZZ_CHECK(text);
    stk_error_init(&err);
    if (stk__cifar_read_names(room->store, file, hundred ? "fine_label_names" : "label_names",
                              classes, text, 4096, names, &err) == STK_OK)
        for (uint32_t i = 0; i < classes; i++)
            FUZZ_CHECK(names[i] >= text && names[i] + strlen(names[i]) < text + 4096);
    else
        FUZZ_CHECK(err.status != STK_EINTERNAL && err.text[0]);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool hundred = size && data[0] & 1, names = size && data[0] & 2;
    stk__object file;
    bool found = false;

    fuzz_room room = fuzz_open("mem://pickles");
    fuzz_put(room.store, "test_batch", size ? data + 1 : data, size ? size - 1 : 0);
    FUZZ_CHECK(stk__object_find(room.store, "test_batch", &file, &found, NULL) == STK_OK && found);
    fuzz_ready(&room);
    if (names)
        read_names(&room, &file, hundred);
    else
        read_batch(&room, &file, hundred);
    fuzz_dataset(room.ctx, "cifar10:mem://pickles?split=test");
    fuzz_dataset(room.ctx, "cifar10:slow+mem://pickles?split=test");
    fuzz_close(&room);
    return 0;
}
