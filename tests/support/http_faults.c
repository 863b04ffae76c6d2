/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/http_parts.h"

/* The texts of a fault, in one place for all that copies, frees or reads them. */
static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"method", offsetof(http_fault, method)}, {"path", offsetof(http_fault, path)},
    {"query", offsetof(http_fault, query)},   {"code", offsetof(http_fault, code)},
    {"body", offsetof(http_fault, body)},     {"location", offsetof(http_fault, location)},
    {"header", offsetof(http_fault, header)}, {"etag", offsetof(http_fault, etag)},
    {"range", offsetof(http_fault, range)},   {"encoding", offsetof(http_fault, encoding)},
    {"before", offsetof(http_fault, before)},
};

#define TEXTS (sizeof texts / sizeof *texts)

typedef struct rule {
    http_fault fault;
    uint64_t until; /* ns; 0: for good */
    uint64_t matched;
    uint64_t struck;
    bool cleared;
} rule;

struct http_faults {
    pthread_mutex_t lock; /* guards all of it */
    uint64_t random;
    rule *rules; /* those that were cleared keep their numbers and counts */
    size_t n;
};

static const char **text_at(http_fault *fault, size_t i)
{
    return (const char **)((char *)fault + texts[i].offset);
}

void http_fault_release(http_fault *fault)
{
    for (size_t i = 0; i < TEXTS; i++) {
        free((char *)*text_at(fault, i));
        *text_at(fault, i) = NULL;
    }
}

bool http_fault_own(http_fault *fault)
{
    http_fault given = *fault;
    bool good = true;

    for (size_t i = 0; i < TEXTS; i++)
        if (*text_at(&given, i) && !(*text_at(fault, i) = strdup(*text_at(&given, i))))
            good = false;
    if (!good)
        http_fault_release(fault);
    return good;
}

http_faults *http_faults_create(uint64_t seed)
{
    http_faults *faults = calloc(1, sizeof *faults);

    if (!faults)
        return NULL;
    pthread_mutex_init(&faults->lock, NULL);
    faults->random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return faults;
}

void http_faults_clear(http_faults *faults)
{
    pthread_mutex_lock(&faults->lock);
    for (size_t i = 0; i < faults->n; i++) {
        http_fault_release(&faults->rules[i].fault);
        faults->rules[i].cleared = true;
    }
    pthread_mutex_unlock(&faults->lock);
}

void http_faults_destroy(http_faults *faults)
{
    if (!faults)
        return;
    http_faults_clear(faults);
    free(faults->rules);
    pthread_mutex_destroy(&faults->lock);
    free(faults);
}

/* Takes the texts of `fault`, which are its own. */
static int add(http_faults *faults, http_fault *fault)
{
    int number = 0;

    pthread_mutex_lock(&faults->lock);
    rule *rules = realloc(faults->rules, (faults->n + 1) * sizeof *rules);
    if (rules) {
        faults->rules = rules;
        rules[faults->n] = (rule){.fault = *fault};
        if (fault->for_ms)
            rules[faults->n].until = http_now() + fault->for_ms * UINT64_C(1000000);
        number = (int)++faults->n;
    }
    pthread_mutex_unlock(&faults->lock);
    if (!number)
        http_fault_release(fault);
    return number;
}

int http_faults_add(http_faults *faults, const http_fault *fault)
{
    http_fault own = *fault;

    return http_fault_own(&own) ? add(faults, &own) : 0;
}

uint64_t http_faults_struck(http_faults *faults, int number)
{
    pthread_mutex_lock(&faults->lock);
    const uint64_t struck =
        number > 0 && (size_t)number <= faults->n ? faults->rules[number - 1].struck : 0;
    pthread_mutex_unlock(&faults->lock);
    return struck;
}

/* xorshift64*, of which 53 bits make a number below 1. */
static double draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)(*state * UINT64_C(2685821657736338717) >> 11) / 9007199254740992.0;
}

static bool matches(const http_fault *fault, const http_request *request)
{
    if (fault->at_accept || !request)
        return fault->at_accept && !request;
    if (fault->method && strcmp(fault->method, request->method) != 0)
        return false;
    if (fault->query && !strstr(request->query, fault->query))
        return false;
    return !fault->path || fnmatch(fault->path, request->path, 0) == 0;
}

static bool strikes(http_faults *faults, rule *r, const http_request *request, uint64_t active,
                    uint64_t now)
{
    if (r->cleared || (r->until && now >= r->until) || !matches(&r->fault, request) ||
        active < r->fault.above)
        return false;
    if (r->matched++ < r->fault.skip || (r->fault.count && r->struck >= r->fault.count))
        return false;
    if (r->fault.chance > 0 && draw(&faults->random) >= r->fault.chance)
        return false;
    r->struck++;
    return true;
}

bool http_faults_choose(http_faults *faults, const http_request *request, uint64_t active,
                        http_fault *out)
{
    bool struck = false;

    *out = (http_fault){0};
    pthread_mutex_lock(&faults->lock);
    const uint64_t now = faults->n ? http_now() : 0;
    for (size_t i = 0; i < faults->n && !struck; i++) {
        if (!strikes(faults, &faults->rules[i], request, active, now))
            continue;
        *out = faults->rules[i].fault;
        struck = http_fault_own(out);
    }
    pthread_mutex_unlock(&faults->lock);
    return struck;
}

/* ---- From words ---- */

typedef enum kind { U64, U32, I64, I32, BOOL, REAL } kind;

static const struct {
    const char *name;
    kind kind;
    size_t offset;
} numbers[] = {
    {"skip", U64, offsetof(http_fault, skip)},
    {"count", U64, offsetof(http_fault, count)},
    {"above", U64, offsetof(http_fault, above)},
    {"chance", REAL, offsetof(http_fault, chance)},
    {"for-ms", U32, offsetof(http_fault, for_ms)},
    {"at-accept", BOOL, offsetof(http_fault, at_accept)},
    {"latency-ms", U32, offsetof(http_fault, latency_ms)},
    {"bandwidth", U64, offsetof(http_fault, bandwidth)},
    {"in-upload", BOOL, offsetof(http_fault, in_upload)},
    {"status", I32, offsetof(http_fault, status)},
    {"whole", BOOL, offsetof(http_fault, whole)},
    {"retry-after", I32, offsetof(http_fault, retry_after)},
    {"retry-after-date", BOOL, offsetof(http_fault, retry_after_date)},
    {"etag-changes", BOOL, offsetof(http_fault, etag_changes)},
    {"range-off", I64, offsetof(http_fault, range_off)},
    {"length-off", I64, offsetof(http_fault, length_off)},
    {"no-length", BOOL, offsetof(http_fault, no_length)},
    {"date-off", I64, offsetof(http_fault, date_off)},
    {"endless-head", BOOL, offsetof(http_fault, endless_head)},
    {"extra", U64, offsetof(http_fault, extra)},
    {"part", U64, offsetof(http_fault, part)},
    {"flip", U64, offsetof(http_fault, flip)},
};

static bool set_number(http_fault *fault, size_t i, const char *value)
{
    char *field = (char *)fault + numbers[i].offset, *end = NULL;
    const double real = value ? strtod(value, &end) : 1;
    const long long integer = value ? strtoll(value, NULL, 10) : 1;

    if (value && (end == value || *end))
        return false;
    switch (numbers[i].kind) {
    case U64:
        *(uint64_t *)field = (uint64_t)integer;
        break;
    case U32:
        *(uint32_t *)field = (uint32_t)integer;
        break;
    case I64:
        *(int64_t *)field = integer;
        break;
    case I32:
        *(int *)field = (int)integer;
        break;
    case BOOL:
        *(bool *)field = integer != 0;
        break;
    case REAL:
        *(double *)field = real;
        break;
    }
    return true;
}

static bool one_of(const char *value, const char *const *names, int *out)
{
    for (int i = 0; names[i]; i++)
        if (value && strcmp(value, names[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool set_word(http_fault *fault, const char *name, const char *value)
{
    static const char *const cuts[] = {"", "close", "reset", "stall", NULL};
    static const char *const chunks[] = {"", "good", "badly", "endless", NULL};
    static const char *const places[] = {"before-head", "within-head", NULL};
    int i = 0;

    if (strcmp(name, "cut") == 0 && one_of(value, cuts, &i)) {
        fault->cut = (http_cut)i;
        return true;
    }
    if (strcmp(name, "chunks") == 0 && one_of(value, chunks, &i)) {
        fault->chunks = (http_chunks)i;
        return true;
    }
    if (strcmp(name, "at") != 0 || !value)
        return false;
    fault->at = one_of(value, places, &i) ? -1 - i : strtoll(value, NULL, 10);
    return true;
}

static bool set(http_fault *fault, const char *name, const char *value)
{
    for (size_t i = 0; i < TEXTS; i++)
        if (strcmp(name, texts[i].name) == 0) {
            *text_at(fault, i) = value ? value : "";
            return true;
        }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return set_number(fault, i, value);
    return set_word(fault, name, value);
}

int http_faults_add_text(http_faults *faults, const char *text)
{
    http_fault fault = {0};
    char *copy = strdup(text), *rest = copy, *word;
    int number = 0;

    while (copy && (word = strsep(&rest, ","))) {
        char *value = strchr(word, '=');

        if (value)
            *value++ = 0;
        if (*word && !set(&fault, word, value))
            goto out;
    }
    number = copy ? http_faults_add(faults, &fault) : 0;
out:
    free(copy);
    return number;
}
