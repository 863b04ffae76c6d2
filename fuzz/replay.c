/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds files, and all files of folders, to a fuzz target, so that corpora are tests without
 * libFuzzer. An empty input and every prefix of small files are fed as well: cheap, and what
 * truncation does to a reader is the bulk of what a corpus finds.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SMALL         4096
#define MOST_PREFIXES 256
#define MAX_PATH      4096
#define MUTANTS       48 /* of a file, where the target has a mutator of its own */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
    __attribute__((weak));

/* Stands in for libFuzzer's: one byte is another. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    static unsigned calls;

    (void)most;
    calls++;
    if (size)
        data[calls * 7919 % size] ^= (uint8_t)(1u << calls % 8);
    return size;
}

static size_t inputs;

/* From a copy of just this size, so that a sanitizer sees the first byte read beyond it. */
static int feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = calloc(1, size ? size : 1);

    if (!copy)
        return -1;
    memcpy(copy, data, size);
    int result = LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
    return result;
}

/* What the target's mutator makes of an input, and of that. */
static void feed_mutants(const uint8_t *data, size_t size)
{
    size_t most = 2 * size + SMALL;
    uint8_t *room = malloc(most);

    if (!room)
        return;
    size_t now = 0;
    for (unsigned seed = 1; seed <= MUTANTS; seed++) {
        if (seed % 4 == 1) /* a new one; else one more change */
            memcpy(room, data, now = size);
        now = LLVMFuzzerCustomMutator(room, now, most, seed);
        feed(room, now);
    }
    free(room);
}

static int feed_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    struct stat st;
    int result = -1;

    if (!f || fstat(fileno(f), &st) != 0)
        goto out;
    size_t size = (size_t)st.st_size;
    data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size)
        goto out;
    feed(data, size);
    if (size <= SMALL) {
        size_t step = size / MOST_PREFIXES + 1;
        for (size_t n = 1; n < size; n += step)
            feed(data, n);
    }
    if (LLVMFuzzerCustomMutator)
        feed_mutants(data, size);
    result = 0;
out:
    if (result)
        perror(path);
    free(data);
    if (f)
        fclose(f);
    return result;
}

static int feed_path(const char *path)
{
    struct stat st;
    int result = 0;

    if (stat(path, &st) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return feed_file(path);
    /* By name: what a mutator makes of a file depends on those before it. */
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) {
        perror(path);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char below[MAX_PATH];

        if (entries[i]->d_name[0] == '.') {
            /* nothing: the folder itself, the one above, hidden files */
        } else if (snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name) >=
                   (int)sizeof below) {
            fprintf(stderr, "%s/%s: path too long\n", path, entries[i]->d_name);
            result = -1;
        } else if (feed_path(below)) {
            result = -1;
        }
        free(entries[i]);
    }
    free(entries);
    return result;
}

int main(int argc, char **argv)
{
    int result = argc < 2;

    if (argc < 2)
        fprintf(stderr, "usage: %s FILE|FOLDER...\n", argv[0]);
    feed((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        result |= feed_path(argv[i]) != 0;
    /* The empty input alone proves nothing. */
    if (inputs < 2) {
        fprintf(stderr, "no inputs\n");
        result = 1;
    }
    printf("%zu inputs\n", inputs);
    return result;
}
