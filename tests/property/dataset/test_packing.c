/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of random lengths, of which token i of the file has the value i: packs have every token
 * once, windows are those that a loop over the documents gives, and positions, documents, masks and
 * targets are what follows from the values alone. From memory and by range, with an index and by
 * the token that ends documents.
 */
#include "unit/dataset/tokens.h"

#define ROUNDS 200

typedef struct plan {
    int64_t length, stride, pad, ignore;
    uint64_t max_documents, block, seed;
    bool target, narrow, remote;
} plan;

static uint64_t seed = 20261128;
static tokens_model m;
static uint32_t document[1 << 18]; /* of each token, counting those that are not empty */
static unsigned char seen[1 << 18];
static unsigned char bytes[5 << 20];

static uint64_t pick(uint64_t low, uint64_t high)
{
    return low + test_random(&seed) % (high - low + 1);
}

static uint32_t draw_length(unsigned kind, uint64_t length)
{
    switch (kind) {
    case 0: /* many tiny */
        return (uint32_t)pick(0, 3);
    case 1: /* all equal */
        return (uint32_t)(length / 2 + 1);
    case 2: /* full packs, and one more or less */
        return (uint32_t)(length * pick(1, 2) + pick(0, 2) - 1);
    case 3: /* some far longer */
        return (uint32_t)(pick(0, 9) ? pick(1, length) : pick(length, 9 * length));
    default:
        return (uint32_t)pick(0, length);
    }
}

static plan draw_plan(void)
{
    static const uint64_t blocks[] = {1, 2, 7, 64, 4096};
    const plan p = {.length = (int64_t)pick(1, 64),
                    .stride = (int64_t)pick(1, 70),
                    .pad = (int64_t)pick(0, 2) - 1,
                    .ignore = pick(0, 1) ? -100 : -7,
                    .max_documents = pick(0, 1) ? 0 : pick(1, 5),
                    .block = blocks[pick(0, 4)],
                    .seed = pick(0, 3),
                    .target = pick(0, 1),
                    .narrow = pick(0, 1),
                    .remote = pick(0, 1)};

    return p;
}

static void draw_model(const plan *p)
{
    const unsigned kind = (unsigned)pick(0, 5);
    uint32_t number = 0;

    m.docs = (uint32_t)pick(1, pick(0, 3) ? 40 : 700);
    m.count = 0;
    for (uint32_t d = 0; d < m.docs; d++) {
        m.length[d] = draw_length(kind, (uint64_t)p->length);
        if (d == m.docs - 1 && m.count == 0 && m.length[d] == 0)
            m.length[d] = 1;
        for (uint32_t i = 0; i < m.length[d]; i++)
            document[m.count++] = number;
        number += m.length[d] > 0;
    }
    document[m.count] = UINT32_MAX;
    assert_true(m.count < sizeof seen);
}

/* Values are places; `eod` >= 0: the last of each document has that value. */
static void put_files(stk_context *ctx, int64_t eod)
{
    size_t at = 0;

    for (uint64_t i = 0; i < m.count; i++)
        at = tokens_number(bytes, at,
                           eod >= 0 && document[i] != document[i + 1] ? (uint64_t)eod : i, 4);
    tokens_put(ctx, eod >= 0 ? "eod.bin" : "x.bin", bytes, at);
    if (eod < 0)
        tokens_put(ctx, "x.idx", bytes, tokens_index(&m, 4, 4, bytes));
}

static stk_dataset *open_mode(stk_context *ctx, const plan *p, const char *mode, const char *file,
                              const char *more)
{
    char spec[400];
    stk_dataset *d = NULL;
    stk_error err;
    int n = snprintf(spec, sizeof spec,
                     "tokens:%smem://t/%s?length=%lld&target=%d&output=%s&documents=%s%s",
                     p->remote ? "slow+" : "", file, (long long)p->length, p->target,
                     p->narrow ? "int32" : "int64", mode, more);

    if (p->target)
        n += snprintf(spec + n, sizeof spec - (size_t)n, "&ignore=%lld", (long long)p->ignore);
    if (strcmp(mode, "mark") != 0)
        n += snprintf(spec + n, sizeof spec - (size_t)n, "&pad=%lld", (long long)p->pad);
    if (!strcmp(mode, "pack"))
        snprintf(spec + n, sizeof spec - (size_t)n,
                 "&max_documents=%llu&pack_block=%llu&pack_seed=%llu",
                 (unsigned long long)p->max_documents, (unsigned long long)p->block,
                 (unsigned long long)p->seed);
    else
        snprintf(spec + n, sizeof spec - (size_t)n, "&stride=%lld", (long long)p->stride);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

/* What follows from the tokens of a sample, of which `n` are real. Returns its documents. */
static int64_t check_marks(const plan *p, const tokens_sample *s, int64_t n)
{
    int64_t number = 0, position = 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = s->tokens[i];
        const bool goes_on = i && v == s->tokens[i - 1] + 1 && document[v] == document[v - 1],
                   next = document[v + 1] == document[v];
        position = goes_on ? position + 1 : 0;
        number += !goes_on;
        assert_int_equal(s->positions[i], position);
        assert_int_equal(s->documents[i], number);
        assert_int_equal(s->mask[i], next && (p->target || i + 1 < n));
        if (p->target)
            assert_int_equal(s->target[i], next ? v + 1 : p->ignore);
    }
    for (int64_t i = n; i < p->length; i++) {
        assert_int_equal(s->tokens[i], p->pad);
        assert_int_equal(s->positions[i], 0);
        assert_int_equal(s->documents[i], 0);
        assert_int_equal(s->mask[i], 0);
        if (p->target)
            assert_int_equal(s->target[i], p->ignore);
    }
    return number;
}

/* Of the packs that first fit makes in a block one at most is not more than half full. */
static void check_block(const plan *p, uint64_t packs, uint64_t tokens)
{
    if (!p->max_documents)
        assert_true(packs * (uint64_t)p->length <= 2 * tokens + (uint64_t)p->length);
}

/* Blocks come one after the other, and their packs by their first tokens. */
static void check_pack(stk_context *ctx, const plan *p)
{
    stk_dataset *d = open_mode(ctx, p, "pack", "x.idx", "");
    uint64_t tokens = 0, block = 0, in_block = 0, packs = 0;
    int64_t before = -1;
    tokens_sample s;

    memset(seen, 0, m.count);
    for (uint64_t k = 0; k < d->size; k++, packs++) {
        int64_t n = 0;
        assert_int_equal(tokens_take(d, k, &s), STK_OK);
        while (n < p->length && s.documents[n])
            n++;
        assert_true(n > 0);
        const int64_t number = check_marks(p, &s, n);
        assert_true(!p->max_documents || (uint64_t)number <= p->max_documents);
        assert_int_equal(s.needs, p->remote ? number : 0);
        assert_true(s.tokens[0] > before);
        before = s.tokens[0];
        if (block != document[before] / p->block) {
            check_block(p, packs, in_block);
            block = document[before] / p->block;
            in_block = packs = 0;
        }
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(document[s.tokens[i]] / p->block, block);
            assert_int_equal(seen[s.tokens[i]]++, 0);
        }
        tokens += (uint64_t)n;
        in_block += (uint64_t)n;
    }
    check_block(p, packs, in_block);
    assert_int_equal(tokens, m.count);
    stk_dataset_close(&d);
}

static void check_split(stk_context *ctx, const plan *p)
{
    stk_dataset *d = open_mode(ctx, p, "split", "x.bin", "");
    uint64_t first = 0, k = 0;
    tokens_sample s;

    for (uint32_t i = 0; i < m.docs; first += m.length[i++])
        for (int64_t at = 0; at < m.length[i]; at += p->stride) {
            const int64_t n = STK_MIN(p->length, (int64_t)m.length[i] - at);
            assert_true(k < d->size);
            assert_int_equal(tokens_take(d, k++, &s), STK_OK);
            for (int64_t j = 0; j < n; j++)
                assert_int_equal(s.tokens[j], (int64_t)first + at + j);
            assert_int_equal(check_marks(p, &s, n), 1);
            if (at + p->length >= m.length[i])
                break;
        }
    assert_int_equal(k, d->size);
    stk_dataset_close(&d);
}

static void check_mark(stk_context *ctx, const plan *p)
{
    if (m.count < (uint64_t)p->length + p->target)
        return;
    stk_dataset *d = open_mode(ctx, p, "mark", "x", "");
    tokens_sample s;

    assert_int_equal(d->size,
                     (m.count - (uint64_t)p->length - p->target) / (uint64_t)p->stride + 1);
    for (uint64_t k = 0; k < d->size; k++) {
        assert_int_equal(tokens_take(d, k, &s), STK_OK);
        for (int64_t j = 0; j < p->length; j++)
            assert_int_equal(s.tokens[j], (int64_t)k * p->stride + j);
        check_marks(p, &s, p->length);
    }
    stk_dataset_close(&d);
}

static void test_samples(void **state)
{
    stk_context *ctx = test_context();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const plan p = draw_plan();
        draw_model(&p);
        put_files(ctx, -1);
        check_pack(ctx, &p);
        check_split(ctx, &p);
        check_mark(ctx, &p);
    }
    stk_context_destroy(&ctx);
}

/* The token that ends documents says the same as an index: but for its own value. */
static void test_by_token(void **state)
{
    static const char *const modes[] = {"pack", "split"};
    const int64_t eod = 4000000;
    stk_context *ctx = test_context();
    tokens_sample a, b;

    (void)state;
    for (int round = 0; round < ROUNDS / 4; round++) {
        const plan p = draw_plan();
        draw_model(&p);
        put_files(ctx, -1);
        put_files(ctx, eod);
        stk_dataset *x = open_mode(ctx, &p, modes[round % 2], "x.bin", ""),
                    *y = open_mode(ctx, &p, modes[round % 2], "eod.bin",
                                   "&dtype=uint32&eod=4000000");
        assert_int_equal(x->size, y->size);
        for (uint64_t k = 0; k < x->size; k++) {
            assert_int_equal(tokens_take(x, k, &a), STK_OK);
            assert_int_equal(tokens_take(y, k, &b), STK_OK);
            for (int64_t i = 0; i < p.length; i++)
                if (a.documents[i] && document[a.tokens[i]] != document[a.tokens[i] + 1])
                    a.tokens[i] = eod;
            for (int64_t i = 0; p.target && i < p.length; i++)
                if (a.mask[i] && document[a.target[i]] != document[a.target[i] + 1])
                    a.target[i] = eod;
            assert_memory_equal(&a, &b, sizeof a);
        }
        stk_dataset_close(&x);
        stk_dataset_close(&y);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples),
                                       cmocka_unit_test(test_by_token)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
