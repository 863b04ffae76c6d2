/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opcodes are those that torch.save() writes for tensors in containers, and NumPy for arrays.
 * Values are kept by number in one array, so that a hostile pickle costs a small multiple of its
 * length and no recursion.
 */
#include "base/pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define BLOCK_BYTES (UINT64_C(256) << 10) /* of a source, at a time */

stk_status stk__pickle_fail(stk__pickle *m, stk_status status, const char *format, ...)
{
    char what[384];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return stk__fail_at(m->err, status, m->of->stage, m->path, stk__pickle_offset(m), "'%.200s' %s",
                        m->path, what);
}

uint64_t stk__pickle_offset(const stk__pickle *m)
{
    return m->base + (uint64_t)(m->at - m->begin);
}

const char *stk__pickle_show(stk__pickle_text text, char out[STK__PICKLE_SHOWN])
{
    const size_t n = STK_MIN(text.length, STK__PICKLE_SHOWN - 1u);

    for (size_t i = 0; i < n; i++)
        out[i] = text.at[i] >= 0x20 && text.at[i] < 0x7f ? text.at[i] : '?';
    out[n] = 0;
    return out;
}

static stk_status damaged(stk__pickle *m, const char *what)
{
    return stk__pickle_fail(m, STK_EFORMAT, "is damaged: its pickle %s at byte %" PRIu64 "; %s",
                            what, stk__pickle_offset(m), m->of->again);
}

static stk_status no_memory(stk__pickle *m)
{
    return stk__pickle_fail(m, STK_ENOMEM, "needs more memory for its pickle than there is");
}

/* Room for one more of an array that has `count`, at most `most`. */
static stk_status room_for(stk__pickle *m, void *array, size_t *room, uint64_t count, size_t size,
                           uint32_t most, const char *what)
{
    void *grown;

    if (count >= most)
        return stk__pickle_fail(m, STK_ELIMIT, "has more than %" PRIu32 " %s in its pickle", most,
                                what);
    memcpy(&grown, array, sizeof grown);
    grown = stk__grow(m->ctx, grown, room, count + 1, size);
    if (!grown)
        return no_memory(m);
    memcpy(array, &grown, sizeof grown);
    return STK_OK;
}

stk_status stk__pickle_make(stk__pickle *m, stk__pickle_value value, uint32_t *out)
{
    STK_TRY(room_for(m, &m->values, &m->value_room, (uint64_t)m->num_values + 1, sizeof value,
                     m->of->max_values, "objects"));
    m->values[++m->num_values] = value;
    if (out)
        *out = m->num_values;
    return STK_OK;
}

const stk__pickle_value *stk__pickle_any_item(const stk__pickle *m, const stk__pickle_value *of,
                                              uint32_t i)
{
    uint32_t cell = of->items.first;

    if ((of->kind != STK__PICKLE_TUPLE && of->kind != STK__PICKLE_LIST) || i >= of->items.count)
        return NULL;
    while (i-- > 0)
        cell = m->cells[cell].next;
    return &m->values[m->cells[cell].value];
}

const stk__pickle_value *stk__pickle_item(const stk__pickle *m, const stk__pickle_value *of,
                                          uint32_t i, unsigned kind)
{
    const stk__pickle_value *v = stk__pickle_any_item(m, of, i);

    return v && v->kind == kind ? v : NULL;
}

bool stk__pickle_is(stk__pickle_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

const stk__pickle_value *stk__pickle_find(const stk__pickle *m, const stk__pickle_value *dict,
                                          const char *key)
{
    const stk__pickle_value *found = NULL;
    uint32_t cell = dict->items.first;

    /* Of keys that are there twice the last counts, as in Python. */
    for (uint32_t i = 0; i < dict->items.count; i += 2) {
        const stk__pickle_cell *k = &m->cells[cell], *v = &m->cells[k->next];
        const stk__pickle_value *name = &m->values[k->value];
        if (name->kind == STK__PICKLE_TEXT && stk__pickle_is(name->text, key))
            found = &m->values[v->value];
        cell = v->next;
    }
    return found;
}

/* ---- The stack ---- */

static stk_status push(stk__pickle *m, uint32_t value)
{
    STK_TRY(room_for(m, &m->stack, &m->stack_room, m->num_stack, sizeof *m->stack,
                     STK__PICKLE_MAX_STACK, "objects on the stack"));
    m->stack[m->num_stack++] = value;
    return STK_OK;
}

static stk_status push_new(stk__pickle *m, stk__pickle_value value)
{
    uint32_t number = 0;

    STK_TRY(stk__pickle_make(m, value, &number));
    return push(m, number);
}

static stk_status push_number(stk__pickle *m, stk__pickle_kind kind, int64_t number)
{
    return push_new(m, (stk__pickle_value){.kind = (uint8_t)kind, .number = number});
}

/* Objects above the last mark: no opcode reaches below it. */
static uint32_t above_mark(const stk__pickle *m)
{
    return m->num_stack - (m->num_marks ? m->marks[m->num_marks - 1] : 0);
}

static stk_status pop(stk__pickle *m, uint32_t *out)
{
    if (above_mark(m) == 0)
        return damaged(m, "takes what is not there");
    *out = m->stack[--m->num_stack];
    return STK_OK;
}

/* The object on top has to be of a kind that grows. */
static stk_status top(stk__pickle *m, stk__pickle_kind kind, uint32_t *out)
{
    if (above_mark(m) == 0 || m->values[m->stack[m->num_stack - 1]].kind != kind)
        return damaged(m, "adds to what does not grow");
    *out = m->stack[m->num_stack - 1];
    return STK_OK;
}

/* Append the objects from place `from` of the stack on, which are taken from it. */
static stk_status append(stk__pickle *m, uint32_t container, uint32_t from)
{
    for (uint32_t i = from; i < m->num_stack; i++) {
        STK_TRY(room_for(m, &m->cells, &m->cell_room, m->num_cells, sizeof *m->cells,
                         m->of->max_values, "items"));
        const uint32_t cell = m->num_cells++;
        stk__pickle_value *v = &m->values[container];
        m->cells[cell] = (stk__pickle_cell){.value = m->stack[i]};
        if (v->items.count++ == 0)
            v->items.first = cell;
        else
            m->cells[v->items.last].next = cell;
        v->items.last = cell;
    }
    m->num_stack = from;
    return STK_OK;
}

static stk_status mark(stk__pickle *m)
{
    STK_TRY(room_for(m, &m->marks, &m->mark_room, m->num_marks, sizeof *m->marks,
                     STK__PICKLE_MAX_STACK, "marks"));
    m->marks[m->num_marks++] = m->num_stack;
    return STK_OK;
}

/* Take the last mark; *from: the first object above it. */
static stk_status unmark(stk__pickle *m, uint32_t *from)
{
    if (m->num_marks == 0)
        return damaged(m, "ends what has not begun");
    *from = m->marks[--m->num_marks];
    return STK_OK;
}

/* A tuple of the objects from place `from` on takes their place. */
static stk_status tuple_from(stk__pickle *m, uint32_t from)
{
    uint32_t number = 0;

    STK_TRY(stk__pickle_make(m, (stk__pickle_value){.kind = STK__PICKLE_TUPLE}, &number));
    STK_TRY(append(m, number, from));
    return push(m, number);
}

static stk_status tuple(stk__pickle *m)
{
    uint32_t from = 0;

    STK_TRY(unmark(m, &from));
    return tuple_from(m, from);
}

static stk_status tuple_of(stk__pickle *m, uint32_t count)
{
    if (above_mark(m) < count)
        return damaged(m, "takes what is not there");
    return tuple_from(m, m->num_stack - count);
}

/* ---- Arguments of opcodes ---- */

/* Bytes from here to the end. */
static uint64_t left(const stk__pickle *m)
{
    return m->source ? m->source->length - stk__pickle_offset(m) : (uint64_t)(m->end - m->at);
}

/* Read the next piece of the source, which has at least `bytes` more. Earlier ones stay: texts lie
 * in them. */
static stk_status read_block(stk__pickle *m, uint64_t bytes)
{
    const uint64_t at = stk__pickle_offset(m);
    const uint64_t length = STK_MAX(bytes, STK_MIN(left(m), BLOCK_BYTES));

    STK_TRY(room_for(m, &m->blocks, &m->block_room, m->num_blocks, sizeof *m->blocks, UINT32_MAX,
                     "pieces"));
    if (length > m->of->max_bytes - STK_MIN(m->block_bytes, m->of->max_bytes))
        return stk__pickle_fail(m, STK_ELIMIT,
                                "has more than %" PRIu32 " bytes beside its long texts",
                                m->of->max_bytes);
    uint8_t *block = stk__alloc(m->ctx, (size_t)length);
    if (!block)
        return no_memory(m);
    m->blocks[m->num_blocks++] = block;
    m->block_bytes += length;
    STK_TRY(m->source->read(m->source->user, at, length, block, m->err));
    m->base = at;
    m->begin = m->at = block;
    m->end = block + length;
    return STK_OK;
}

static stk_status need(stk__pickle *m, uint64_t bytes)
{
    if (bytes <= (uint64_t)(m->end - m->at))
        return STK_OK;
    if (bytes > left(m))
        return damaged(m, "ends within an object");
    return read_block(m, bytes);
}

static stk_status take(stk__pickle *m, uint64_t bytes, const uint8_t **out)
{
    STK_TRY(need(m, bytes));
    *out = m->at;
    m->at += bytes;
    return STK_OK;
}

/* A text that stays where it is. */
static stk_status skip_text(stk__pickle *m, uint64_t length)
{
    const uint64_t at = stk__pickle_offset(m), here = (uint64_t)(m->end - m->at);

    if (length > left(m))
        return damaged(m, "ends within an object");
    m->at += STK_MIN(length, here);
    if (length > here) {
        m->base = at + length;
        m->begin = m->at = m->end;
    }
    return push_new(m, (stk__pickle_value){.kind = STK__PICKLE_FAR,
                                           .far = {.offset = at, .length = (uint32_t)length}});
}

static stk_status take_number(stk__pickle *m, unsigned bytes, uint64_t *out)
{
    const uint8_t *at = NULL;

    STK_TRY(take(m, bytes, &at));
    *out = stk__little_endian(at, bytes);
    return STK_OK;
}

static stk_status take_text(stk__pickle *m, unsigned bytes)
{
    stk__pickle_value value = {.kind = STK__PICKLE_TEXT};
    const uint8_t *at = NULL;
    uint64_t length = 0;

    STK_TRY(take_number(m, bytes, &length));
    if (m->source && length > STK__PICKLE_NEAR)
        return skip_text(m, length);
    STK_TRY(take(m, length, &at));
    value.text = (stk__pickle_text){(const char *)at, (uint32_t)length};
    return push_new(m, value);
}

/* An integer of any length; those beyond 64 bits are none that a tensor has. */
static stk_status take_long(stk__pickle *m)
{
    const uint8_t *at = NULL;
    uint64_t bytes = 0, number = 0;

    STK_TRY(take_number(m, 1, &bytes));
    STK_TRY(take(m, bytes, &at));
    if (bytes > sizeof number)
        return push_number(m, STK__PICKLE_NONE, 0);
    for (uint64_t i = 0; i < sizeof number; i++)
        number |= (uint64_t)(i < bytes ? at[i] : bytes && at[bytes - 1] & 0x80 ? 0xff : 0) << 8 * i;
    return push_number(m, STK__PICKLE_INT, (int64_t)number);
}

static stk_status take_line(stk__pickle *m, stk__pickle_text *out)
{
    STK_TRY(need(m, STK_MIN(left(m), STK__PICKLE_MAX_NAME + 1u)));
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));

    if (!end || end - m->at > STK__PICKLE_MAX_NAME)
        return damaged(m, "has a name without an end");
    *out = (stk__pickle_text){(const char *)m->at, (uint32_t)(end - m->at)};
    m->at = end + 1;
    return STK_OK;
}

static stk_status take_global(stk__pickle *m)
{
    char a[STK__PICKLE_SHOWN], b[STK__PICKLE_SHOWN];
    const uint64_t at = stk__pickle_offset(m) - 1;
    stk__pickle_text module, name;

    STK_TRY(take_line(m, &module));
    STK_TRY(take_line(m, &name));
    for (size_t i = 0; i < m->of->num_names; i++) {
        const stk__pickle_name *n = &m->of->names[i];
        if (stk__pickle_is(module, n->module) && stk__pickle_is(name, n->name))
            return push_new(m, (stk__pickle_value){.kind = STK__PICKLE_GLOBAL,
                                                   .global = n->global,
                                                   .dtype = n->dtype});
    }
    return stk__pickle_fail(
        m, STK_EKIND,
        "%s: it names '%s.%s', which is neither looked up nor run (byte %" PRIu64 "); %s",
        m->of->more, stk__pickle_show(module, a), stk__pickle_show(name, b), at, m->of->remedy);
}

/* ---- The memo ---- */

static stk_status put(stk__pickle *m, uint64_t place)
{
    const size_t before = m->memo_room;

    if (above_mark(m) == 0)
        return damaged(m, "takes what is not there");
    STK_TRY(
        room_for(m, &m->memo, &m->memo_room, place, sizeof *m->memo, m->of->max_values, "objects"));
    if (m->memo_room > before)
        memset(m->memo + before, 0, (m->memo_room - before) * sizeof *m->memo);
    m->memo[place] = m->stack[m->num_stack - 1];
    return STK_OK;
}

static stk_status get(stk__pickle *m, uint64_t place)
{
    if (place >= m->memo_room || !m->memo[place])
        return damaged(m, "takes what is not there");
    return push(m, m->memo[place]);
}

/* ---- Opcodes ---- */

static stk_status memo_op(stk__pickle *m, uint8_t op)
{
    uint64_t place = 0;

    STK_TRY(take_number(m, op == 'q' || op == 'h' ? 1 : 4, &place));
    return op == 'q' || op == 'r' ? put(m, place) : get(m, place);
}

static stk_status number_op(stk__pickle *m, uint8_t op)
{
    uint64_t number = 0;

    if (op == 0x8a) /* LONG1 */
        return take_long(m);
    STK_TRY(take_number(m, op == 'J' ? 4 : op == 'M' ? 2 : op == 'G' ? 8 : 1, &number));
    if (op == 'G') /* BINFLOAT */
        return push_number(m, STK__PICKLE_NONE, 0);
    return push_number(m, STK__PICKLE_INT, op == 'J' ? (int32_t)number : (int64_t)number);
}

static stk_status append_op(stk__pickle *m, uint8_t op)
{
    const stk__pickle_kind kind = op == 'a' || op == 'e' ? STK__PICKLE_LIST : STK__PICKLE_DICT;
    uint32_t from = 0, container = 0, count = op == 'a' ? 1 : 2;

    if (op == 'a' || op == 's') {
        if (above_mark(m) < count)
            return damaged(m, "takes what is not there");
        from = m->num_stack - count;
    } else {
        STK_TRY(unmark(m, &from));
    }
    count = m->num_stack - from;
    if (kind == STK__PICKLE_DICT && count % 2)
        return damaged(m, "has a key without a value");
    m->num_stack = from;
    STK_TRY(top(m, kind, &container));
    m->num_stack += count;
    return append(m, container, from);
}

static stk_status object_op(stk__pickle *m, uint8_t op)
{
    uint32_t argument = 0, of = 0, made = 0;

    STK_TRY(pop(m, &argument));
    if (op == 'Q') { /* BINPERSID */
        STK_TRY(m->of->persistent(m, argument, &made));
        return push(m, made);
    }
    if (op == 'b') { /* BUILD: attributes of a dictionary, as "_metadata", say nothing here */
        if (!m->of->build || above_mark(m) == 0)
            return top(m, STK__PICKLE_DICT, &of);
        return m->of->build(m, m->stack[m->num_stack - 1], argument);
    }
    STK_TRY(pop(m, &of)); /* REDUCE */
    STK_TRY(m->of->reduce(m, of, argument, &made));
    return push(m, made);
}

static stk_status begin(stk__pickle *m)
{
    uint64_t protocol = 0;

    STK_TRY(take_number(m, 1, &protocol));
    if (protocol == 2 || protocol == 3)
        return STK_OK;
    return stk__pickle_fail(m, STK_EKIND, "is a pickle of protocol %" PRIu64 ": %s", protocol,
                            m->of->protocol);
}

/* Objects that an opcode and what is behind it are. *known: it is one of them. */
static stk_status plain_op(stk__pickle *m, uint8_t op, bool *known)
{
    *known = true;
    switch (op) {
    case 'N':
    case 0x88: /* NEWTRUE, NEWFALSE */
    case 0x89:
        return push_number(m, STK__PICKLE_NONE, op == 0x88);
    case ')':
        return push_new(m, (stk__pickle_value){.kind = STK__PICKLE_TUPLE});
    case ']':
        return push_new(m, (stk__pickle_value){.kind = STK__PICKLE_LIST});
    case '}':
        return push_new(m, (stk__pickle_value){.kind = STK__PICKLE_DICT});
    case 't':
        return tuple(m);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        return tuple_of(m, op - 0x84u);
    case 'X': /* BINUNICODE, BINSTRING, BINBYTES */
    case 'T':
    case 'B':
        return take_text(m, 4);
    case 'U': /* SHORT_BINSTRING, SHORT_BINBYTES */
    case 'C':
        return take_text(m, 1);
    default:
        *known = false;
        return STK_OK;
    }
}

static stk_status unknown_op(stk__pickle *m, uint8_t op)
{
    return stk__pickle_fail(m, STK_EKIND,
                            "%s: its pickle has the opcode 0x%02x, which is not run (byte %" PRIu64
                            "); %s",
                            m->of->more, op, stk__pickle_offset(m) - 1, m->of->remedy);
}

static stk_status run_op(stk__pickle *m, uint8_t op)
{
    bool known;

    STK_TRY(plain_op(m, op, &known));
    if (known)
        return STK_OK;
    switch (op) {
    case 0x80:
        return begin(m);
    case '(':
        return mark(m);
    case 'K':
    case 'M':
    case 'J':
    case 'G':
    case 0x8a:
        return number_op(m, op);
    case 'c':
        return take_global(m);
    case 'a':
    case 'e':
    case 's':
    case 'u':
        return append_op(m, op);
    case 'q':
    case 'r':
    case 'h':
    case 'j':
        return memo_op(m, op);
    case 'Q':
        return m->of->persistent ? object_op(m, op) : unknown_op(m, op);
    case 'R':
    case 'b':
        return object_op(m, op);
    default:
        return unknown_op(m, op);
    }
}

stk_status stk__pickle_run(stk__pickle *m, uint32_t *root)
{
    while (left(m) > 0) {
        const uint8_t *op = NULL;
        STK_TRY(take(m, 1, &op));
        if (*op != 0x80 && stk__pickle_offset(m) == 1)
            return stk__pickle_fail(m, STK_EKIND, "is no pickle of protocol 2 or 3: %s",
                                    m->of->protocol);
        if (*op != '.') {
            STK_TRY(run_op(m, *op));
            continue;
        }
        if (m->num_stack != 1 || m->num_marks || left(m) > 0)
            return damaged(m, "ends with more than one object");
        *root = m->stack[0];
        return STK_OK;
    }
    return damaged(m, "has no end");
}

void stk__pickle_release(stk__pickle *m)
{
    for (uint32_t i = 0; i < m->num_blocks; i++)
        stk__free(m->ctx, m->blocks[i]);
    stk__free(m->ctx, m->blocks);
    stk__free(m->ctx, m->values);
    stk__free(m->ctx, m->cells);
    stk__free(m->ctx, m->stack);
    stk__free(m->ctx, m->marks);
    stk__free(m->ctx, m->memo);
}
