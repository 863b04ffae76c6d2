/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of DALI's wds2idx [NVIDIA/DALI tools/wds2idx.py, version v1.2]: a line "v1.2 SAMPLES",
 * then one of each sample, "EXTENSION OFFSET SIZE NAME" of each of its members. They are such as
 * the headers of the shard would give, or they are not used: the names make the samples, members
 * lie one behind the other on blocks, two blocks of zeros follow the last, and some headers, from
 * the first to the last, are read and have to be those of the members.
 */
#include "dataset/records/beside.h"
#include "dataset/records/shard.h"
#include "dataset/records/webdataset.h"
#include "dataset/tar_header.h"

#define VERSION   "v1.2 "
#define LOOKED_AT 8u /* headers of a shard */

/* An index being taken. */
typedef struct taking {
    stk__shard *shard;
    const char *at, *end;
    uint64_t lines;  /* that are to be */
    uint64_t behind; /* the last member: the next block */
    const char *why; /* it is not used; NULL: a failure of another kind */
    char name[STK__WEBDATASET_MAX_NAME + 1];
    stk__webdataset_sample sample;
} taking;

/* One member of a line. */
typedef struct member {
    const char *extension, *name; /* `name` of `taking` */
    size_t length;                /* of the extension */
    uint64_t offset, size;
    bool extended; /* there is room for headers in front of its own */
} member;

/* Not used: the shard is read. */
static stk_status differs(taking *t, const char *why)
{
    t->why = why;
    return STK_EFORMAT;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A word, which ends with a space or the line. */
static bool take_word(taking *t, const char **word, size_t *length)
{
    *word = t->at;
    while (t->at < t->end && *t->at != ' ' && *t->at != '\n')
        t->at++;
    *length = (size_t)(t->at - *word);
    return *length > 0;
}

static bool take_space(taking *t)
{
    return t->at < t->end && *t->at++ == ' ';
}

/* A name below the root, as the headers give it. */
static bool take_name(taking *t)
{
    const char *word;
    size_t length;

    if (!take_word(t, &word, &length))
        return false;
    while (length > 2 && word[0] == '.' && word[1] == '/') {
        word += 2;
        length -= 2;
    }
    if (length > STK__WEBDATASET_MAX_NAME || memchr(word, 0, length))
        return false;
    memcpy(t->name, word, length);
    t->name[length] = 0;
    return stk__tar_is_below(t->name);
}

static bool take_member(taking *t, member *m)
{
    if (!take_word(t, &m->extension, &m->length) || !take_space(t) ||
        !stk__beside_number(&t->at, t->end, &m->offset) || !take_space(t) ||
        !stk__beside_number(&t->at, t->end, &m->size) || !take_space(t) || !take_name(t))
        return false;
    m->name = t->name;
    return true;
}

/* The extension is what follows the first dot of the last name; where there is none, DALI takes the
 * whole name, and it is a part of no sample. */
static bool is_named_so(const member *m)
{
    const char *slash = strrchr(m->name, '/'), *dot = strchr(slash ? slash + 1 : m->name, '.');

    if (!dot)
        return m->length == strlen(m->name) ? memcmp(m->extension, m->name, m->length) == 0
                                            : stk__ends_with(m->extension, m->length, m->name);
    return strlen(dot + 1) == m->length && memcmp(dot + 1, m->extension, m->length) == 0;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* Members follow one another, each behind a header. */
static bool is_in_order(taking *t, member *m)
{
    const uint64_t size = stk__shard_size(t->shard);

    if (m->offset % STK__TAR_BLOCK || m->offset > size || m->size > size - m->offset ||
        m->offset < t->behind || m->offset - t->behind < STK__TAR_BLOCK)
        return false;
    m->extended = m->offset - t->behind > STK__TAR_BLOCK;
    t->behind = m->offset + stk__round_up(m->size, STK__TAR_BLOCK);
    return true;
}

/* Whether the header in front of the member says the same. */
static stk_status look_at_header(taking *t, const member *m, stk_error *err)
{
    unsigned char block[STK__TAR_BLOCK];
    stk__tar_head head;
    const char *what, *name = head.name;

    STK_TRY(stk__shard_read(t->shard, m->offset - sizeof block, block, sizeof block, err));
    if (stk__tar_head_read(block, &head, &what) != STK_OK || !head.sized || head.size != m->size ||
        (head.type != '0' && head.type != 0 && head.type != '7'))
        return differs(t, "has a member where the shard has none");
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    /* A name that is too long for the header stands in one before it. */
    if (strcmp(name, m->name) != 0 && !m->extended)
        return differs(t, "has a member that has another name in the shard");
    return STK_OK;
}

/* The members of a line. `looked`: the header of the first is looked at, `last`: of the last. */
static stk_status take_line(taking *t, bool looked, bool last, stk_error *err)
{
    const size_t records = t->shard->found.num_records, parts = t->shard->found.num_parts;
    member m;

    for (bool first = true;; first = false) {
        if (!take_member(t, &m) || !is_named_so(&m))
            return differs(t, "is not as wds2idx writes it");
        if (!is_in_order(t, &m))
            return differs(t, "has members that do not lie in its shard one behind the other");
        STK_TRY(stk__webdataset_member(t->shard, &t->sample, m.name, m.offset - STK__TAR_BLOCK,
                                       m.size, err));
        const bool ends = t->at == t->end || *t->at == '\n';
        if ((first && looked) || (ends && last))
            STK_TRY(look_at_header(t, &m, err));
        if (ends)
            break;
        t->at++;
    }
    /* Where the line names parts it is one record: no more, and not the one before. */
    if (t->shard->found.num_records - records != (t->shard->found.num_parts > parts))
        return differs(t, "does not part the samples as their names do");
    t->at += t->at < t->end;
    return STK_OK;
}

/* ---- The index ------------------------------------------------------------------------------- */

static stk_status check_end(taking *t, stk_error *err)
{
    unsigned char blocks[2 * STK__TAR_BLOCK];

    if (t->at != t->end)
        return differs(t, "has more lines than it says");
    if (t->behind > stk__shard_size(t->shard) ||
        stk__shard_size(t->shard) - t->behind < sizeof blocks)
        return differs(t, "is of another shard");
    STK_TRY(stk__shard_read(t->shard, t->behind, blocks, sizeof blocks, err));
    return stk__all_zero(blocks, sizeof blocks)
               ? STK_OK
               : differs(t, "ends before the last member of its shard");
}

static stk_status take_all(taking *t, stk_error *err)
{
    const size_t version = strlen(VERSION);

    if ((size_t)(t->end - t->at) < version || memcmp(t->at, VERSION, version) != 0)
        return differs(t, "is of another version than v1.2 of wds2idx");
    t->at += version;
    if (!stk__beside_number(&t->at, t->end, &t->lines) || !t->lines || t->at == t->end ||
        *t->at++ != '\n')
        return differs(t, "does not say how many samples there are");
    const uint64_t step = stk__divide_up(t->lines, LOOKED_AT);
    for (uint64_t i = 0; i < t->lines; i++)
        STK_TRY(take_line(t, i % step == 0, i + 1 == t->lines, err));
    return check_end(t, err);
}

/* Bytes of the name of the index without its ending: up to the first dot of the last name. */
static size_t stem_of(const char *key)
{
    const char *slash = strrchr(key, '/'), *name = slash ? slash + 1 : key;

    return *name ? (size_t)(name + 1 + strcspn(name + 1, ".") - key) : strlen(key);
}

stk_status stk__webdataset_list(stk__shard *shard, const stk__records_options *options,
                                bool *listed, stk_error *err)
{
    const char *key = stk__shard_key(shard);
    stk__brought index;
    stk_error ignored;

    *listed = false;
    /* What it says of a member takes less than the member's header. */
    stk_status status =
        stk__beside_load(shard, stem_of(key), stk__shard_size(shard), options, &index, err);
    taking *t = index.text ? stk__calloc(index.context, 1, sizeof *t) : NULL;
    if (t) {
        t->shard = shard;
        t->at = index.text;
        t->end = index.text + index.length;
        *listed = take_all(t, &ignored) == STK_OK;
        if (!*listed) {
            stk__beside_refuse(shard, &index, t->why ? t->why : "is not such as its shard can be");
            stk__shard_again(shard);
        }
    }
    if (t)
        stk__free(index.context, t);
    stk__beside_release(&index);
    return status;
}
