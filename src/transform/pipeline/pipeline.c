/* SPDX-License-Identifier: Apache-2.0 */
/* Making a pipeline: text -> items -> transforms -> groups, with everything checked that can be
 * before a sample comes. */
#include "transform/pipeline/pipeline.h"

#include "base/options.h"
#include "base/random.h"
#include "base/registry.h"
#include "transform/pipeline/decode.h"

#define SOME_SIDE 64

static const stk_transform_ops *find_kind(stk_context *ctx, const char *name, stk_error *err)
{
    const void *found = stk__driver_find(ctx, STK_DRIVER_TRANSFORM, name, strlen(name));
    const stk_driver_head *driver;
    stk__nearest nearest;
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];

    if (found)
        return found;
    stk__option_show(shown, name);
    stk__nearest_init(&nearest, name);
    for (size_t i = 0; (driver = stk_driver_at(ctx, STK_DRIVER_TRANSFORM, i)); i++)
        stk__nearest_offer(&nearest, driver->name);
    /* For the return value alone. */
    stk_status status = stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                                  "transforms: there is no transform \"%s\"%s", shown,
                                  stk__nearest_said(&nearest, meant));
    (void)status;
    return NULL;
}

/* Make the transform of one item. */
static stk_status create_step(stk__pipeline *p, const stk__item *item, stk__transform_step *step,
                              stk_error *err)
{
    void *options = NULL;
    stk_status status;

    step->ops = find_kind(p->context, item->name, err);
    if (!step->ops)
        return STK_EINVAL;
    if (step->ops->options) {
        options = stk__calloc(p->context, 1, step->ops->options->struct_size);
        if (!options)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM,
                             "%s: no memory for its arguments", item->name);
    }
    status = stk__item_options(item, step->ops->options, NULL, options, err);
    if (status == STK_OK) {
        status = step->ops->create(p->context, options, &step->transform, err);
        status = stk__table_made(&stk__transform_table, step->ops->name, "create", status,
                                 step->transform, err);
    }
    if (status == STK_OK) {
        step->transform->ops = step->ops;
        step->transform->context = p->context;
    } else {
        step->transform = NULL;
    }
    stk__free(p->context, options);
    return status;
}

static bool header_is_sound(const stk_transform_header *header)
{
    uint64_t bytes;

    if (header->rank > STK_MAX_RANK || stk_dtype_size(header->dtype) == 0 ||
        (header->picture && header->rank != 3))
        return false;
    return stk__header_varies(header) || stk__header_bytes(header, &bytes);
}

/* Plan every step for the declared header. */
static stk_status plan_steps(stk__pipeline *p, stk_error *err)
{
    char text[160];
    const stk_transform_header *header = &p->in;

    for (uint32_t i = 0; i < p->num_steps; i++) {
        stk__transform_step *step = &p->steps[i];

        step->in = *header;
        STK_TRY(step->ops->plan(step->transform, &step->in, NULL, &step->plan, err));
        header = &step->plan.out;
        if (!header_is_sound(header)) {
            stk__header_text(header, text, sizeof text);
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "%s: its plan gives %s, which nothing can hold", step->ops->name,
                             text);
        }
    }
    p->out = *header;
    return STK_OK;
}

/* Whether a step wants scratch memory of a size that the declared header does not tell: its plan
 * for a picture of some size does. */
static bool scratch_is_unknown(const stk__transform_step *step)
{
    stk_transform_header some = step->in;
    stk_transform_plan plan;

    if (!stk__header_varies(&some))
        return false;
    for (uint32_t i = 0; i < some.rank; i++)
        if (some.shape[i] == -1)
            some.shape[i] = SOME_SIDE;
    return step->ops->plan(step->transform, &some, NULL, &plan, NULL) == STK_OK &&
           plan.scratch > step->plan.scratch;
}

/* The transform behind a step that would fix the size before it; where there is none, such a one.
 */
static const char *size_fixer(const stk__pipeline *p, const stk__transform_step *step)
{
    for (const stk__transform_step *s = step + 1; s < p->steps + p->num_steps; s++)
        if (!stk__header_varies(&s->plan.out))
            return s->ops->name;
    return "random_resized_crop (to train) or center_crop";
}

/* Find what the scratch memory has to hold. */
static stk_status measure(stk__pipeline *p, stk_error *err)
{
    for (uint32_t g = 0; g < p->num_groups; g++) {
        const stk__group *group = &p->groups[g];
        const stk__transform_step *last = &p->steps[group->first + group->count - 1];
        uint64_t want = group->fused ? STK__PASS_SCRATCH : last->plan.scratch, bytes = 0;

        if (group->head)
            want = stk__scene_scratch(p, group);
        else if (!group->fused && scratch_is_unknown(last))
            return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                             "%s: cannot run on pictures of many sizes: put %s before it",
                             last->ops->name, size_fixer(p, last));

        if (want > INT64_MAX / 4)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                             "%s: wants %llu bytes of scratch memory", last->ops->name,
                             (unsigned long long)want);
        p->group_scratch = STK_MAX(p->group_scratch, stk__round_up(want, STK_CACHE_LINE));
        if (g + 1 == p->num_groups)
            break;
        if (!stk__header_bytes(&last->plan.out, &bytes) || bytes > INT64_MAX / 4)
            return stk__fail(
                err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                "%s: cannot come before %s where the size of its result varies: put %s before %s",
                last->ops->name, p->steps[p->groups[g + 1].first].ops->name, size_fixer(p, last),
                last->ops->name);
        p->room[g % 2] = STK_MAX(p->room[g % 2], stk__round_up(bytes + STK_TAIL, STK_CACHE_LINE));
    }
    return STK_OK;
}

/* Make the next step of the text, whose draws are those of its number. */
static stk_status append_step(stk__pipeline *p, const stk__item *item, uint32_t number,
                              stk_error *err)
{
    stk__transform_step *step = &p->steps[p->num_steps++];

    step->purpose = STK_DRAW_TRANSFORM + number;
    STK_TRY(create_step(p, item, step, err));
    if (!p->in.mask || !step->ops->colours)
        return STK_OK;
    step->ops->destroy(step->transform);
    *step = (stk__transform_step){0};
    p->num_steps--;
    return STK_OK;
}

static bool names_decode(const stk__item *item)
{
    const char *name = stk__transform_decode.name;

    return stk__option_same(item->name, strlen(item->name), name, strlen(name));
}

static stk_status make_steps(stk__pipeline *p, const stk__items *items, stk_error *err)
{
    static char name[] = "decode";
    const stk__item decode = {.kind = &stk__transform_items, .name = name};
    const bool named = items->count > 0 && names_decode(&items->items[0]);

    if (p->in.encoded && !named)
        STK_TRY(append_step(p, &decode, 0, err));
    for (uint32_t i = 0, number = 0; i < items->count; i++) {
        STK_TRY(append_step(p, &items->items[i], number, err));
        number += !(named && i == 0);
    }
    return STK_OK;
}

static stk_status build(stk__pipeline *p, const stk__items *items, stk_error *err)
{
    p->steps = stk__calloc(p->context, items->count + 1, sizeof *p->steps);
    p->groups = stk__calloc(p->context, items->count + 1, sizeof *p->groups);
    if (!p->steps || !p->groups)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "no memory for %u transforms",
                         items->count);
    STK_TRY(make_steps(p, items, err));
    STK_TRY(plan_steps(p, err));
    stk__pipeline_fuse(p);
    return measure(p, err);
}

stk_status stk__pipeline_create(stk_context *ctx, const char *text, const stk_transform_header *in,
                                stk__pipeline **out, stk_error *err)
{
    stk__items items;
    stk__pipeline *p = NULL;
    stk_status status;

    *out = NULL;
    if (!header_is_sound(in))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "transforms: the field has a header out of range");
    status = stk__items_parse(ctx, &stk__transform_items, text, &items, err);
    if (status != STK_OK)
        return status;
    p = stk__calloc(ctx, 1, sizeof *p);
    if (!p) {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "no memory for the transforms");
        goto out;
    }
    p->context = stk__context_ref(ctx);
    p->in = *in;
    p->varies = stk__header_varies(in);
    status = build(p, &items, err);
    if (status != STK_OK)
        stk__pipeline_destroy(&p);
    *out = p;
out:
    stk__items_release(ctx, &items);
    return status;
}

void stk__pipeline_destroy(stk__pipeline **pipeline)
{
    if (!pipeline || !*pipeline)
        return;
    stk__pipeline *p = *pipeline;
    stk_context *ctx = p->context;

    for (uint32_t i = 0; i < p->num_steps; i++)
        if (p->steps[i].transform)
            p->steps[i].ops->destroy(p->steps[i].transform);
    stk__free(ctx, p->steps);
    stk__free(ctx, p->groups);
    stk__free(ctx, p);
    stk__context_unref(ctx);
    *pipeline = NULL;
}

void stk__pipeline_header(const stk__pipeline *pipeline, stk_transform_header *out)
{
    *out = pipeline->out;
}

uint64_t stk__pipeline_scratch(const stk__pipeline *pipeline)
{
    return pipeline->group_scratch + pipeline->room[0] + pipeline->room[1];
}

bool stk__pipeline_decodes(const stk__pipeline *pipeline)
{
    return pipeline->in.encoded;
}

bool stk__pipeline_is_own(const stk__pipeline *p)
{
    for (uint32_t i = 0; i < p->num_steps; i++)
        if (!stk__driver_is_builtin(STK_DRIVER_TRANSFORM, p->steps[i].ops))
            return false;
    return true;
}

bool stk__pipeline_empty(const stk__pipeline *pipeline)
{
    return pipeline->num_steps == 0;
}

bool stk__pipeline_has(const stk__pipeline *pipeline, const char *name)
{
    for (uint32_t i = 0; i < pipeline->num_steps; i++)
        if (strcmp(pipeline->steps[i].ops->name, name) == 0)
            return true;
    return false;
}
