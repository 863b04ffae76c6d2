/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/tar.h"

void stk__tar_init(stk__tar *tar, stk__tar_source *source, void *user, const char *key)
{
    *tar = (stk__tar){.source = source, .user = user, .key = key};
}

static stk_status damaged(const stk__tar *tar, stk_status status, const char *what, stk_error *err)
{
    return stk__fail_at(err, status, STK_STAGE_DATASET, tar->key, tar->at,
                        "%s is no archive of tar that is whole: %s at byte %llu of what it unpacks "
                        "to; copy or download it again",
                        tar->key, what, (unsigned long long)tar->at);
}

/* `size` bytes that have to be there. */
static stk_status take(stk__tar *tar, void *out, uint64_t size, stk_error *err)
{
    uint64_t got = 0;

    STK_TRY(tar->source(tar->user, out, size, &got, err));
    if (got < size)
        return damaged(tar, STK_ETRUNCATED, "it ends", err);
    tar->at += size;
    return STK_OK;
}

static stk_status take_name(const stk__tar *tar, const stk__tar_head *head, stk__tar_entry *entry,
                            stk_error *err)
{
    memcpy(entry->name, head->name, sizeof entry->name);
    const size_t length = strlen(entry->name);
    /* Before there was a type of its own, the name told a folder. */
    if (length > 1 && entry->name[length - 1] == '/') {
        entry->name[length - 1] = 0;
        entry->is_folder = entry->is_folder || head->type == 0;
    }
    if (stk__tar_is_below(entry->name))
        return STK_OK;
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, tar->key, tar->at - STK__TAR_BLOCK,
                        "%s names '%.200s', which does not lie below the folder that it is "
                        "unpacked to; nothing of that name is written",
                        tar->key, entry->name);
}

/* What a header says. */
static stk_status take_head(stk__tar *tar, const unsigned char *bytes, stk__tar_entry *entry,
                            stk_error *err)
{
    stk__tar_head head;
    const char *what;

    memset(entry, 0, sizeof *entry);
    const stk_status status = stk__tar_head_read(bytes, &head, &what);
    if (status != STK_OK)
        return damaged(tar, status, what, err);
    const unsigned char type = head.type;
    entry->is_folder = type == '5';
    STK_TRY(take_name(tar, &head, entry, err));
    if (type != '0' && type != 0 && type != '5')
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, tar->key, tar->at - STK__TAR_BLOCK,
                            "%s holds '%.200s' of type '%c', which is neither a file nor a folder: "
                            "links, devices and extended headers are not unpacked",
                            tar->key, entry->name, type >= ' ' && type < 127 ? type : '?');
    if (!head.sized || head.binary)
        return damaged(tar, STK_EFORMAT, "a size that is no octal number", err);
    entry->size = head.size;
    if (entry->is_folder && entry->size)
        return damaged(tar, STK_EFORMAT, "a folder with bytes", err);
    return STK_OK;
}

/* Go over `length` bytes. */
static stk_status pass(stk__tar *tar, uint64_t length, stk_error *err)
{
    unsigned char bytes[8 * STK__TAR_BLOCK];

    while (length) {
        const uint64_t n = STK_MIN(length, sizeof bytes);
        STK_TRY(take(tar, bytes, n, err));
        length -= n;
    }
    return STK_OK;
}

stk_status stk__tar_next(stk__tar *tar, stk__tar_entry *entry, bool *found, stk_error *err)
{
    unsigned char head[STK__TAR_BLOCK];

    *found = false;
    /* A size has 12 octal digits at most: the sum is far from its end. */
    STK_TRY(pass(tar, tar->left + tar->tail, err));
    tar->left = tar->tail = 0;
    STK_TRY(take(tar, head, sizeof head, err));
    if (stk__all_zero(head, sizeof head)) {
        STK_TRY(take(tar, head, sizeof head, err));
        return stk__all_zero(head, sizeof head)
                   ? STK_OK
                   : damaged(tar, STK_EFORMAT, "one block of zeros and not two", err);
    }
    STK_TRY(take_head(tar, head, entry, err));
    tar->left = entry->size;
    tar->tail = stk__round_up(entry->size, STK__TAR_BLOCK) - entry->size;
    *found = true;
    return STK_OK;
}

stk_status stk__tar_read(stk__tar *tar, void *out, uint64_t size, stk_error *err)
{
    if (size > tar->left)
        return damaged(tar, STK_ETRUNCATED, "a file ends", err);
    STK_TRY(take(tar, out, size, err));
    tar->left -= size;
    return STK_OK;
}
