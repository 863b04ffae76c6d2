/* SPDX-License-Identifier: Apache-2.0 */
/* An answer as it comes: its head held against the request, its body to where it belongs. */
#include "store/http/room.h"

#define HEAD_MOST (UINT64_C(64) << 10)
/* Bytes in front of a range that are read in vain where a server knows no ranges. */
#define SKIP_MOST (UINT64_C(64) << 20)

void stk__http_try_fail(stk__http_try *t, stk_status status, stk__http_again again, const char *why)
{
    if (t->status != STK_OK)
        return;
    t->status = status;
    t->again = again;
    t->why = why;
}

static uint64_t size_of(const stk__http_try *t)
{
    const stk__http_exchange *x = t->job->exchange;

    if (t->head.code == 206 || t->head.code == 416)
        return t->head.total;
    const bool whole = strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0;
    return whole && t->head.code == 200 ? t->head.length : STK__HTTP_UNSAID;
}

/* What the head says of the object; false: it is another one than before. */
static bool reckon(stk__http_try *t)
{
    stk__http_job *job = t->job;
    stk__http_exchange *x = job->exchange;
    const stk__http_head *head = &t->head;
    const uint64_t size = size_of(t),
                   identity = stk__http_identity(head->etag, size, head->mtime_ns);

    if (x->pinned && identity != x->pinned)
        return false;
    if (job->reckoned) {
        const bool unsaid = size == STK__HTTP_UNSAID || x->size == STK__HTTP_UNSAID;
        if (identity != x->identity || (size != x->size && !unsaid))
            return false;
        x->size = STK_MIN(size, x->size);
        return true;
    }
    job->reckoned = true;
    x->identity = identity;
    x->size = size;
    x->mtime_ns = head->mtime_ns;
    memcpy(x->etag, head->etag, sizeof x->etag);
    memcpy(x->content_type, head->content_type, sizeof x->content_type);
    return true;
}

/* A 206 to a request with a range. */
static void judge_range(stk__http_try *t)
{
    const stk__http_exchange *x = t->job->exchange;
    const stk__http_head *head = &t->head;
    const uint64_t last = x->offset + x->length - 1;

    if (head->first != t->from || head->last > last) {
        stk__http_try_fail(t, STK_EIO, STK__HTTP_TRANSIENT,
                           "the answer is of another range than was asked for");
        return;
    }
    t->left = head->last - head->first + 1;
    t->capped = true;
    if (head->length != STK__HTTP_UNSAID && head->length != t->left)
        stk__http_try_fail(t, STK_EIO, STK__HTTP_TRANSIENT,
                           "the length of the answer is not that of its range");
    else if (head->last < last && head->total != STK__HTTP_UNSAID &&
             head->last + 1 == head->total && !x->up_to)
        stk__http_try_fail(t, STK_ETRUNCATED, STK__HTTP_FINAL, "the object ends within the range");
}

/* A 200 to a request with a range: the whole object. */
static void judge_whole(stk__http_try *t)
{
    const stk__http_exchange *x = t->job->exchange;
    const uint64_t end = x->offset + x->length;

    if (t->head.encoded) {
        stk__http_try_fail(t, STK_ENOTSUP, STK__HTTP_FINAL,
                           "the server packs what it sends and takes no ranges");
        return;
    }
    if (t->from > SKIP_MOST) {
        stk__http_try_fail(t, STK_ENOTSUP, STK__HTTP_FINAL,
                           "the server takes no ranges, and the bytes lie beyond the first 64 MiB");
        return;
    }
    if (t->head.length != STK__HTTP_UNSAID && t->head.length < end && !x->up_to) {
        stk__http_try_fail(t, STK_ETRUNCATED, STK__HTTP_FINAL, "the object ends within the range");
        return;
    }
    t->skip = t->from;
    t->left = end - t->from;
}

/* Where the last bytes begin, by the first head that says how many there are. */
static bool place_suffix(stk__http_try *t)
{
    stk__http_exchange *x = t->job->exchange;

    if (x->size == STK__HTTP_UNSAID)
        stk__http_try_fail(t, STK_ENOTSUP, STK__HTTP_FINAL,
                           "the server does not say how long the object is");
    else if (x->size < x->length)
        stk__http_try_fail(t, STK_ETRUNCATED, STK__HTTP_FINAL,
                           "the object is shorter than what is wanted of its end");
    else
        x->offset = t->from = x->size - x->length;
    return t->status == STK_OK;
}

/* Every head, once it is complete. */
static void judge_head(stk__http_try *t)
{
    stk__http_exchange *x = t->job->exchange;
    const int32_t code = t->head.code;

    t->judged = true;
    x->code = code;
    memcpy(x->region, t->head.region, sizeof x->region);
    x->date_ns = t->head.date_ns;
    if (code < 200 || code >= 300) {
        t->body = STK__HTTP_JUDGE;
        return;
    }
    if (strcmp(x->method, "PUT") == 0 || strcmp(x->method, "HEAD") == 0 || !x->data)
        t->body = strcmp(x->method, "HEAD") == 0 ? STK__HTTP_DROP : STK__HTTP_TEXT;
    else
        t->body = STK__HTTP_DATA;
    /* A range of which nothing is said says nothing of the object. */
    if (code == 206 && t->body == STK__HTTP_DATA && !t->head.has_range) {
        stk__http_try_fail(t, STK_EIO, STK__HTTP_TRANSIENT, "the answer does not say its range");
        return;
    }
    if (!reckon(t)) {
        stk__http_try_fail(t, STK_ECHANGED, STK__HTTP_FINAL, "the object has changed");
        return;
    }
    if (t->body != STK__HTTP_DATA || (t->suffix && !place_suffix(t)))
        return;
    if (code == 206)
        judge_range(t);
    else if (code == 200)
        judge_whole(t);
    else
        stk__http_try_fail(t, STK_EIO, STK__HTTP_TRANSIENT, "the answer is none to a range");
}

/* How late is late may be known now, also of requests that went out before: they are looked at. */
static void note_pace(const stk__http_try *t)
{
    stk__http_pace *pace = &t->client->host->pace;
    const uint64_t before = stk__http_pace_late(pace);

    stk__http_pace_came(pace, t->first_ns - t->sent_ns);
    if (stk__http_pace_late(pace) < before)
        stk__http_loop_due(t->client->loop, t->first_ns);
}

size_t stk__http_on_line(char *line, size_t size, size_t count, void *user)
{
    stk__http_try *t = user;
    const size_t length = size * count;
    stk__http_loop *loop = t->client->loop;

    if (!t->first_ns) {
        t->first_ns = t->mark_ns = t->moved_ns = stk__now_ns();
        if (t->sent_ns && !t->job->exchange->body_length)
            note_pace(t);
        stk__http_loop_due(loop,
                           t->first_ns + STK_MIN(t->client->stall_ns,
                                                 stk__http_pace_quiet(&t->client->host->pace)));
    }
    t->head_bytes += length;
    t->moved += length;
    if (t->head_bytes > HEAD_MOST) {
        stk__http_try_fail(t, STK_ELIMIT, STK__HTTP_FINAL, "its head is longer than 64 KiB");
        return 0;
    }
    const bool before = t->head.complete;
    stk__http_head_line(&t->head, line, length);
    if (t->head.complete && !before && t->head.code >= 200)
        judge_head(t);
    return t->status == STK_OK ? length : 0;
}

/* ---- The body ---- */

/* Room for `more` bytes behind what `text` has, and a zero. */
static bool grow_text(stk__http_try *t, size_t more)
{
    stk__http_job *job = t->job;
    stk__http_exchange *x = job->exchange;
    uint64_t end;

    if (!stk__add_size(job->got, more, &end) || end > x->most) {
        stk__http_try_fail(t, STK_ELIMIT, STK__HTTP_FINAL, "the answer is longer than is taken");
        return false;
    }
    char *grown = stk__grow(t->client->context, x->text, &job->text_room, end + 1, 1);
    if (!grown) {
        stk__http_try_fail(t, STK_ENOMEM, STK__HTTP_FINAL, "no memory for the answer");
        return false;
    }
    x->text = grown;
    return true;
}

static bool take_text(stk__http_try *t, const char *data, size_t length)
{
    stk__http_job *job = t->job;

    if (!grow_text(t, length))
        return false;
    memcpy(job->exchange->text + job->got, data, length);
    job->got += length;
    job->exchange->text[job->got] = 0;
    return true;
}

static bool take_judged(stk__http_try *t, const char *data, size_t length)
{
    stk__http_job *job = t->job;

    if (!job->judged)
        job->judged = stk__alloc(t->client->context, STK__HTTP_JUDGED + 1);
    if (!job->judged)
        return true; /* the code says enough */
    const size_t taken = STK_MIN(length, STK__HTTP_JUDGED - job->judged_length);
    memcpy(job->judged + job->judged_length, data, taken);
    job->judged_length += taken;
    job->judged[job->judged_length] = 0;
    if (taken < length)
        t->enough = true;
    return !t->enough;
}

static bool take_data(stk__http_try *t, const char *data, size_t length)
{
    stk__http_job *job = t->job;
    const uint64_t skipped = STK_MIN(t->skip, length);

    t->skip -= skipped;
    data += skipped;
    length -= (size_t)skipped;
    if (length > t->left && t->capped) {
        stk__http_try_fail(t, STK_EIO, STK__HTTP_TRANSIENT, "more bytes came than were announced");
        return false;
    }
    const size_t taken = (size_t)STK_MIN(length, t->left);
    memcpy((char *)job->exchange->data + job->got, data, taken);
    job->got += taken;
    t->left -= taken;
    t->enough = !t->capped && t->left == 0;
    return !t->enough;
}

size_t stk__http_on_body(char *data, size_t size, size_t count, void *user)
{
    stk__http_try *t = user;
    stk__http_job *job = t->job;
    const size_t length = size * count;
    bool good;

    if (!length)
        return 0;
    t->moved += length;
    const uint64_t now = stk__now_ns();
    t->rest_ns = STK_MAX(t->rest_ns, now - t->moved_ns);
    t->moved_ns = now;
    if (!t->judged || t->status != STK_OK || (job->winner && job->winner != t))
        return 0;
    /* Failures do not win: the other may bring the bytes. */
    if (t->body == STK__HTTP_DATA || t->body == STK__HTTP_TEXT)
        job->winner = t;
    switch (t->body) {
    case STK__HTTP_DATA:
        good = take_data(t, data, length);
        break;
    case STK__HTTP_TEXT:
        good = take_text(t, data, length);
        break;
    case STK__HTTP_JUDGE:
        good = take_judged(t, data, length);
        break;
    default:
        good = true;
    }
    if (job->exchange->secret)
        explicit_bzero(data, length);
    return good ? length : 0;
}
