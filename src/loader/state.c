/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a loader: a few numbers, as a line of text, and held against a loader's own. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "loader/parts.h"

#define STATE_VERSION 4

/* Every number of a state, with the name users know it by. */
#define STATE_FIELDS(X)                                                                            \
    X(epoch)                                                                                       \
    X(step)                                                                                        \
    X(fingerprint)                                                                                 \
    X(size)                                                                                        \
    X(seed)                                                                                        \
    X(global_batch_size)                                                                           \
    X(block_size)                                                                                  \
    X(shuffle_buffer)                                                                              \
    X(streams)                                                                                     \
    X(transforms)                                                                                  \
    X(on_error)                                                                                    \
    X(bucket_window)

/* Of the texts of both lists of transforms; blanks between their words do not count. */
static uint64_t hash_transforms(const stk_loader_options *o)
{
    const char *texts[] = {o->transforms, o->batch_transforms};
    uint64_t hash = 0;

    for (int i = 0; i < 2; i++) {
        for (const char *c = texts[i] ? texts[i] : ""; *c; c++)
            if (*c != ' ' && *c != '\t' && *c != '\n')
                hash = XXH3_64bits_withSeed(c, 1, hash);
        /* What is in the one list does not count as being in the other. */
        hash = texts[i] && *texts[i] ? hash ^ (uint64_t)(i + 1) << 62 : hash;
    }
    return hash;
}

void stk__state_of(const stk_dataset *dataset, const stk__order *order,
                   const stk_loader_options *options, stk_loader_state *out)
{
    *out = (stk_loader_state){.version = STATE_VERSION,
                              .fingerprint = dataset->fingerprint,
                              .size = order->size,
                              .seed = order->seed,
                              .global_batch_size = order->global_batch,
                              .block_size = order->block_size,
                              .shuffle_buffer = order->buffer_blocks,
                              .streams = order->streams,
                              .transforms = hash_transforms(options),
                              .on_error = (uint64_t)options->on_error,
                              .bucket_window = order->bucket,
                              .shuffle = (uint32_t)order->shuffle,
                              .drop_last = order->drop_last};
}

int stk_loader_state_format(const stk_loader_state *state, char *text, size_t size)
{
    char numbers[600];
    int length = snprintf(numbers, sizeof numbers,
                          "stoker-state %" PRIu64
#define FORMAT(name) " " #name "=%" PRIu64
                              STATE_FIELDS(FORMAT)
#undef FORMAT
                                  " shuffle=%u drop_last=%u",
                          state->version,
#define VALUE(name) state->name,
                          STATE_FIELDS(VALUE)
#undef VALUE
                              state->shuffle,
                          state->drop_last);
    return snprintf(text, size, "%s check=%016" PRIx64, numbers,
                    XXH3_64bits(numbers, (size_t)length));
}

/* One " name=number"; NULL when it does not stand there. */
static const char *parse_number(const char *at, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    char *end;

    if (*at != ' ' || strncmp(at + 1, name, length) || at[1 + length] != '=' ||
        at[2 + length] < '0' || at[2 + length] > '9')
        return NULL;
    errno = 0;
    *value = strtoull(at + 2 + length, &end, 10);
    return errno ? NULL : end;
}

/* The check of all before it, and a line end or none. */
static bool check_end(const char *text, const char *at)
{
    static const char name[] = " check=";
    char want[sizeof name + 16];

    snprintf(want, sizeof want, "%s%016" PRIx64, name, XXH3_64bits(text, (size_t)(at - text)));
    if (strncmp(at, want, sizeof want - 1) != 0)
        return false;
    at += sizeof want - 1;
    return !*at || !strcmp(at, "\n") || !strcmp(at, "\r\n");
}

stk_status stk_loader_state_parse(const char *text, stk_loader_state *out, stk_error *err)
{
    static const char prefix[] = "stoker-state";
    const char *at = text;
    uint64_t version = 0, shuffle = 0, drop_last = 0;
    char *end;

    *out = (stk_loader_state){0};
    if (strncmp(at, prefix, sizeof prefix - 1) || at[sizeof prefix - 1] != ' ')
        return stk__fail(err, STK_EFORMAT, STK_STAGE_LOADER,
                         "not a state of a loader: it begins \"%.40s\"", text);
    version = strtoull(at + sizeof prefix, &end, 10);
    if (at[sizeof prefix] < '0' || at[sizeof prefix] > '9')
        return stk__fail(err, STK_EFORMAT, STK_STAGE_LOADER, "the state lacks a number of version");
    if (version != STATE_VERSION)
        return stk__fail(err, STK_EKIND, STK_STAGE_LOADER,
                         "a state of version %" PRIu64 "; this stoker knows version %d", version,
                         STATE_VERSION);
    at = end;
    out->version = version;
#define PARSE(name)                                                                                \
    if (at && !(at = parse_number(at, #name, &out->name)))                                         \
        return stk__fail(err, STK_EFORMAT, STK_STAGE_LOADER, "the state lacks a number for " #name);
    STATE_FIELDS(PARSE)
#undef PARSE
    at = parse_number(at, "shuffle", &shuffle);
    at = at ? parse_number(at, "drop_last", &drop_last) : NULL;
    if (!at || shuffle > STK_SHUFFLE_BLOCK || drop_last > 1)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_LOADER,
                         "the state lacks a number for shuffle or drop_last");
    if (!check_end(text, at))
        return stk__fail(err, STK_ECHECKSUM, STK_STAGE_LOADER,
                         "the state is not as it was saved: its check does not match (it ends "
                         "\"%.40s\"); take another copy, or begin anew",
                         at);
    out->shuffle = (uint32_t)shuffle;
    out->drop_last = (uint32_t)drop_last;
    return STK_OK;
}

/* The first number that differs, said with both values. */
stk_status stk__state_same(const stk_loader_state *saved, const stk_loader_state *own,
                           stk_error *err)
{
    static const struct {
        const char *name;
        size_t offset;
        const char *remedy;
    } fields[] = {
        {"size", offsetof(stk_loader_state, size), "it is the state of another dataset"},
        {"fingerprint", offsetof(stk_loader_state, fingerprint),
         "it is the state of another dataset, or the data has changed"},
        {"seed", offsetof(stk_loader_state, seed), "set it as it was"},
        {"global_batch_size", offsetof(stk_loader_state, global_batch_size),
         "set global_batch_size as it was; batch_size then follows from world_size"},
        {"block_size", offsetof(stk_loader_state, block_size), "set it as it was"},
        {"shuffle_buffer", offsetof(stk_loader_state, shuffle_buffer), "set it as it was"},
        {"streams", offsetof(stk_loader_state, streams), "set it as it was"},
        {"bucket_window", offsetof(stk_loader_state, bucket_window), "set it as it was"},
    };

    if (saved->version != STATE_VERSION)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_LOADER,
                         "the state has version %" PRIu64 "; this stoker knows %d", saved->version,
                         STATE_VERSION);
    if (saved->shuffle != own->shuffle)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_LOADER,
                         "the state was saved with shuffle %u, the loader has %u: set it as it was",
                         saved->shuffle, own->shuffle);
    if (saved->drop_last != own->drop_last)
        return stk__fail(
            err, STK_EMISMATCH, STK_STAGE_LOADER,
            "the state was saved with drop_last %u, the loader has %u: set it as it was",
            saved->drop_last, own->drop_last);
    for (size_t i = 0; i < STK_COUNT(fields); i++) {
        uint64_t a, b;
        memcpy(&a, (const char *)saved + fields[i].offset, sizeof a);
        memcpy(&b, (const char *)own + fields[i].offset, sizeof b);
        if (a != b)
            return stk__fail(err, STK_EMISMATCH, STK_STAGE_LOADER,
                             "the state was saved with %s %" PRIu64 ", the loader has %" PRIu64
                             ": %s",
                             fields[i].name, a, b, fields[i].remedy);
    }
    return STK_OK;
}

stk_status stk__state_same_values(const stk_loader_state *saved, const stk_loader_state *own,
                                  stk_context *warn, stk_error *err)
{
    const char *what = saved->transforms != own->transforms ? "other transforms"
                       : saved->on_error != own->on_error   ? "another on_error"
                                                            : NULL;

    if (!what)
        return STK_OK;
    if (!warn)
        return stk__fail(
            err, STK_EMISMATCH, STK_STAGE_LOADER,
            "the state was saved with %s: set it as it was, or on_state_mismatch: warn "
            "to go on with other values",
            what);
    stk__message(warn, STK_MESSAGE_WARNING,
                 "the state was saved with %s: the run goes on with other values", what);
    return STK_OK;
}
