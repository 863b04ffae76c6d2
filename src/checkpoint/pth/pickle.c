/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of Python's pickle [Lib/pickletools.py], with the opcodes that torch.save() writes
 * for tensors in containers. It keeps values by number in one array, so that a hostile pickle costs
 * a small multiple of its length and no recursion.
 */
#include "checkpoint/pth/machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

stk_status stk__pth_fail(stk__pth_machine *m, stk_status status, const char *format, ...)
{
    char what[384];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return stk__fail_at(m->err, status, STK_STAGE_TRAIN, m->path, (uint64_t)(m->at - m->begin),
                        "'%.200s' %s", m->path, what);
}

static stk_status damaged(stk__pth_machine *m, const char *what)
{
    return stk__pth_fail(m, STK_EFORMAT, "is damaged: its pickle %s at byte %" PRIu64, what,
                         (uint64_t)(m->at - m->begin));
}

static stk_status no_memory(stk__pth_machine *m)
{
    return stk__pth_fail(m, STK_ENOMEM, "needs more memory for its pickle than there is");
}

/* Room for one more of an array that has `count`, at most `most`. */
static stk_status room_for(stk__pth_machine *m, void *array, size_t *room, uint64_t count,
                           size_t size, uint32_t most, const char *what)
{
    void *grown;

    if (count >= most)
        return stk__pth_fail(m, STK_ELIMIT, "has more than %" PRIu32 " %s in its pickle", most,
                             what);
    memcpy(&grown, array, sizeof grown);
    grown = stk__grow(m->ctx, grown, room, count + 1, size);
    if (!grown)
        return no_memory(m);
    memcpy(array, &grown, sizeof grown);
    return STK_OK;
}

stk_status stk__pth_make(stk__pth_machine *m, stk__pth_value value, uint32_t *out)
{
    STK_TRY(room_for(m, &m->values, &m->value_room, (uint64_t)m->num_values + 1, sizeof value,
                     STK__PTH_MAX_VALUES, "objects"));
    m->values[++m->num_values] = value;
    if (out)
        *out = m->num_values;
    return STK_OK;
}

const stk__pth_value *stk__pth_item(const stk__pth_machine *m, const stk__pth_value *of, uint32_t i)
{
    uint32_t cell = of->items.first;

    if ((of->kind != STK__PTH_TUPLE && of->kind != STK__PTH_LIST) || i >= of->items.count)
        return NULL;
    while (i-- > 0)
        cell = m->cells[cell].next;
    return &m->values[m->cells[cell].value];
}

/* ---- The stack ---- */

static stk_status push(stk__pth_machine *m, uint32_t value)
{
    STK_TRY(room_for(m, &m->stack, &m->stack_room, m->num_stack, sizeof *m->stack,
                     STK__PTH_MAX_STACK, "objects on the stack"));
    m->stack[m->num_stack++] = value;
    return STK_OK;
}

static stk_status push_new(stk__pth_machine *m, stk__pth_value value)
{
    uint32_t number = 0;

    STK_TRY(stk__pth_make(m, value, &number));
    return push(m, number);
}

static stk_status push_number(stk__pth_machine *m, stk__pth_kind kind, int64_t number)
{
    return push_new(m, (stk__pth_value){.kind = (uint8_t)kind, .number = number});
}

/* Objects above the last mark: no opcode reaches below it. */
static uint32_t above_mark(const stk__pth_machine *m)
{
    return m->num_stack - (m->num_marks ? m->marks[m->num_marks - 1] : 0);
}

static stk_status pop(stk__pth_machine *m, uint32_t *out)
{
    if (above_mark(m) == 0)
        return damaged(m, "takes what is not there");
    *out = m->stack[--m->num_stack];
    return STK_OK;
}

/* The object on top has to be of a kind that grows. */
static stk_status top(stk__pth_machine *m, stk__pth_kind kind, uint32_t *out)
{
    if (above_mark(m) == 0 || m->values[m->stack[m->num_stack - 1]].kind != kind)
        return damaged(m, "adds to what does not grow");
    *out = m->stack[m->num_stack - 1];
    return STK_OK;
}

/* Append the objects from place `from` of the stack on, which are taken from it. */
static stk_status append(stk__pth_machine *m, uint32_t container, uint32_t from)
{
    for (uint32_t i = from; i < m->num_stack; i++) {
        STK_TRY(room_for(m, &m->cells, &m->cell_room, m->num_cells, sizeof *m->cells,
                         STK__PTH_MAX_VALUES, "items"));
        const uint32_t cell = m->num_cells++;
        stk__pth_value *v = &m->values[container];
        m->cells[cell] = (stk__pth_cell){.value = m->stack[i]};
        if (v->items.count++ == 0)
            v->items.first = cell;
        else
            m->cells[v->items.last].next = cell;
        v->items.last = cell;
    }
    m->num_stack = from;
    return STK_OK;
}

static stk_status mark(stk__pth_machine *m)
{
    STK_TRY(room_for(m, &m->marks, &m->mark_room, m->num_marks, sizeof *m->marks,
                     STK__PTH_MAX_STACK, "marks"));
    m->marks[m->num_marks++] = m->num_stack;
    return STK_OK;
}

/* Take the last mark; *from: the first object above it. */
static stk_status unmark(stk__pth_machine *m, uint32_t *from)
{
    if (m->num_marks == 0)
        return damaged(m, "ends what has not begun");
    *from = m->marks[--m->num_marks];
    return STK_OK;
}

/* A tuple of the objects from place `from` on takes their place. */
static stk_status tuple_from(stk__pth_machine *m, uint32_t from)
{
    uint32_t number = 0;

    STK_TRY(stk__pth_make(m, (stk__pth_value){.kind = STK__PTH_TUPLE}, &number));
    STK_TRY(append(m, number, from));
    return push(m, number);
}

static stk_status tuple(stk__pth_machine *m)
{
    uint32_t from = 0;

    STK_TRY(unmark(m, &from));
    return tuple_from(m, from);
}

static stk_status tuple_of(stk__pth_machine *m, uint32_t count)
{
    if (above_mark(m) < count)
        return damaged(m, "takes what is not there");
    return tuple_from(m, m->num_stack - count);
}

/* ---- Arguments of opcodes ---- */

static stk_status take(stk__pth_machine *m, uint64_t bytes, const uint8_t **out)
{
    if (bytes > (uint64_t)(m->end - m->at))
        return damaged(m, "ends within an object");
    *out = m->at;
    m->at += bytes;
    return STK_OK;
}

static stk_status take_number(stk__pth_machine *m, unsigned bytes, uint64_t *out)
{
    const uint8_t *at = NULL;

    STK_TRY(take(m, bytes, &at));
    *out = stk__little_endian(at, bytes);
    return STK_OK;
}

static stk_status take_text(stk__pth_machine *m, unsigned bytes)
{
    stk__pth_value value = {.kind = STK__PTH_TEXT};
    const uint8_t *at = NULL;
    uint64_t length = 0;

    STK_TRY(take_number(m, bytes, &length));
    STK_TRY(take(m, length, &at));
    value.text = (stk__pth_text){(const char *)at, (uint32_t)length};
    return push_new(m, value);
}

/* An integer of any length; those beyond 64 bits are none that a tensor has. */
static stk_status take_long(stk__pth_machine *m)
{
    const uint8_t *at = NULL;
    uint64_t bytes = 0, number = 0;

    STK_TRY(take_number(m, 1, &bytes));
    STK_TRY(take(m, bytes, &at));
    if (bytes > sizeof number)
        return push_number(m, STK__PTH_NONE, 0);
    for (uint64_t i = 0; i < sizeof number; i++)
        number |= (uint64_t)(i < bytes ? at[i] : bytes && at[bytes - 1] & 0x80 ? 0xff : 0) << 8 * i;
    return push_number(m, STK__PTH_INT, (int64_t)number);
}

static stk_status take_line(stk__pth_machine *m, stk__pth_text *out)
{
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));

    if (!end || end - m->at > STK__PTH_MAX_NAME)
        return damaged(m, "has a name without an end");
    *out = (stk__pth_text){(const char *)m->at, (uint32_t)(end - m->at)};
    m->at = end + 1;
    return STK_OK;
}

static stk_status take_global(stk__pth_machine *m)
{
    stk__pth_text module, name;
    stk__pth_value value;

    STK_TRY(take_line(m, &module));
    STK_TRY(take_line(m, &name));
    STK_TRY(stk__pth_find_global(m, module, name, &value));
    return push_new(m, value);
}

/* ---- The memo ---- */

static stk_status put(stk__pth_machine *m, uint64_t place)
{
    const size_t before = m->memo_room;

    if (above_mark(m) == 0)
        return damaged(m, "takes what is not there");
    STK_TRY(room_for(m, &m->memo, &m->memo_room, place, sizeof *m->memo, STK__PTH_MAX_VALUES,
                     "objects"));
    if (m->memo_room > before)
        memset(m->memo + before, 0, (m->memo_room - before) * sizeof *m->memo);
    m->memo[place] = m->stack[m->num_stack - 1];
    return STK_OK;
}

static stk_status get(stk__pth_machine *m, uint64_t place)
{
    if (place >= m->memo_room || !m->memo[place])
        return damaged(m, "takes what is not there");
    return push(m, m->memo[place]);
}

/* ---- Opcodes ---- */

static stk_status memo_op(stk__pth_machine *m, uint8_t op)
{
    uint64_t place = 0;

    STK_TRY(take_number(m, op == 'q' || op == 'h' ? 1 : 4, &place));
    return op == 'q' || op == 'r' ? put(m, place) : get(m, place);
}

static stk_status number_op(stk__pth_machine *m, uint8_t op)
{
    uint64_t number = 0;

    if (op == 0x8a) /* LONG1 */
        return take_long(m);
    STK_TRY(take_number(m, op == 'J' ? 4 : op == 'M' ? 2 : op == 'G' ? 8 : 1, &number));
    if (op == 'G') /* BINFLOAT */
        return push_number(m, STK__PTH_NONE, 0);
    return push_number(m, STK__PTH_INT, op == 'J' ? (int32_t)number : (int64_t)number);
}

static stk_status append_op(stk__pth_machine *m, uint8_t op)
{
    const stk__pth_kind kind = op == 'a' || op == 'e' ? STK__PTH_LIST : STK__PTH_DICT;
    uint32_t from = 0, container = 0, count = op == 'a' ? 1 : 2;

    if (op == 'a' || op == 's') {
        if (above_mark(m) < count)
            return damaged(m, "takes what is not there");
        from = m->num_stack - count;
    } else {
        STK_TRY(unmark(m, &from));
    }
    count = m->num_stack - from;
    if (kind == STK__PTH_DICT && count % 2)
        return damaged(m, "has a key without a value");
    m->num_stack = from;
    STK_TRY(top(m, kind, &container));
    m->num_stack += count;
    return append(m, container, from);
}

static stk_status object_op(stk__pth_machine *m, uint8_t op)
{
    uint32_t argument = 0, of = 0, made = 0;

    STK_TRY(pop(m, &argument));
    if (op == 'Q') { /* BINPERSID */
        STK_TRY(stk__pth_persistent(m, argument, &made));
        return push(m, made);
    }
    if (op == 'b') /* BUILD: attributes of a dictionary, as "_metadata", which say nothing here */
        return top(m, STK__PTH_DICT, &of);
    STK_TRY(pop(m, &of)); /* REDUCE */
    STK_TRY(stk__pth_reduce(m, of, argument, &made));
    return push(m, made);
}

static stk_status begin(stk__pth_machine *m)
{
    uint64_t protocol = 0;

    STK_TRY(take_number(m, 1, &protocol));
    if (protocol == 2 || protocol == 3)
        return STK_OK;
    return stk__pth_fail(m, STK_EKIND,
                         "is a pickle of protocol %" PRIu64
                         ": save it with the protocol of torch.save, 2",
                         protocol);
}

/* Objects that an opcode is, without arguments. *known: it is one of them. */
static stk_status plain_op(stk__pth_machine *m, uint8_t op, bool *known)
{
    *known = true;
    switch (op) {
    case 'N':
    case 0x88: /* NEWTRUE, NEWFALSE */
    case 0x89:
        return push_number(m, STK__PTH_NONE, 0);
    case ')':
        return push_new(m, (stk__pth_value){.kind = STK__PTH_TUPLE});
    case ']':
        return push_new(m, (stk__pth_value){.kind = STK__PTH_LIST});
    case '}':
        return push_new(m, (stk__pth_value){.kind = STK__PTH_DICT});
    case 't':
        return tuple(m);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        return tuple_of(m, op - 0x84u);
    default:
        *known = false;
        return STK_OK;
    }
}

static stk_status run_op(stk__pth_machine *m, uint8_t op)
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
    case 'X': /* BINUNICODE, BINSTRING */
    case 'T':
        return take_text(m, 4);
    case 'U': /* SHORT_BINSTRING */
        return take_text(m, 1);
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
    case 'R':
    case 'b':
        return object_op(m, op);
    default:
        return stk__pth_fail(m, STK_EKIND,
                             "holds more than tensors: its pickle has the opcode 0x%02x, which is "
                             "not run" STK__PTH_REMEDY,
                             op);
    }
}

static stk_status run(stk__pth_machine *m, uint32_t *root)
{
    while (m->at < m->end) {
        const uint8_t op = *m->at++;
        if (op != '.') {
            STK_TRY(run_op(m, op));
            continue;
        }
        if (m->num_stack != 1 || m->num_marks || m->at != m->end)
            return damaged(m, "ends with more than one object");
        *root = m->stack[0];
        return STK_OK;
    }
    return damaged(m, "has no end");
}

stk_status stk__pth_pickle_parse(stk_context *ctx, const uint8_t *bytes, size_t length,
                                 const char *path, stk__pth_tensors *out, stk_error *err)
{
    stk__pth_machine m = {
        .ctx = ctx, .begin = bytes, .at = bytes, .end = bytes + length, .path = path, .err = err};
    uint32_t root = 0;

    *out = (stk__pth_tensors){0};
    stk_status status = run(&m, &root);
    if (status == STK_OK)
        status = stk__pth_select(&m, root, out);
    stk__free(ctx, m.values);
    stk__free(ctx, m.cells);
    stk__free(ctx, m.stack);
    stk__free(ctx, m.marks);
    stk__free(ctx, m.memo);
    return status;
}
