/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes of random trees, written by a plain encoder: the entropy decoder gives back all
 * coefficients and consumes all bits, whatever the lengths of the codes, with and without vectors,
 * also where blocks are skipped.
 */
#include <stdlib.h>

#include "codec/image/entropy.h"

#include "support/support.h"

#define BLOCKS      240
#define MCU         3 /* blocks of an MCU here */
#define ROW         (BLOCKS / MCU)
#define SYMBOLS_DC  12
#define SEGMENT_MAX (BLOCKS * STK__BLOCK_COEFFICIENTS * 8)

/* A code: lengths and bits of each symbol. */
typedef struct code {
    uint8_t counts[STK__HUFFMAN_LENGTHS], symbols[STK__HUFFMAN_SYMBOLS];
    uint32_t length[STK__HUFFMAN_SYMBOLS], bits[STK__HUFFMAN_SYMBOLS], num_symbols;
} code;

typedef struct writer {
    uint8_t *data;
    size_t size;
    uint64_t bits;
    uint32_t count;
} writer;

static void put(writer *w, uint32_t bits, uint32_t count)
{
    w->bits = w->bits << count | bits;
    for (w->count += count; w->count >= 8; w->count -= 8) {
        uint8_t byte = (uint8_t)(w->bits >> (w->count - 8));
        w->data[w->size++] = byte;
        if (byte == 0xff)
            w->data[w->size++] = 0;
    }
}

/* A random tree of `n` symbols; the longest code, which would be all ones, is not used. Bushy trees
 * have codes of all lengths. */
static void draw_code(code *c, const uint8_t *symbols, uint32_t n, uint64_t *seed)
{
    uint32_t depth[STK__HUFFMAN_SYMBOLS + 1] = {0}, leaves = 1;
    bool bushy = test_random(seed) % 2;

    while (leaves <= n) {
        uint32_t i = (uint32_t)(test_random(seed) % leaves);
        if (bushy && test_random(seed) % 4)
            i = leaves - 1;
        if (depth[i] == STK__HUFFMAN_LENGTHS)
            continue;
        depth[leaves++] = ++depth[i];
    }
    *c = (code){.num_symbols = n};
    uint32_t longest = 0;
    for (uint32_t i = 1; i < leaves; i++)
        longest = depth[i] > depth[longest] ? i : longest;
    depth[longest] = depth[n];
    for (uint32_t i = 0; i < n; i++)
        c->counts[depth[i] - 1]++;
    memcpy(c->symbols, symbols, n);
    for (uint32_t i = n - 1; i > 0; i--) { /* in a random order */
        uint32_t j = (uint32_t)(test_random(seed) % (i + 1));
        uint8_t kept = c->symbols[i];
        c->symbols[i] = c->symbols[j];
        c->symbols[j] = kept;
    }
    uint32_t next = 0, at = 0;
    for (uint32_t length = 1; length <= STK__HUFFMAN_LENGTHS; length++, next <<= 1)
        for (uint32_t i = 0; i < c->counts[length - 1]; i++, at++) {
            c->length[c->symbols[at]] = length;
            c->bits[c->symbols[at]] = next++;
        }
}

static void put_symbol(writer *w, const code *c, uint32_t symbol)
{
    assert_true(c->length[symbol] > 0);
    put(w, c->bits[symbol], c->length[symbol]);
}

static void put_value(writer *w, int32_t value, uint32_t size)
{
    put(w, (uint32_t)(value < 0 ? value - 1 : value) & ((1u << size) - 1), size);
}

static int32_t draw_value(uint32_t size, uint64_t *seed)
{
    int32_t least = size ? 1 << (size - 1) : 0;
    int32_t value = least + (int32_t)(test_random(seed) % (uint32_t)STK_MAX(least, 1));

    return size && test_random(seed) % 2 ? -value : value;
}

/* One block, into the writer and as its coefficients. */
static void draw_block(writer *w, const code *dc, const code *ac, uint32_t kind, int32_t *before,
                       int16_t *out, uint64_t *seed)
{
    uint32_t size = (uint32_t)(test_random(seed) % SYMBOLS_DC), k = 1;
    int32_t difference = draw_value(size, seed);

    memset(out, 0, STK__BLOCK_COEFFICIENTS * sizeof *out);
    put_symbol(w, dc, size);
    put_value(w, difference, size);
    *before += difference;
    out[stk__places[1]] = (int16_t)*before;
    while (k < STK__BLOCK_COEFFICIENTS) {
        uint32_t symbol = ac->symbols[test_random(seed) % ac->num_symbols];
        if (kind == 0) /* flat ones */
            symbol = 0;
        if (kind == 1 && symbol == 0) /* full ones */
            continue;
        uint32_t run = symbol >> 4;
        size = symbol & 15;
        if (symbol == 0) {
            put_symbol(w, ac, 0);
            return;
        }
        if (k + run >= STK__BLOCK_COEFFICIENTS) {
            if (kind != 1)
                continue;
            symbol &= 15;
            run = 0;
            if (!size || !ac->length[symbol])
                continue;
        }
        put_symbol(w, ac, symbol);
        int32_t value = draw_value(size, seed);
        put_value(w, value, size);
        k += run + 1;
        if (size)
            out[stk__places[k]] = (int16_t)value;
    }
}

/* What the inverse transform is given, by block. */
static int16_t seen[BLOCKS][STK__BLOCK_COEFFICIENTS];
static uint8_t samples[BLOCKS * 64];

static void catch_block(int16_t *coefficients, const int16_t *quantisers, uint8_t *out,
                        size_t stride)
{
    size_t block = (size_t)(out - samples) / 64;

    assert_true(block < BLOCKS && stride == 8 && quantisers[0] == 1);
    memcpy(seen[block], coefficients, sizeof seen[block]);
    memset(coefficients, 0, sizeof seen[block]);
}

typedef struct rig {
    code dc[2], ac[2];
    stk__huffman_dc made_dc[2];
    stk__huffman_ac made_ac[2];
    int16_t quantisers[STK__BLOCK_COEFFICIENTS];
    int16_t coefficients[BLOCKS][STK__BLOCK_COEFFICIENTS];
    stk__entropy entropy;
    uint8_t segment[STK__SEGMENT_ROOM], data[SEGMENT_MAX];
} rig;

static void draw_codes(rig *r, uint32_t ac_symbols, uint64_t *seed)
{
    uint8_t dc[SYMBOLS_DC], ac[STK__HUFFMAN_SYMBOLS];
    uint32_t n;

    for (uint32_t i = 0; i < SYMBOLS_DC; i++)
        dc[i] = (uint8_t)i;
    for (uint32_t t = 0; t < 2; t++) {
        draw_code(&r->dc[t], dc, SYMBOLS_DC, seed);
        ac[0] = 0; /* the end and a value without a run are always there */
        ac[1] = 1;
        for (n = 2; n < ac_symbols;) {
            uint8_t any = (uint8_t)test_random(seed);
            bool valid = any == 0xf0 || any & 15;
            if (valid && !memchr(ac, any, n))
                ac[n++] = any;
        }
        draw_code(&r->ac[t], ac, n, seed);
        assert_true(stk__huffman_make_dc(
            &r->made_dc[t],
            &(stk__huffman_spec){r->dc[t].counts, r->dc[t].symbols, r->dc[t].num_symbols}));
        assert_true(stk__huffman_make_ac(
            &r->made_ac[t],
            &(stk__huffman_spec){r->ac[t].counts, r->ac[t].symbols, r->ac[t].num_symbols}));
    }
}

static void write_blocks(rig *r, writer *w, int32_t before[MCU], uint64_t *seed)
{
    memset(before, 0, MCU * sizeof *before);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t t = i % MCU > 0, kind = (uint32_t)(test_random(seed) % 5);
        draw_block(w, &r->dc[t], &r->ac[t], kind, &before[i % MCU], r->coefficients[i], seed);
    }
    if (w->count)
        put(w, (1u << (8 - w->count)) - 1, 8 - w->count);
    memcpy(w->data + w->size, "\xff\xd9", 2);
    w->size += 2;
}

static void set_up(rig *r, const writer *w, bool avx2, uint32_t first, uint32_t count)
{
    stk__entropy *e = &r->entropy;

    memset(e, 0, sizeof *e);
    e->segment = r->segment;
    e->idct = catch_block;
    e->unstuff = stk__unstuff;
#ifdef STK_WITH_AVX2
    e->unstuff = avx2 ? stk__unstuff_avx2 : stk__unstuff;
#endif
    e->num_blocks = MCU;
    for (uint32_t i = 0; i < MCU; i++)
        e->blocks[i] = (stk__mcu_block){.dc = &r->made_dc[i > 0],
                                        .ac = &r->made_ac[i > 0],
                                        .quantisers = r->quantisers,
                                        .dc_before = &e->dc_before[i],
                                        .out = samples + ((size_t)first * MCU + i) * 64,
                                        .stride = 8,
                                        .step = (size_t)MCU * 64,
                                        .first = first,
                                        .count = count};
    for (uint32_t i = 0; i < STK__BLOCK_COEFFICIENTS; i++)
        r->quantisers[i] = 1;
    memset(seen, 0x55, sizeof seen);
    stk__entropy_start(e, w->data, w->data + w->size);
}

/* Decode the MCUs in two calls and compare those that were wanted. */
static void check(rig *r, const writer *w, const int32_t before[MCU], bool avx2, uint32_t first,
                  uint32_t count)
{
    stk__decode_mcus_fn *decode = stk__decode_mcus;
    stk__entropy *e = &r->entropy;
    uint8_t flat[64];

#ifdef STK_WITH_AVX2
    decode = avx2 ? stk__decode_mcus_avx2 : decode;
#endif
    set_up(r, w, avx2, first, count);
    assert_int_equal(decode(e, 0, 7), STK__ENTROPY_OK);
    assert_int_equal(decode(e, 7, ROW - 7), STK__ENTROPY_OK);
    while (!e->ended)
        assert_true(stk__entropy_more(e));
    assert_true(stk__entropy_left(e) >= 0 && stk__entropy_left(e) < 8);
    assert_int_equal(e->marker, 0xd9);
    assert_memory_equal(e->dc_before, before, sizeof e->dc_before);
    for (uint32_t i = first * MCU; i < (first + count) * MCU; i++) {
        const int16_t *wanted = r->coefficients[i];
        bool is_flat = true;
        for (uint32_t j = 1; j < STK__BLOCK_COEFFICIENTS; j++)
            is_flat = is_flat && !wanted[j];
        if (!is_flat) {
            assert_memory_equal(seen[i], wanted, sizeof seen[i]);
            continue;
        }
        /* Either way of transforming it is well: an end may follow runs of zeros. */
        stk__idct_flat(wanted[0], flat, 8);
        if (memcmp(seen[i], wanted, sizeof seen[i]) != 0)
            assert_memory_equal(samples + (size_t)i * 64, flat, sizeof flat);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (i < first * MCU || i >= (first + count) * MCU)
            assert_int_equal(seen[i][0], 0x5555);
    /* One more finds no bits. */
    stk__entropy_result result = decode(e, 0, 1);
    assert_true(result != STK__ENTROPY_OK || stk__entropy_left(e) < 0);
}

static bool with_avx2(void)
{
    stk_context *ctx = test_context();
    bool yes = stk__cpu_has_avx2(ctx);

    stk_context_destroy(&ctx);
    return yes;
}

static void test_random_codes(void **state)
{
    bool avx2 = with_avx2();
    rig *r = calloc(1, sizeof *r);
    uint64_t seed = 17;
    int32_t before[MCU];

    assert_non_null(r);
    for (uint32_t i = 0; i < 150; i++) {
        static const uint32_t sizes[] = {2, 3, 5, 9, 20, 60, 162, 226};
        writer w = {.data = r->data};
        draw_codes(r, sizes[i % STK_COUNT(sizes)], &seed);
        write_blocks(r, &w, before, &seed);
        assert_true(w.size < SEGMENT_MAX);
        uint32_t first = (uint32_t)(test_random(&seed) % ROW);
        uint32_t count = 1 + (uint32_t)(test_random(&seed) % (ROW - first));
        for (int with = 0; with <= avx2; with++) {
            check(r, &w, before, with, 0, ROW);
            check(r, &w, before, with, first, count);
        }
    }
    free(r);
}

/* Cut anywhere, or with codes that are none: found out, whatever is behind. */
static void test_damage(void **state)
{
    bool avx2 = with_avx2();
    rig *r = calloc(1, sizeof *r);
    uint64_t seed = 3;
    int32_t before[MCU];

    assert_non_null(r);
    writer w = {.data = r->data};
    draw_codes(r, 60, &seed);
    write_blocks(r, &w, before, &seed);
    for (size_t n = 0; n + 2 < w.size; n += 1 + n / 50) {
        uint8_t *cut = malloc(n + 1); /* just so long, for sanitizers */
        memcpy(cut, w.data, n);
        writer shorter = {.data = cut, .size = n};
        for (int with = 0; with <= avx2; with++) {
            stk__decode_mcus_fn *decode = stk__decode_mcus;
#ifdef STK_WITH_AVX2
            decode = with ? stk__decode_mcus_avx2 : decode;
#endif
            set_up(r, &shorter, with, 0, ROW);
            stk__entropy_result result = decode(&r->entropy, 0, ROW);
            assert_true(result != STK__ENTROPY_OK || stk__entropy_left(&r->entropy) < 0);
        }
        free(cut);
    }
    /* All ones are no code. */
    memset(r->data, 0xff, 400);
    for (size_t i = 1; i < 400; i += 2)
        r->data[i] = 0;
    w.size = 400;
    set_up(r, &w, avx2, 0, ROW);
    assert_int_equal(stk__decode_mcus(&r->entropy, 0, ROW), STK__ENTROPY_BAD_CODE);
    free(r);
}

/* As libjpeg has it, a run beyond the end puts the value into the last coefficient. */
static void test_run_beyond_the_end(void **state)
{
    static const uint8_t symbols[] = {0, 1, 0xf1};
    rig *r = calloc(1, sizeof *r);
    bool avx2 = with_avx2();
    uint64_t seed = 5;

    assert_non_null(r);
    for (uint32_t turn = 0; turn < 40; turn++) {
        writer w = {.data = r->data};
        draw_codes(r, 2, &seed);
        for (uint32_t t = 0; t < 2; t++) {
            draw_code(&r->ac[t], symbols, 3, &seed);
            assert_true(stk__huffman_make_ac(
                &r->made_ac[t], &(stk__huffman_spec){r->ac[t].counts, r->ac[t].symbols, 3}));
        }
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const code *ac = &r->ac[i % MCU > 0];
            uint32_t ones = i % 14, k = 1;
            put_symbol(&w, &r->dc[i % MCU > 0], 0);
            memset(r->coefficients[i], 0, sizeof r->coefficients[i]);
            for (uint32_t j = 0; k < STK__BLOCK_COEFFICIENTS; j++) {
                uint32_t symbol = j < ones ? 1 : 0xf1;
                put_symbol(&w, ac, symbol);
                put(&w, 1, 1);
                k += (symbol >> 4) + 1;
                r->coefficients[i][stk__places[STK_MIN(k, 64)]] = 1;
            }
        }
        put(&w, 0x7f, 7);
        memcpy(w.data + w.size, "\xff\xd9", 2);
        w.size += 2;
        for (int with = 0; with <= avx2; with++)
            check(r, &w, (int32_t[MCU]){0}, with, 0, ROW);
    }
    free(r);
}

/* Tables that are none. */
static void test_impossible_tables(void **state)
{
    static const struct {
        uint8_t counts[STK__HUFFMAN_LENGTHS];
        uint32_t num_symbols;
    } rows[] = {
        {{2}, 2},             /* the second one is all ones */
        {{3}, 3},             /* more than there are */
        {{1, 2}, 3},          /* all ones, of two bits */
        {{0, 0, 8}, 8},       /* of three */
        {{1, 1, 1, 2}, 5},    /* of four */
        {{1, 1}, 3},          /* symbols without codes */
        {{1, 1, 1}, 2},       /* codes without symbols */
        {{0, 5, 0, 0, 1}, 6}, /* more than there are */
    };
    stk__huffman_dc *dc = calloc(1, sizeof *dc);
    stk__huffman_ac *ac = calloc(1, sizeof *ac);
    uint8_t symbols[STK__HUFFMAN_SYMBOLS];

    assert_true(dc && ac);
    for (uint32_t i = 0; i < sizeof symbols; i++)
        symbols[i] = (uint8_t)i;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__huffman_spec spec = {rows[i].counts, symbols, rows[i].num_symbols};
        assert_false(stk__huffman_make_dc(dc, &spec));
        assert_false(stk__huffman_make_ac(ac, &spec));
        assert_int_equal(ac->num_symbols, 0);
    }
    symbols[0] = 16; /* of a difference */
    stk__huffman_spec spec = {(const uint8_t[STK__HUFFMAN_LENGTHS]){1}, symbols, 1};
    assert_false(stk__huffman_make_dc(dc, &spec));
    assert_true(stk__huffman_make_ac(ac, &spec));
    /* The same again is kept, another one made. */
    ac->entries[0] ^= 1;
    uint32_t kept = ac->entries[0];
    assert_true(stk__huffman_make_ac(ac, &spec) && ac->entries[0] == kept);
    symbols[0] = 1;
    assert_true(stk__huffman_make_ac(ac, &spec) && ac->entries[0] != kept);
    free(dc);
    free(ac);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_codes),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_run_beyond_the_end),
        cmocka_unit_test(test_impossible_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
