/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of which save a file is: in its text, and in its name. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/digits.h"
#include "base/random.h"
#include "base/url.h"
#include "checkpoint/parts.h"

#define ENDING ".safetensors"

void stk__checkpoint_part_draw(stk__checkpoint_part *part)
{
    if (stk__system_random(part->save, sizeof part->save))
        return;
    part->save[0] = stk__now_ns();
    part->save[1] = (uint64_t)getpid();
}

void stk__part_text(const stk__checkpoint_part *part, char text[STK__CHECKPOINT_PART_TEXT])
{
    snprintf(text, STK__CHECKPOINT_PART_TEXT, "%016" PRIx64 "%016" PRIx64 " %" PRIu32 " %" PRIu32,
             part->save[0], part->save[1], part->number, part->count);
}

/* A number of 7 digits at most; behind them `end`. */
static bool take_number(const char **at, char end, uint64_t *out)
{
    const char *p = *at;

    *out = 0;
    for (; stk__is_digit(*p) && p - *at < 7; p++)
        *out = *out * 10 + (uint64_t)(*p - '0');
    if (p == *at || *p != end)
        return false;
    *at = p + (end != 0);
    return true;
}

/* The number of a save, 32 digits. */
static bool take_save(const char **at, uint64_t save[2])
{
    if (!stk__hex_number(*at, 16, &save[0]) || !stk__hex_number(*at + 16, 16, &save[1]))
        return false;
    *at += 32;
    return true;
}

static bool make(const uint64_t save[2], uint64_t number, uint64_t count, stk__checkpoint_part *out)
{
    if (count < 2 || count > STK__CHECKPOINT_MOST_PARTS || number >= count)
        return false;
    *out = (stk__checkpoint_part){{save[0], save[1]}, (uint32_t)number, (uint32_t)count};
    return true;
}

bool stk__part_parse(const char *text, stk__checkpoint_part *out)
{
    uint64_t save[2], number, count;

    return take_save(&text, save) && *text++ == ' ' && take_number(&text, ' ', &number) &&
           take_number(&text, 0, &count) && make(save, number, count, out);
}

/* ---- Files ---- */

char *stk__checkpoint_parts_folder(stk_context *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');

    return stk__format(ctx, "%.*s" STK__CHECKPOINT_PARTS, slash ? (int)(slash + 1 - path) : 0,
                       path);
}

static char *beside(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                    uint32_t number, const char *ending)
{
    size_t length;
    const char *name = stk__url_name(ctx, first, &length);

    return stk__format(ctx,
                       "%.*s" STK__CHECKPOINT_PARTS "/%016" PRIx64 "%016" PRIx64 "-%05" PRIu32
                       "-of-%05" PRIu32 "%s%s",
                       (int)(name - first), first, part->save[0], part->save[1], number,
                       part->count, ending, name + length);
}

char *stk__part_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                     uint32_t number)
{
    return beside(ctx, first, part, number, ENDING);
}

char *stk__part_failed_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                            uint32_t number)
{
    return beside(ctx, first, part, number, ENDING STK__PART_FAILED);
}

bool stk__part_name_parse(const char *name, stk__checkpoint_part *out)
{
    static const char of[] = "of-";
    uint64_t save[2], number, count;
    const size_t skip = sizeof of - 1;

    if (!take_save(&name, save) || *name++ != '-' || !take_number(&name, '-', &number) ||
        strncmp(name, of, skip) != 0)
        return false;
    name += skip;
    return take_number(&name, '.', &count) && make(save, number, count, out) &&
           (strcmp(name, ENDING + 1) == 0 || strcmp(name, &(ENDING STK__PART_FAILED)[1]) == 0);
}
