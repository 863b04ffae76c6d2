/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: pure functions of the step, in the closed forms of torch.optim.lr_scheduler. */
#include <math.h>

#include "base/options.h"
#include "base/sized.h"
#include "nn/model.h"

#define OFFSET(member) offsetof(stk_schedule, member)
#define PI             3.14159265358979323846
#define COUNT          0, (double)(UINT64_C(1) << 53)

static const stk_option options[] = {
    {"name", STK_OPTION_ENUM, OFFSET(name), "constant", 0, 0,
     "constant|step|multi_step|exponential|cosine|one_cycle|reduce_on_plateau|linear|polynomial",
     NULL, "How the learning rate changes. Its steps are epochs, or what module.interval says."},
    {"step_size", STK_OPTION_UINT, OFFSET(step_size), "30", COUNT, NULL, NULL,
     "Of step: steps until it is multiplied by gamma."},
    {"gamma", STK_OPTION_DOUBLE, OFFSET(gamma), "0.1", 0, 1e6, NULL, NULL,
     "Of step, multi_step and exponential: the factor."},
    {"milestones", STK_OPTION_STRING, OFFSET(milestones), NULL, 0, 0, NULL, "N",
     "Of multi_step: the steps at which it is multiplied by gamma, \"30, 80\"."},
    {"t_max", STK_OPTION_UINT, OFFSET(t_max), "0", COUNT, NULL, NULL,
     "Of cosine: steps until eta_min is reached; 0: those of the training."},
    {"eta_min", STK_OPTION_DOUBLE, OFFSET(eta_min), "0", 0, 1e6, NULL, NULL,
     "Of cosine: the least learning rate."},
    {"total_steps", STK_OPTION_UINT, OFFSET(total_steps), "0", COUNT, NULL, NULL,
     "Of one_cycle: all its steps; 0: those of the training."},
    {"max_lr", STK_OPTION_DOUBLE, OFFSET(max_lr), "0", 0, 1e6, NULL, NULL,
     "Of one_cycle: the highest learning rate; 0: the optimizer's."},
    {"pct_start", STK_OPTION_DOUBLE, OFFSET(pct_start), "0.3", 0, 1, NULL, NULL,
     "Of one_cycle: the share of the steps in which it rises."},
    {"div_factor", STK_OPTION_DOUBLE, OFFSET(div_factor), "25", 1e-6, 1e9, NULL, NULL,
     "Of one_cycle: max_lr over the first learning rate."},
    {"final_div_factor", STK_OPTION_DOUBLE, OFFSET(final_div_factor), "1e4", 1e-6, 1e12, NULL, NULL,
     "Of one_cycle: the first learning rate over the last."},
    {"mode", STK_OPTION_ENUM, OFFSET(mode), "min", 0, 0, "min|max", NULL,
     "Of reduce_on_plateau: whether less or more is better."},
    {"factor", STK_OPTION_DOUBLE, OFFSET(factor), "0.1", 0, 1, NULL, NULL,
     "Of reduce_on_plateau: what it is multiplied by."},
    {"threshold", STK_OPTION_DOUBLE, OFFSET(threshold), "1e-4", 0, 1, NULL, NULL,
     "Of reduce_on_plateau: the least relative change that counts."},
    {"min_lr", STK_OPTION_DOUBLE, OFFSET(min_lr), "0", 0, 1e6, NULL, NULL,
     "Of reduce_on_plateau: the least learning rate."},
    {"patience", STK_OPTION_UINT, OFFSET(patience), "10", COUNT, NULL, NULL,
     "Of reduce_on_plateau: values without change that are borne."},
    {"cooldown", STK_OPTION_UINT, OFFSET(cooldown), "0", COUNT, NULL, NULL,
     "Of reduce_on_plateau: values after a change that do not count."},
    {"warmup_steps", STK_OPTION_UINT, OFFSET(warmup_steps), "0", COUNT, NULL, NULL,
     "Steps in which the learning rate first rises linearly."},
    {"warmup_start", STK_OPTION_DOUBLE, OFFSET(warmup_start), "0.3333333333333333", 0, 1, NULL,
     NULL, "Share of the learning rate at the first of them."},
    {"total_iters", STK_OPTION_UINT, OFFSET(total_iters), "0", COUNT, NULL, NULL,
     "Of linear and polynomial: steps in which it changes; 0: those of the training."},
    {"start_factor", STK_OPTION_DOUBLE, OFFSET(start_factor), "0.3333333333333333", 0, 1e6, NULL,
     NULL, "Of linear: what it is multiplied by at first."},
    {"end_factor", STK_OPTION_DOUBLE, OFFSET(end_factor), "1", 0, 1e6, NULL, NULL,
     "Of linear: what it is multiplied by in the end."},
    {"power", STK_OPTION_DOUBLE, OFFSET(power), "1", 0, 1e3, NULL, NULL,
     "Of polynomial: the exponent of the share of steps that is left."},
};
const stk_option_table stk__schedule_option_table = {.name = "lr_scheduler",
                                                     .doc = "How the learning rate changes",
                                                     .struct_size = sizeof(stk_schedule),
                                                     .options = options,
                                                     .count = STK_COUNT(options)};

/* The schedules that look at an option; name and warm-up are of all. */
static const char *const users[][2] = {
    {"step_size", "step"},
    {"gamma", "step|multi_step|exponential"},
    {"milestones", "multi_step"},
    {"t_max", "cosine"},
    {"eta_min", "cosine"},
    {"total_steps", "one_cycle"},
    {"max_lr", "one_cycle"},
    {"pct_start", "one_cycle"},
    {"div_factor", "one_cycle"},
    {"final_div_factor", "one_cycle"},
    {"mode", "reduce_on_plateau"},
    {"factor", "reduce_on_plateau"},
    {"threshold", "reduce_on_plateau"},
    {"min_lr", "reduce_on_plateau"},
    {"patience", "reduce_on_plateau"},
    {"cooldown", "reduce_on_plateau"},
    {"total_iters", "linear|polynomial"},
    {"start_factor", "linear"},
    {"end_factor", "linear"},
    {"power", "polynomial"},
};

static bool is_set(const stk_option *option, const stk_schedule *s)
{
    stk_schedule initial;
    char is[64], was[64];

    stk_schedule_init(&initial);
    if (option->type == STK_OPTION_STRING)
        return *(char *const *)((const char *)s + option->offset) != NULL;
    stk_options_format(option, s, is, sizeof is);
    stk_options_format(option, &initial, was, sizeof was);
    return strcmp(is, was) != 0;
}

const char *stk__schedule_idle(const stk_schedule *s, const char **used_by)
{
    const stk_option_table *table = &stk__schedule_option_table;
    const char *word;
    size_t length;
    char name[32];

    stk_options_format(&options[0], s, name, sizeof name);
    for (size_t i = 0; i < STK_COUNT(users); i++) {
        bool uses = false;
        for (size_t k = 0; (length = stk__option_choice(users[i][1], k, &word)) && !uses; k++)
            uses = strlen(name) == length && strncmp(name, word, length) == 0;
        *used_by = users[i][1];
        if (!uses && is_set(stk_options_find(table, users[i][0]), s))
            return users[i][0];
    }
    return NULL;
}

/* Milestones at or before a step. */
static uint32_t passed(const char *text, uint64_t step)
{
    int64_t at[STK_MAX_MILESTONES];
    uint32_t count, n = 0;

    if (!text || stk__whole_read("lr_scheduler", "milestones", text, 0, INT64_C(1) << 53, at,
                                 STK_MAX_MILESTONES, &count, NULL) != STK_OK)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        n += (uint64_t)at[i] <= step;
    return n;
}

/* A caller's schedule, as this version knows it. */
static stk_schedule known_of(const stk_schedule *given)
{
    stk_schedule known;

    stk_schedule_init(&known);
    stk__sized_copy(&known, sizeof known, given);
    return known;
}

stk_status stk__schedule_check(const stk_schedule *given, stk_error *err)
{
    const stk_schedule known = known_of(given), *s = &known;
    int64_t at[STK_MAX_MILESTONES];
    uint32_t count;
    const char *needs = NULL;

    if (s->name == STK_SCHEDULE_STEP && s->step_size == 0)
        needs = "step needs a step_size above 0";
    else if (s->name == STK_SCHEDULE_COSINE && s->t_max == 0)
        needs = "cosine needs its t_max, where the training has no end of its own";
    else if (s->name == STK_SCHEDULE_ONE_CYCLE && s->total_steps == 0)
        needs = "one_cycle needs its total_steps, where the training has no end of its own";
    else if ((s->name == STK_SCHEDULE_LINEAR || s->name == STK_SCHEDULE_POLYNOMIAL) &&
             s->total_iters == 0)
        needs = "linear and polynomial need total_iters, where the training has no end of its own";
    else if (s->name == STK_SCHEDULE_MULTI_STEP && !s->milestones)
        needs = "multi_step needs its milestones";
    else if (s->name == STK_SCHEDULE_PLATEAU && s->factor >= 1)
        needs = "reduce_on_plateau needs a factor below 1";
    else if (!stk__is_rate(s->max_lr) || !stk__is_rate(s->eta_min) || !stk__is_rate(s->min_lr))
        needs = "max_lr, eta_min and min_lr are finite and at least 0";
    if (needs)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "lr_scheduler: %s", needs);
    if (s->name != STK_SCHEDULE_MULTI_STEP)
        return STK_OK;
    return stk__whole_read("lr_scheduler", "milestones", s->milestones, 0, INT64_C(1) << 53, at,
                           STK_MAX_MILESTONES, &count, err);
}

void stk__schedule_span(stk_schedule *s, uint64_t length)
{
    uint64_t *own = s->name == STK_SCHEDULE_COSINE      ? &s->t_max
                    : s->name == STK_SCHEDULE_ONE_CYCLE ? &s->total_steps
                    : s->name == STK_SCHEDULE_LINEAR || s->name == STK_SCHEDULE_POLYNOMIAL
                        ? &s->total_iters
                        : NULL;

    if (own && *own == 0 && length)
        *own = length > s->warmup_steps ? length - s->warmup_steps : 1;
}

static double anneal(double from, double to, double share)
{
    return to + (from - to) / 2 * (1 + cos(PI * share));
}

/* From `low` up to `high` in the first part of the cycle, down to `last` in the rest. */
static double cycle(const stk_schedule *s, double low, double high, double last, uint64_t step)
{
    double top = s->pct_start * (double)s->total_steps - 1, end = (double)s->total_steps - 1;
    double at = STK_MIN((double)step, end);

    if (at <= top)
        return anneal(low, high, top > 0 ? at / top : 1);
    return anneal(high, last, (at - top) / (end - top));
}

static double share_of(const stk_schedule *s, uint64_t step)
{
    return step < s->total_iters ? (double)step / (double)s->total_iters : 1;
}

static double plain(const stk_schedule *s, double lr, uint64_t step)
{
    double high = s->max_lr > 0 ? s->max_lr : lr, low = high / s->div_factor;

    switch (s->name) {
    case STK_SCHEDULE_STEP:
        return lr * pow(s->gamma, (double)(step / STK_MAX(s->step_size, 1u)));
    case STK_SCHEDULE_MULTI_STEP:
        return lr * pow(s->gamma, passed(s->milestones, step));
    case STK_SCHEDULE_EXPONENTIAL:
        return lr * pow(s->gamma, (double)step);
    case STK_SCHEDULE_COSINE:
        return s->eta_min +
               (lr - s->eta_min) * (1 + cos(PI * (double)step / (double)STK_MAX(s->t_max, 1u))) / 2;
    case STK_SCHEDULE_ONE_CYCLE:
        return cycle(s, low, high, low / s->final_div_factor, step);
    case STK_SCHEDULE_LINEAR:
        return lr * (s->start_factor * (1 - share_of(s, step)) + s->end_factor * share_of(s, step));
    case STK_SCHEDULE_POLYNOMIAL:
        return lr * pow(1 - share_of(s, step), s->power);
    default:
        return lr;
    }
}

double stk__schedule_lr(const stk_schedule *given, double lr, uint64_t step)
{
    const stk_schedule known = known_of(given), *s = &known;

    if (step >= s->warmup_steps)
        return plain(s, lr, step - s->warmup_steps);
    double share = (double)step / (double)s->warmup_steps;
    /* Up to the group's rate, as PyTorch's SequentialLR; one_cycle makes its lowest that. */
    if (s->name == STK_SCHEDULE_ONE_CYCLE)
        lr = (s->max_lr > 0 ? s->max_lr : lr) / s->div_factor;
    return lr * (s->warmup_start + (1 - s->warmup_start) * share);
}

double stk__schedule_momentum(const stk_schedule *given, double momentum, uint64_t step)
{
    const stk_schedule known = known_of(given), *s = &known;

    if (s->name != STK_SCHEDULE_ONE_CYCLE)
        return momentum;
    return cycle(s, 0.95, 0.85, 0.95, step < s->warmup_steps ? 0 : step - s->warmup_steps);
}

void stk__plateau_init(stk__plateau *plateau)
{
    *plateau = (stk__plateau){.best = NAN, .scale = 1};
}

bool stk__plateau_step(stk__plateau *p, const stk_schedule *given, double metric)
{
    const stk_schedule known = known_of(given), *s = &known;

    /* PyTorch's relative threshold; the first value is compared with the worst there is. */
    const double worst = s->mode == 0 ? INFINITY : -INFINITY;
    const double best = isnan(p->best) ? worst : p->best;
    const bool better =
        s->mode == 0 ? metric < best * (1 - s->threshold) : metric > best * (1 + s->threshold);

    if (better)
        p->best = metric;
    p->bad = better ? 0 : p->bad + 1;
    if (p->cooldown > 0) {
        p->cooldown--;
        p->bad = 0;
    }
    if (p->bad <= s->patience)
        return false;
    p->scale *= s->factor;
    p->cooldown = s->cooldown;
    p->bad = 0;
    return true;
}

double stk__plateau_lr(const stk__plateau *p, const stk_schedule *given, double lr)
{
    const stk_schedule known = known_of(given), *s = &known;

    return p->scale == 1 ? lr : STK_MAX(lr * p->scale, s->min_lr);
}
