/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The survey of pictures that `stoker info` keeps. What must hold whatever it says: what is taken
 * is what a survey can find, and written and read again it is the same.
 */
#include "fuzz_support.h"
#include "info.h"

#include <math.h>

#define CLASSES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void lines_add(void *user, const char *name, const char *value)
{
    struct lines *lines = user;

    lines->line = realloc(lines->line, (lines->count + 1) * sizeof *lines->line);
    FUZZ_CHECK(lines->line);
    lines->line[lines->count++] = (struct line){strdup(name), strdup(value)};
}

static bool read_text(const void *text, size_t length, struct info_survey *out)
{
    *out = (struct info_survey){.class_counts = calloc(CLASSES, sizeof *out->class_counts)};
    FILE *file = fmemopen((void *)text, length, "r");
    FUZZ_CHECK(file && out->class_counts);
    bool good = info_kept_read(file, CLASSES, out);
    fclose(file);
    return good;
}

static char *write_text(const struct info_survey *survey, size_t *length)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, length);

    FUZZ_CHECK(file);
    info_kept_write(file, CLASSES, survey);
    FUZZ_CHECK(fclose(file) == 0);
    return text;
}

static void release(struct info_survey *survey)
{
    for (size_t i = 0; i < survey->broken.count; i++) {
        free(survey->broken.line[i].name);
        free(survey->broken.line[i].value);
    }
    free(survey->broken.line);
    free(survey->class_counts);
}

static void check(const struct info_survey *survey)
{
    const stk_survey *s = &survey->found;

    FUZZ_CHECK(s->broken <= s->pictures && survey->broken.count <= s->broken && s->channels <= 4);
    FUZZ_CHECK(fabs(s->mean_width) < 1e10 && fabs(s->mean_height) < 1e10 && s->entropy_share <= 1);
    for (uint32_t c = 0; c < s->channels; c++)
        FUZZ_CHECK(fabs(s->mean[c]) < 1e10 && fabs(s->std[c]) < 1e10);
    for (size_t i = 0; i < survey->broken.count; i++)
        FUZZ_CHECK(survey->broken.line[i].name[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct info_survey survey, again;
    size_t length = 0, other = 0;

    if (size == 0)
        return 0;
    if (read_text(data, size, &survey)) {
        check(&survey);
        FUZZ_CHECK(size > 4 && memcmp(data + size - 4, "end\n", 4) == 0);
        char *text = write_text(&survey, &length);
        FUZZ_CHECK(read_text(text, length, &again));
        char *same = write_text(&again, &other);
        FUZZ_CHECK(length == other && memcmp(text, same, length) == 0);
        free(same);
        free(text);
        release(&again);
    }
    release(&survey);
    return 0;
}
