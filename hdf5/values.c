/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of elements of a dataset that is read. */
#include <stdlib.h>

#include "program.h"

/* The dataset that was read last: most reads are of it again, and its chunks may be kept. */
static struct {
    char *path;
    hid_t dataset;
    element element;
} last = {.dataset = -1, .element = {.memory = -1}};

static void forget(void)
{
    if (last.element.memory >= 0)
        H5Tclose(last.element.memory);
    if (last.dataset >= 0)
        H5Dclose(last.dataset);
    free(last.path);
    last.path = NULL;
    last.dataset = last.element.memory = -1;
}

static bool remember(const char *path)
{
    if (last.path && strcmp(last.path, path) == 0)
        return true;
    forget();
    last.path = strdup(path);
    if (!last.path)
        return no_memory();
    last.dataset = open_object(path);
    bool done = last.dataset >= 0;
    if (done && H5Iget_type(last.dataset) != H5I_DATASET) {
        H5Oclose(last.dataset);
        last.dataset = -1;
        done = fail(STK_EKIND, "'%.200s' is no dataset", path);
    }
    const hid_t type = done ? H5Dget_type(last.dataset) : -1;
    done =
        done && type >= 0 && element_of(type, path, &last.element) && is_inside(last.dataset, path);
    if (type >= 0)
        H5Tclose(type);
    if (!done)
        forget();
    return done || fail_hdf5("open", path);
}

/* ---- Texts without a length ---- */

/* Characters of UTF-8; bytes that are none count as one each. */
static size_t decode(const char *text, uint32_t *to, size_t most)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t n = 0;

    while (*at) {
        const int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc0 ? 1 : 0;
        uint32_t character = more ? *at & (0x3fu >> more) : *at;
        int got = 0;
        while (got < more && (at[got + 1] & 0xc0) == 0x80)
            character = character << 6 | (at[++got] & 0x3fu);
        if (got < more || (*at >= 0x80 && !more) || character > 0x10ffff) {
            character = 0xfffd;
            got = 0;
        }
        at += got + 1;
        if (to && n < most)
            to[n] = character;
        n++;
    }
    return n;
}

bool texts_width(hid_t dataset, const char *path, bool utf8, uint64_t *width)
{
    const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    char **texts = n < 0 || (uint64_t)n > SIZE_MAX / sizeof *texts
                       ? NULL
                       : calloc((size_t)n + 1, sizeof *texts);
    const bool done = texts && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts) >= 0;

    *width = 0;
    for (hssize_t i = 0; done && i < n; i++) {
        const size_t length = !texts[i] ? 0 : utf8 ? decode(texts[i], NULL, 0) : strlen(texts[i]);
        if (*width < length)
            *width = length;
    }
    if (done)
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, texts);
    const bool memory = texts != NULL;
    free(texts);
    H5Tclose(type);
    H5Sclose(space);
    return done || (memory ? fail_hdf5("read the texts of", path) : no_memory());
}

/* Texts -> elements of one size, padded with zeros. */
static void lay_texts(char *const *texts, size_t n, uint64_t itemsize, bool utf8, char *to)
{
    for (size_t i = 0; i < n; i++, to += itemsize) {
        const char *text = texts[i] ? texts[i] : "";
        if (utf8)
            decode(text, (uint32_t *)(void *)to, itemsize / 4);
        else
            memcpy(to, text, strnlen(text, itemsize));
    }
}

static bool read_texts(hid_t memory, hid_t space, size_t n, uint64_t itemsize, char *to)
{
    char **texts = calloc(n ? n : 1, sizeof *texts);

    if (!texts)
        return no_memory();
    const bool done =
        H5Dread(last.dataset, last.element.memory, memory, space, H5P_DEFAULT, texts) >= 0;
    if (done) {
        lay_texts(texts, n, itemsize, last.element.utf8, to);
        H5Dvlen_reclaim(last.element.memory, memory, H5P_DEFAULT, texts);
    }
    free(texts);
    return done || fail_hdf5("read", last.path);
}

/* ---- A box ---- */

typedef struct box {
    uint32_t rank;
    uint64_t itemsize;
    hsize_t start[STK__WIRE_RANK], shape[STK__WIRE_RANK];
    uint64_t elements, bytes;
} box;

static void take_box(stk__wire_in *in, box *b)
{
    b->itemsize = stk__wire_u64(in);
    b->rank = stk__wire_u32(in);
    b->elements = 1;
    if (b->rank > STK__WIRE_RANK)
        frame_nonsense();
    for (uint32_t d = 0; d < b->rank; d++)
        b->start[d] = stk__wire_u64(in);
    for (uint32_t d = 0; d < b->rank; d++) {
        b->shape[d] = stk__wire_u64(in);
        if (__builtin_mul_overflow(b->elements, b->shape[d], &b->elements))
            frame_nonsense();
    }
    if (!stk__wire_end(in) || __builtin_mul_overflow(b->elements, b->itemsize, &b->bytes) ||
        b->bytes == 0 || b->bytes > INT64_MAX)
        frame_nonsense();
}

/* The box in the file; -1: it is not within the dataset. */
static hid_t select_box(const box *b)
{
    const hid_t space = H5Dget_space(last.dataset);
    hsize_t shape[STK__WIRE_RANK];

    if (space < 0 || H5Sget_simple_extent_ndims(space) != (int)b->rank) {
        H5Sclose(space);
        return -1;
    }
    H5Sget_simple_extent_dims(space, shape, NULL);
    for (uint32_t d = 0; d < b->rank; d++)
        if (b->start[d] > shape[d] || b->shape[d] > shape[d] - b->start[d])
            frame_nonsense();
    if (b->rank)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, b->start, NULL, b->shape, NULL);
    return space;
}

static bool read_into(const box *b, char *to)
{
    const element *e = &last.element;

    if (e->varies ? b->itemsize % (e->utf8 ? 4 : 1) != 0 : b->itemsize != e->itemsize)
        frame_nonsense();
    const hid_t space = select_box(b);
    if (space < 0)
        return fail_hdf5("select in", last.path);
    const hid_t memory =
        b->rank ? H5Screate_simple((int)b->rank, b->shape, NULL) : H5Screate(H5S_SCALAR);
    const bool done = e->varies
                          ? read_texts(memory, space, (size_t)b->elements, b->itemsize, to)
                          : H5Dread(last.dataset, e->memory, memory, space, H5P_DEFAULT, to) >= 0;
    H5Sclose(memory);
    H5Sclose(space);
    return done || fail_hdf5("read", last.path);
}

bool read_box(stk__wire_in *in)
{
    char *path = strdup(stk__wire_text(in));
    box b;

    take_box(in, &b);
    if (!path)
        return no_memory();
    bool done = remember(path);
    free(path);
    char *values = done ? calloc(1, b.bytes) : NULL;
    if (done && !values)
        return no_memory();
    done = done && read_into(&b, values);
    if (done)
        frame_send_data(values, b.bytes);
    free(values);
    return done;
}
