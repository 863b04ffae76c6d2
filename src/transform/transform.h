/* sample -> sample */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_TRANSFORM_H
#define STK_SRC_TRANSFORM_TRANSFORM_H

#include <pthread.h>
#include <stdatomic.h>

#include <stoker/transform.h>

#include "base/base.h"

extern const stk_transform_ops stk__transform_decode, stk__transform_random_resized_crop,
    stk__transform_resize, stk__transform_center_crop, stk__transform_random_crop,
    stk__transform_pad, stk__transform_horizontal_flip, stk__transform_vertical_flip,
    stk__transform_random_rotation, stk__transform_color_jitter, stk__transform_random_grayscale,
    stk__transform_gaussian_blur, stk__transform_rand_augment, stk__transform_random_erasing,
    stk__transform_to_float, stk__transform_normalize, stk__transform_layout;
/* Whether an outsider's table is whole. */
stk_status stk__transform_kind_check(const void *table, stk_error *err);

/* The end of create(), and destroy(), of those whose struct is plain memory: keep what was `made`,
 * which begins with its stk_transform, in memory of its own. */
stk_status stk__transform_keep(stk_context *ctx, const char *who, const void *made, size_t size,
                               stk_transform **out, stk_error *err);
void stk__transform_free(stk_transform *transform);

/* The sides of a picture that resize(`side`) makes: the longer one is int(side * long / short), as
 * torchvision has it; with `most` it has at most that, 0: no bound. */
void stk__resized_sides(int64_t side, int64_t most, int64_t width, int64_t height,
                        int64_t *out_width, int64_t *out_height);

/*
 * A chain of transforms for one field, made from text: "random_crop(28, padding=4),
 * normalize(mnist)". Compiled once: neighbours that one pass can do (to_float, normalize, layout)
 * are fused, the last writes straight to the output.
 */
typedef struct stk__pipeline stk__pipeline;

/*
 * `in` is the header of the field as the dataset gives it; where it is encoded, the pipeline begins
 * with decode. Steps that change colours are left out for a mask; their numbers, and so the draws
 * of the others, stay. Errors name the transform and what does not suit.
 */
stk_status stk__pipeline_create(stk_context *ctx, const char *text, const stk_transform_header *in,
                                stk__pipeline **out, stk_error *err);
void stk__pipeline_destroy(stk__pipeline **pipeline);
/* What comes out (no size varies for a pipeline that ends in a fixed shape). */
void stk__pipeline_header(const stk__pipeline *pipeline, stk_transform_header *out);
/* Scratch bytes a run wants for headers no larger than `in`; a run over `n` samples wants the same.
 */
uint64_t stk__pipeline_scratch(const stk__pipeline *pipeline);
/* No step at all: the input is the output. */
bool stk__pipeline_empty(const stk__pipeline *pipeline);
/* Whether all of its transforms are built in. */
bool stk__pipeline_is_own(const stk__pipeline *pipeline);
/* Whether a transform of this name is in it. */
bool stk__pipeline_has(const stk__pipeline *pipeline, const char *name);

/*
 * Run it for `n` samples: src[i] -> dst[i]. `headers` has the header of each sample, or is NULL
 * where all are the one given at creation. Draws are keyed by (seed, epochs[i], positions[i],
 * number of the transform). A sample that fails gets its status in statuses[i] (others are left
 * alone). `scratch` is stk__pipeline_scratch() bytes, 64 aligned. Any thread.
 */
void stk__pipeline_run(const stk__pipeline *pipeline, uint64_t seed, size_t n,
                       const uint64_t *epochs, const uint64_t *positions,
                       const stk_transform_header *headers, const void *const *src,
                       void *const *dst, stk_status *statuses, void *scratch);

/* ---- Encoded pictures ---- */

/* Memory that the threads of a loader decode in. */
typedef struct stk__decode_room {
    uint64_t each; /* bytes that every thread may hold by itself */
    uint64_t most; /* bytes of a picture that wants more; one at a time */
    pthread_mutex_t large;
} stk__decode_room;

stk_status stk__decode_room_init(stk__decode_room *room, uint64_t each, uint64_t most);
void stk__decode_room_release(stk__decode_room *room);
/* The reason of a picture that wants more than `most`: compare pointers. */
extern const char stk__decode_too_large[];

/* What one thread decodes with, kept from picture to picture. The room outlives it. */
typedef struct stk__decoding stk__decoding;

/* Where its time went; entropy decoding is estimated from outside. */
typedef struct stk__decode_times {
    uint64_t pictures;
    uint64_t pixels;    /* decoded, at the scale they were decoded at */
    uint64_t decode_ns; /* in the codec */
    uint64_t rest_ns;   /* resize, crop, flip, values, layout */
} stk__decode_times;

stk_status stk__decoding_create(stk_context *ctx, stk__decode_room *room, stk__decoding **out);
void stk__decoding_destroy(stk__decoding **decoding);
const stk__decode_times *stk__decoding_times(const stk__decoding *decoding);

bool stk__pipeline_decodes(const stk__pipeline *pipeline);
/*
 * stk__pipeline_run() for encoded pictures: a sample that fails gets status and reason (NULL: that
 * of the status). memory[i] says how many bytes beyond `most` of the room its decoding may hold,
 * and behind, of one that was stk__decode_too_large, how many it wants in all. A slice without data
 * is left alone.
 */
void stk__pipeline_decode(const stk__pipeline *pipeline, uint64_t seed, size_t n,
                          const uint64_t *epochs, const uint64_t *positions, const stk_slice *src,
                          void *const *dst, stk_status *statuses, const char **reasons,
                          uint64_t *memory, void *scratch, stk__decoding *decoding);

/* ---- Batch -> batch: run last, on the finished batch ---- */

typedef struct stk__batch_pipeline stk__batch_pipeline;

/* One FIXED field of a finished batch, as a batch transform sees it. */
typedef struct stk__batch_field {
    const char *name;
    stk_transform_header header; /* of one sample */
    void *data;                  /* [count, ...] */
    uint64_t bytes;              /* of one sample */
} stk__batch_field;

/*
 * "mixup(0.2)", "cutmix(1.0)". They mix the pictures of a batch with the same batch in reversed row
 * order (as timm's batch mode) and add the fields they need: `label_mixed` int64 [N] (the partner's
 * label) and `mix` float32 [N] (weight of the own label).
 */
stk_status stk__batch_pipeline_create(stk_context *ctx, const char *text, stk__batch_pipeline **out,
                                      stk_error *err);
void stk__batch_pipeline_destroy(stk__batch_pipeline **pipeline);
bool stk__batch_pipeline_empty(const stk__batch_pipeline *pipeline);
/* Bytes of scratch for batches of `rows` whose fields are as given (data NULL); checks that they
 * suit. */
stk_status stk__batch_pipeline_prepare(stk__batch_pipeline *pipeline,
                                       const stk__batch_field *fields, uint32_t n, uint64_t rows,
                                       uint64_t *scratch, stk_error *err);
/* `label_mixed` and `mix` have room for `count` rows. Drawn from (seed, epoch, step * world_size +
 * rank). */
void stk__batch_pipeline_run(const stk__batch_pipeline *pipeline, uint64_t seed, uint64_t epoch,
                             uint64_t draw, stk__batch_field *fields, uint32_t n, uint64_t count,
                             int64_t *label_mixed, float *mix, void *scratch);

#endif
