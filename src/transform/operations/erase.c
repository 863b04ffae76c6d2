/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of random_erasing, and what they are filled with. */
#include "transform/operations/erase.h"

#include <math.h>

#include "base/random.h"
#include "transform/kernels/affine.h"
#include "transform/kernels/colour.h"
#include "transform/pipeline/batch.h"

/* A number in [0, choices), from one word. */
static int64_t below(uint32_t word, int64_t choices)
{
    return (int64_t)(((uint64_t)word * (uint64_t)choices) >> 32);
}

bool stk__erase_box(int64_t height, int64_t width, const double scale[2], const double log_ratio[2],
                    const uint32_t words[STK__ERASE_WORDS], stk__erased_box *out)
{
    double area = (double)height * (double)width;
    const uint32_t *place = words + 2 * STK__ERASE_TRIES;

    for (uint32_t i = 0; i < STK__ERASE_TRIES; i++) {
        double erased = area * stk__between(words[2 * i], scale[0], scale[1]);
        double ratio = stk__e_to(stk__between(words[2 * i + 1], log_ratio[0], log_ratio[1]));
        double h = nearbyint(sqrt(erased * ratio)), w = nearbyint(sqrt(erased / ratio));

        if (!(h < (double)height && w < (double)width))
            continue;
        out->height = (int64_t)h;
        out->width = (int64_t)w;
        out->top = below(place[0], height - out->height + 1);
        out->left = below(place[1], width - out->width + 1);
        return true;
    }
    return false;
}

/* How a picture is laid out in memory, in elements. */
typedef struct lay {
    int64_t row, column, channel, channels;
} lay;

static lay lay_of(const stk_transform_header *header)
{
    const int64_t *shape = header->shape;

    if (header->chw)
        return (lay){
            .row = shape[2], .column = 1, .channel = shape[1] * shape[2], .channels = shape[0]};
    return (lay){
        .row = shape[1] * shape[2], .column = shape[2], .channel = 1, .channels = shape[2]};
}

static void put(void *picture, int64_t at, uint32_t element, bool is_float)
{
    if (is_float)
        memcpy((uint8_t *)picture + 4 * at, &element, sizeof element);
    else
        ((uint8_t *)picture)[at] = (uint8_t)element;
}

void stk__erase_fill(const stk_transform_header *header, const stk__erased_box *box,
                     const uint32_t *elements, uint32_t count, void *picture)
{
    const lay l = lay_of(header);
    bool is_float = header->dtype == STK_FLOAT32;

    /* The channels of a pixel, or the pixels of a channel, are side by side. */
    for (int64_t outer = 0; outer < (header->chw ? l.channels : 1); outer++)
        for (int64_t y = box->top; y < box->top + box->height; y++)
            for (int64_t x = box->left; x < box->left + box->width; x++) {
                int64_t at = outer * l.channel + y * l.row + x * l.column;

                if (header->chw)
                    put(picture, at, elements[count == 1 ? 0 : outer], is_float);
                else
                    for (int64_t c = 0; c < l.channels; c++)
                        put(picture, at + c, elements[count == 1 ? 0 : c], is_float);
            }
}

/* Normal numbers of four words (Box and Muller), the same on every machine. */
static void draw_normals(const uint32_t words[4], float out[4])
{
    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt(-2.0 * stk__ln(((double)words[i] + 0.5) * 0x1p-32)), sine, cosine;

        stk__sin_cos(360.0 * stk__unit(words[i + 1]), &sine, &cosine);
        out[i] = (float)(radius * cosine);
        out[i + 1] = (float)(radius * sine);
    }
}

/* The four elements of block `block` of the noise. */
static void noise_block(uint64_t block, const uint32_t key[2], bool is_float, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    float normals[4];

    stk__philox(counter, key, out);
    if (is_float) {
        draw_normals(out, normals);
        memcpy(out, normals, sizeof normals);
    } else {
        for (int i = 0; i < 4; i++)
            out[i] >>= 24;
    }
}

void stk__erase_noise(const stk_transform_header *header, const stk__erased_box *box,
                      const uint32_t key[2], void *picture)
{
    const lay l = lay_of(header);
    bool is_float = header->dtype == STK_FLOAT32;
    uint32_t elements[4];
    uint64_t done = 0;

    for (int64_t y = box->top; y < box->top + box->height; y++)
        for (int64_t x = box->left; x < box->left + box->width; x++)
            for (int64_t c = 0; c < l.channels; c++) {
                if (done % 4 == 0)
                    noise_block(done / 4, key, is_float, elements);
                put(picture, y * l.row + x * l.column + c * l.channel, elements[done % 4],
                    is_float);
                done++;
            }
}
