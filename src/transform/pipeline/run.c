/* SPDX-License-Identifier: Apache-2.0 */
/* Running a pipeline over samples. Allocates nothing, keeps nothing: a sample's bytes depend on its
 * own draws alone. */
#include "base/random.h"
#include "transform/pipeline/decode.h"
#include "transform/pipeline/decoding.h"

/* One sample on its way. */
typedef struct run {
    const stk__pipeline *pipeline;
    uint64_t seed, epoch, position;
    stk_transform_header header; /* of the sample between two steps */
    bool declared;               /* it is the one the pipeline was made for: known to suit */
    unsigned char *scratch;
    stk__decoding *decoding; /* of encoded pictures */
    const char *reason;      /* of a failure; NULL: that of the status */
} run;

/* What the plan of the declared size could not see. */
static const char *misfit(const stk__transform_step *step)
{
    return step->ops == &stk__transform_random_crop
               ? "random_crop: its size is larger than this picture with its padding: give padding "
                 "or a smaller size, or put resize before it"
               : "a transform does not take a picture of this size: put resize or center_crop "
                 "before it";
}

/* Plan step `step` of this sample. */
static stk_status plan_step(run *r, const stk__transform_step *step, stk_transform_plan *plan)
{
    uint32_t words[STK__MAX_DRAWS], num_draws = step->ops->num_draws;

    if (!num_draws && r->declared) {
        *plan = step->plan;
        return STK_OK;
    }
    if (num_draws)
        stk__draw(r->seed, (uint32_t)r->epoch, r->position, step->purpose, words, num_draws);
    stk_status status =
        step->ops->plan(step->transform, &r->header, num_draws ? words : NULL, plan, NULL);
    if (status != STK_OK)
        r->reason = misfit(step);
    return status;
}

static stk_status run_fused(run *r, const stk__group *group, const void *src, void *dst)
{
    const stk__transform_step *steps = r->pipeline->steps + group->first;
    const stk_transform_header in = r->header;
    stk__picture_path path = group->path;
    stk__extent extent;
    stk_transform_plan plan;

    if (r->declared && !group->draws) {
        r->header = steps[group->count - 1].plan.out;
        stk__pass_apply(&group->pass, &in, group->frames ? &path : NULL, 1, &src, &dst, r->scratch);
        return STK_OK;
    }
    if (group->frames) {
        STK_TRY(stk__picture_extent(&in, "", &extent, NULL));
        stk__path_init(&path, extent.height, extent.width);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        stk__frame frame;

        if (i >= group->frames && r->declared) { /* neither drawn nor of another size */
            r->header = steps[group->count - 1].plan.out;
            break;
        }
        STK_TRY(plan_step(r, &steps[i], &plan));
        r->header = plan.out;
        if (i < group->frames) {
            stk__frame_of_plan(&plan, &frame);
            stk__path_add(&path, &frame);
        }
    }
    stk__pass_apply(&group->pass, &in, group->frames ? &path : NULL, 1, &src, &dst, r->scratch);
    return STK_OK;
}

/* Decode, and do what fuses with it. `src` is the stk_slice of the encoded picture. */
static stk_status run_scene(run *r, const stk__group *group, const void *src, void *dst)
{
    const stk__transform_step *steps = r->pipeline->steps + group->first;
    stk__scene scene = {.pipeline = r->pipeline,
                        .group = group,
                        .decoding = r->decoding,
                        .encoded = *(const stk_slice *)src,
                        .resamples = group->head == 2,
                        .scratch = r->scratch};
    stk_status status = stk__scene_peek(&scene, &r->header);
    stk__extent extent;
    stk__frame frame;
    stk_transform_plan plan;

    r->reason = scene.reason;
    STK_TRY(status);
    if (scene.resamples) {
        STK_TRY(plan_step(r, &steps[1], &plan));
        stk__resample_of_plan(&plan, &scene.what);
        r->header = plan.out;
    }
    STK_TRY(stk__picture_extent(&r->header, "", &extent, NULL));
    stk__path_init(&scene.path, extent.height, extent.width);
    for (uint32_t i = group->head; i < group->count; i++) {
        STK_TRY(plan_step(r, &steps[i], &plan));
        r->header = plan.out;
        if (i < group->head + group->frames) {
            stk__frame_of_plan(&plan, &frame);
            stk__path_add(&scene.path, &frame);
        }
    }
    if (!stk__header_suits(&r->header, &steps[group->count - 1].plan.out))
        return STK_EINTERNAL;
    status = stk__scene_run(&scene, dst);
    r->reason = scene.reason;
    return status;
}

static stk_status run_single(run *r, const stk__group *group, const void *src, void *dst)
{
    const stk__transform_step *step = &r->pipeline->steps[group->first];
    stk_transform_plan plan;

    STK_TRY(plan_step(r, step, &plan));
    /* What memory there is was counted from the declared plan. */
    if (plan.scratch > r->pipeline->group_scratch)
        return STK_ELIMIT;
    if (!stk__header_suits(&plan.out, &step->plan.out))
        return STK_EINTERNAL;
    step->ops->apply(step->transform, &r->header, &plan, 1, &src, &dst, r->scratch);
    r->header = plan.out;
    return STK_OK;
}

/* A step that was made, and refuses the picture of this sample: it is the sample that does not
 * suit.
 */
static stk_status of_sample(stk_status status)
{
    return stk_status_fault(status) == STK_FAULT_CALLER ? STK_EKIND : status;
}

static stk_status run_sample(run *r, const void *src, void *dst)
{
    const stk__pipeline *p = r->pipeline;
    unsigned char *rooms[2] = {r->scratch + p->group_scratch,
                               r->scratch + p->group_scratch + p->room[0]};

    for (uint32_t g = 0; g < p->num_groups; g++) {
        const stk__group *group = &p->groups[g];
        void *to = g + 1 == p->num_groups ? dst : rooms[g % 2];

        STK_TRY(group->head    ? run_scene(r, group, src, to)
                : group->fused ? run_fused(r, group, src, to)
                               : run_single(r, group, src, to));
        src = to;
    }
    return STK_OK;
}

/* Bytes of a sample that are fetched ahead, where all have the declared size. */
static size_t prefetch_bytes(const stk__pipeline *p)
{
    uint64_t bytes = 0;

    if (!stk__header_bytes(&p->in, &bytes))
        return 0;
    return (size_t)bytes;
}

static stk_status copy_sample(const stk_transform_header *header, const void *src, void *dst)
{
    uint64_t bytes;

    if (!stk__header_bytes(header, &bytes))
        return STK_EINVAL;
    memcpy(dst, src, bytes);
    return STK_OK;
}

/* Fill the head of a sample's run; fails where the sample is not what the field says. */
static stk_status take_header(run *r, const stk_transform_header *header)
{
    const stk__pipeline *p = r->pipeline;

    r->header = header ? *header : p->in;
    r->declared = !p->varies && (!header || stk__header_same(header, &p->in));
    if (r->declared)
        return STK_OK;
    return stk__header_varies(&r->header) || !stk__header_suits(&r->header, &p->in) ? STK_EFORMAT
                                                                                    : STK_OK;
}

void stk__pipeline_run(const stk__pipeline *pipeline, uint64_t seed, size_t n,
                       const uint64_t *epochs, const uint64_t *positions,
                       const stk_transform_header *headers, const void *const *src,
                       void *const *dst, stk_status *statuses, void *scratch)
{
    const stk__group *groups = pipeline->groups;

    if (!headers && !pipeline->varies && pipeline->num_groups == 1 && groups[0].fused &&
        !groups[0].draws) {
        stk__pass_apply(&groups[0].pass, &pipeline->in, groups[0].frames ? &groups[0].path : NULL,
                        n, src, dst, scratch);
        return;
    }
    size_t ahead = prefetch_bytes(pipeline);
    for (size_t i = 0; i < n; i++) {
        run r = {.pipeline = pipeline,
                 .seed = seed,
                 .epoch = epochs[i],
                 .position = positions[i],
                 .scratch = scratch};

        stk__prefetch(src, n, i, ahead);
        if (!src[i])
            continue;
        stk_status status = take_header(&r, headers ? &headers[i] : NULL);
        if (status == STK_OK)
            status = pipeline->num_groups ? run_sample(&r, src[i], dst[i])
                                          : copy_sample(&r.header, src[i], dst[i]);
        if (status != STK_OK)
            statuses[i] = of_sample(status);
    }
}

void stk__pipeline_decode(const stk__pipeline *pipeline, uint64_t seed, size_t n,
                          const uint64_t *epochs, const uint64_t *positions, const stk_slice *src,
                          void *const *dst, stk_status *statuses, const char **reasons,
                          uint64_t *memory, void *scratch, stk__decoding *decoding)
{
    for (size_t i = 0; i < n; i++) {
        run r = {.pipeline = pipeline,
                 .seed = seed,
                 .epoch = epochs[i],
                 .position = positions[i],
                 .scratch = scratch,
                 .decoding = decoding};

        if (!src[i].data)
            continue;
        decoding->reserve = memory[i];
        stk_status status = run_sample(&r, &src[i], dst[i]);
        if (status != STK_OK) {
            statuses[i] = of_sample(status);
            reasons[i] = r.reason;
            memory[i] = decoding->refused;
        }
    }
}
