/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A survey of pictures as a text: a number a line, the sizes, means and deviations, a number for
 * each class, and the broken files with their reasons. Anybody may have written it, so that what is
 * read is held against what a survey can say.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "info.h"

#define HEADER      "stoker survey 1"
#define MAX_LINE    32768 /* a key and a reason, each byte as %XX */
#define MAX_NUMBERS 32
#define MAX_VALUE   1e9 /* of means and sizes */

/* ---- Writing --------------------------------------------------------------------------------- */

/* Names may hold any bytes: those that would end a line or a word are written as %XX. */
static void write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c <= 0x20 || c == '%' || c == 0x7f)
            fprintf(file, "%%%02x", c);
        else
            fputc(c, file);
    }
}

/* The numbers of a survey, one after the other, so that reading and writing cannot differ. */
static size_t numbers_of(stk_survey *s, uint64_t *numbers[MAX_NUMBERS])
{
    uint64_t *const plain[] = {&s->pictures,         &s->broken, &s->bytes, &s->jpeg,
                               &s->jpeg_progressive, &s->png,    &s->grey,  &s->turned};
    size_t n = 0;

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        numbers[n++] = plain[i];
    for (size_t i = 0; i < STK_SURVEY_SIDES; i++)
        numbers[n++] = &s->sides[i];
    return n;
}

void info_kept_write(FILE *file, uint32_t num_classes, const struct info_survey *survey)
{
    stk_survey s = survey->found;
    uint64_t *numbers[MAX_NUMBERS];
    const size_t n = numbers_of(&s, numbers);

    fputs(HEADER "\n", file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%" PRIu64 "\n", *numbers[i]);
    fprintf(file, "%u %u %u %u %.17g %.17g %.17g %u\n", s.min_width, s.min_height, s.max_width,
            s.max_height, s.mean_width, s.mean_height, s.entropy_share, s.channels);
    for (size_t c = 0; c < 4; c++)
        fprintf(file, "%.17g %.17g\n", s.mean[c], s.std[c]);
    for (uint32_t c = 0; c < num_classes; c++)
        fprintf(file, "%" PRIu64 "\n", survey->class_counts[c]);
    fprintf(file, "%zu\n", survey->broken.count);
    for (size_t i = 0; i < survey->broken.count; i++) {
        write_escaped(file, survey->broken.line[i].name);
        fputc(' ', file);
        write_escaped(file, survey->broken.line[i].value);
        fputc('\n', file);
    }
    fputs("end\n", file);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A whole line, without its end. */
static bool next_line(FILE *file, char line[MAX_LINE])
{
    if (!fgets(line, MAX_LINE, file))
        return false;
    char *end = strchr(line, '\n');
    if (end)
        *end = '\0';
    return end != NULL;
}

static bool is_line(FILE *file, char line[MAX_LINE], const char *text)
{
    return next_line(file, line) && strcmp(line, text) == 0;
}

static bool read_number(FILE *file, char line[MAX_LINE], uint64_t *out)
{
    char rest;

    return next_line(file, line) && *line >= '0' && *line <= '9' && strlen(line) < 20 &&
           sscanf(line, "%" SCNu64 "%c", out, &rest) == 1;
}

/* The value of a digit of write_escaped(); 16: it is none. */
static unsigned digit(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                  : 16;
}

static bool read_escaped(char *text)
{
    char *to = text;

    for (const char *p = text; *p; to++) {
        if (*p != '%') {
            *to = *p++;
            continue;
        }
        unsigned high = digit(p[1]), low = high < 16 ? digit(p[2]) : 16;
        if (low == 16 || high + low == 0)
            return false;
        *to = (char)(high << 4 | low);
        p += 3;
    }
    *to = '\0';
    return true;
}

static bool read_broken(FILE *file, char line[MAX_LINE], struct lines *broken)
{
    if (!next_line(file, line))
        return false;
    char *reason = strchr(line, ' ');
    if (!reason)
        return false;
    *reason++ = '\0';
    if (!*line || strchr(reason, ' ') || !read_escaped(line) || !read_escaped(reason))
        return false;
    lines_add(broken, line, reason);
    return true;
}

static bool in_range(double value, double least)
{
    return isfinite(value) && value >= least && value <= MAX_VALUE;
}

/* Whether a survey can have found this. */
static bool is_sound(const stk_survey *s)
{
    bool sound = s->broken <= s->pictures && s->jpeg <= s->pictures && s->png <= s->pictures &&
                 s->jpeg_progressive <= s->jpeg && s->grey <= s->pictures &&
                 s->turned <= s->pictures && s->channels <= 4 && in_range(s->mean_width, 0) &&
                 in_range(s->mean_height, 0) && isfinite(s->entropy_share) && s->entropy_share <= 1;

    for (size_t i = 0; i < STK_SURVEY_SIDES; i++)
        sound = sound && s->sides[i] <= s->pictures;
    for (uint32_t c = 0; sound && c < s->channels; c++)
        sound = in_range(s->mean[c], -MAX_VALUE) && in_range(s->std[c], 0);
    return sound && s->pictures <= INT64_MAX / 64;
}

static bool read_found(FILE *file, char line[MAX_LINE], stk_survey *s)
{
    uint64_t *numbers[MAX_NUMBERS];
    const size_t n = numbers_of(s, numbers);
    char rest;

    for (size_t i = 0; i < n; i++)
        if (!read_number(file, line, numbers[i]))
            return false;
    if (!next_line(file, line) ||
        sscanf(line, "%u %u %u %u %lf %lf %lf %u%c", &s->min_width, &s->min_height, &s->max_width,
               &s->max_height, &s->mean_width, &s->mean_height, &s->entropy_share, &s->channels,
               &rest) != 8)
        return false;
    for (size_t c = 0; c < 4; c++)
        if (!next_line(file, line) ||
            sscanf(line, "%lf %lf%c", &s->mean[c], &s->std[c], &rest) != 2)
            return false;
    return is_sound(s);
}

bool info_kept_read(FILE *file, uint32_t num_classes, struct info_survey *survey)
{
    char line[MAX_LINE];
    uint64_t broken;

    if (!is_line(file, line, HEADER) || !read_found(file, line, &survey->found))
        return false;
    for (uint32_t c = 0; c < num_classes; c++)
        if (!read_number(file, line, &survey->class_counts[c]))
            return false;
    if (!read_number(file, line, &broken) || broken > INFO_KEPT_BROKEN ||
        broken > survey->found.broken)
        return false;
    for (uint64_t i = 0; i < broken; i++)
        if (!read_broken(file, line, &survey->broken))
            return false;
    return is_line(file, line, "end") && !fgets(line, MAX_LINE, file);
}
