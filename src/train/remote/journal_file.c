/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that is read while it grows, and the mark of how far it was sent. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/durable.h"
#include "base/lines.h"
#include "train/remote/journal.h"

#define READ_BYTES (UINT64_C(64) << 10)
#define MARK_MOST  4096

static stk_status no_memory(const char *path, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to read '%.300s'", path);
}

/* ---- Reading ---- */

stk_status stk__run_journal_open(stk_context *ctx, const char *path, uint64_t offset,
                                 stk__run_journal_reader *out, stk_error *err)
{
    *out = (stk__run_journal_reader){
        .ctx = ctx, .path = path, .offset = offset, .text = {.ctx = ctx}, .from = offset};
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    return out->fd < 0 ? stk__durable_fail(err, "read", path, errno) : STK_OK;
}

void stk__run_journal_close(stk__run_journal_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    stk__bytes_release(&r->text);
    r->fd = -1;
}

void stk__run_journal_seek(stk__run_journal_reader *r, uint64_t offset)
{
    if (offset < r->from || offset > r->from + r->text.length) {
        r->from = offset;
        r->text.length = 0;
    }
    r->offset = offset;
}

/* Have more of the file behind what is there; *more: there was some. */
static stk_status read_more(stk__run_journal_reader *r, uint64_t end, bool *more, stk_error *err)
{
    const size_t taken = (size_t)(r->offset - r->from);
    ssize_t n;

    if (taken > 0 && r->text.length > taken)
        memmove(r->text.data, r->text.data + taken, r->text.length - taken);
    r->text.length -= STK_MIN(r->text.length, taken);
    r->from = r->offset;
    const uint64_t at = r->from + r->text.length;
    const size_t want = (size_t)STK_MIN(end > at ? end - at : 0, READ_BYTES);
    *more = false;
    if (want == 0)
        return STK_OK;
    if (!stk__bytes_reserve(&r->text, want))
        return no_memory(r->path, err);
    do
        n = pread(r->fd, r->text.data + r->text.length, want, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return stk__durable_fail(err, "read", r->path, errno);
    r->text.length += (size_t)n;
    *more = n > 0;
    return STK_OK;
}

stk_status stk__run_journal_next(stk__run_journal_reader *r, uint64_t end, const char **line,
                                 size_t *length, stk_error *err)
{
    size_t looked = 0;
    bool more = true;

    while (more) {
        const size_t at = (size_t)(r->offset - r->from);
        const char *from = r->text.data ? r->text.data + at : NULL;
        const size_t left = r->text.length > at ? r->text.length - at : 0;
        const char *stop = left > looked ? memchr(from + looked, '\n', left - looked) : NULL;
        if (stop) {
            *line = from;
            *length = (size_t)(stop - from);
            r->offset += *length + 1;
            return STK_OK;
        }
        if (left > STK__JSON_MAX_BYTES) /* no line that a document could be of: pass it over */
            r->offset += left;
        looked = left > STK__JSON_MAX_BYTES ? 0 : left;
        STK_TRY(read_more(r, end, &more, err));
    }
    return STK_EOS;
}

/* ---- The mark ---- */

static stk_status read_small(stk_context *ctx, const char *url, char text[MARK_MOST],
                             stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    text[0] = 0;
    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, err);
    if (status == STK_OK)
        status = stk_store_stat(store, key, NULL, &info, err);
    if (status == STK_OK && info.size > 0 && info.size < MARK_MOST)
        status = stk_store_read(store, key, 0, info.size, text, err);
    stk_store_close(&store);
    if (status == STK_OK && info.size < MARK_MOST)
        text[info.size] = 0;
    return status;
}

stk_status stk__run_journal_mark_read(stk_context *ctx, const char *path,
                                      stk__run_journal_mark *out, stk_error *err)
{
    char *texts[5] = {NULL};
    char text[MARK_MOST];
    uint64_t offset = 0;
    const stk__line lines[] = {
        {.key = "journal", .kind = STK__LINE_TEXT, .to = &texts[0]},
        {.key = "offset", .kind = STK__LINE_UINT, .to = &offset},
        {.key = "server", .kind = STK__LINE_TEXT, .to = &texts[1]},
        {.key = "run", .kind = STK__LINE_TEXT, .to = &texts[2]},
        {.key = "experiment", .kind = STK__LINE_TEXT, .to = &texts[3]},
        {.key = "artifacts", .kind = STK__LINE_TEXT, .to = &texts[4]},
    };
    stk_error own;

    *out = (stk__run_journal_mark){.offset = 0};
    stk_status status = read_small(ctx, path, text, err);
    if (status == STK_ENOENT)
        return STK_OK;
    STK_TRY(status);
    status = stk__lines_read(ctx, "the mark of a journal", text, lines, STK_COUNT(lines), &own);
    if (status == STK_OK && strlen(texts[0]) == STK__RUN_JOURNAL_ID - 1) {
        out->offset = offset;
        snprintf(out->id, sizeof out->id, "%s", texts[0]);
        snprintf(out->uri, sizeof out->uri, "%s", texts[1]);
        snprintf(out->run, sizeof out->run, "%s", texts[2]);
        snprintf(out->experiment, sizeof out->experiment, "%s", texts[3]);
        snprintf(out->artifacts, sizeof out->artifacts, "%s", texts[4]);
    }
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        stk__free(ctx, texts[i]);
    return status == STK_ENOMEM ? stk__fail(err, status, own.stage, "%s", own.text) : STK_OK;
}

stk_status stk__run_journal_mark_write(stk_context *ctx, const char *path,
                                       const stk__run_journal_mark *mark, stk_error *err)
{
    stk__text text = {.ctx = ctx};

    stk__text_add(&text,
                  "journal %s\noffset %" PRIu64 "\nserver %s\nrun %s\nexperiment %s\n"
                  "artifacts %s\n",
                  mark->id, mark->offset, mark->uri, mark->run, mark->experiment, mark->artifacts);
    const stk_status status = text.failed
                                  ? no_memory(path, err)
                                  : stk_put_bytes(ctx, path, text.bytes, text.length, NULL, err);
    stk__text_release(&text);
    return status;
}
