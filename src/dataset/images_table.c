/* SPDX-License-Identifier: Apache-2.0 */
/* The table of files. */
#include "dataset/images.h"

#include <stdio.h>
#include <strings.h>

void stk__images_release(stk__images_table *table)
{
    stk__free(table->context, table->text);
    stk__free(table->context, table->folders);
    stk__free(table->context, table->files);
    stk__free(table->context, table->identities);
    *table = (stk__images_table){.context = table->context};
}

size_t stk__images_key(const stk__images_table *table, uint64_t i, char *key, size_t size)
{
    const stk__images_file *file = &table->files[i];
    const char *path = table->text + table->folders[file->folder].path;
    int n = snprintf(key, size, "%s%s%s", path, path[0] ? "/" : "", table->text + file->name);

    return n < 0 ? 0 : (size_t)n;
}

uint64_t stk__images_print(uint64_t print, const stk__images_table *t)
{
    uint64_t sizes[512];
    size_t n = 0;

    print = stk__fingerprint(print, t->text, t->text_bytes);
    for (uint64_t i = 0; i < t->num_folders; i++)
        print = stk__fingerprint(print, &t->folders[i].count, sizeof t->folders[i].count);
    for (uint64_t i = 0; i < t->num_files; i++) {
        sizes[n++] = t->files[i].size;
        if (n == STK_COUNT(sizes) || i + 1 == t->num_files) {
            print = stk__fingerprint(print, sizes, n * sizeof *sizes);
            n = 0;
        }
    }
    return print;
}

bool stk__images_is_class(const stk__images_table *table, uint64_t folder)
{
    const char *path = table->text + table->folders[folder].path;

    return path[0] && !strchr(path, '/');
}

int stk__images_compare_paths(const char *a, const char *b)
{
    size_t a_length = strcspn(a, "/"), b_length = strcspn(b, "/");
    int order = memcmp(a, b, STK_MIN(a_length, b_length));

    if (order)
        return order;
    if (a_length != b_length)
        return a_length < b_length ? -1 : 1;
    return strcmp(a, b);
}

int stk__images_kind(const char *name, size_t length)
{
    static const struct {
        const char *end;
        int kind;
    } kinds[] = {{".jpeg", STK__IMAGES_JPEG},   {".jpg", STK__IMAGES_JPEG},
                 {".png", STK__IMAGES_PNG},     {".bmp", STK__IMAGES_UNREAD},
                 {".gif", STK__IMAGES_UNREAD},  {".pgm", STK__IMAGES_UNREAD},
                 {".ppm", STK__IMAGES_UNREAD},  {".tif", STK__IMAGES_UNREAD},
                 {".tiff", STK__IMAGES_UNREAD}, {".webp", STK__IMAGES_UNREAD}};

    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        size_t n = strlen(kinds[i].end);
        if (length > n && strncasecmp(name + length - n, kinds[i].end, n) == 0)
            return kinds[i].kind;
    }
    return STK__IMAGES_OTHER;
}

void stk__images_remark_splits(stk_context *ctx, const char *url, const char *const *classes,
                               uint32_t count)
{
    static const char *const splits[] = {"train", "val", "test", "valid", "validation", "training"};
    const char *train = NULL;

    if (count < 2)
        return;
    for (uint32_t c = 0; c < count; c++) {
        size_t k = 0;
        while (k < STK_COUNT(splits) && strcmp(classes[c], splits[k]) != 0)
            k++;
        if (k == STK_COUNT(splits))
            return;
        if (strncmp(splits[k], "train", 5) == 0)
            train = splits[k];
    }
    if (train)
        stk__message(
            ctx, STK_MESSAGE_WARNING,
            "images: the %u class folders of %.*s are splits, one of them '%s'; did you mean "
            "%.*s/%s?",
            count, (int)strcspn(url, "?"), url, train, (int)strcspn(url, "?"), url, train);
}

stk_field stk__images_field(const char *name, int64_t channels, bool mask)
{
    return (stk_field){.struct_size = sizeof(stk_field),
                       .name = name,
                       .dtype = STK_UINT8,
                       .layout = STK_BYTES,
                       .rank = 3,
                       .shape = {-1, -1, channels},
                       .codec = "image",
                       .picture = true,
                       .mask = mask};
}
