/* batches in the making */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_STEPS_H
#define STK_SRC_LOADER_STEPS_H

#include "base/base.h"
#include "dataset/dataset.h"
#include "loader/ring.h"
#include "loader/stall.h"

/*
 * A *step* is one batch of this rank being made. Steps are numbered from 0 without regard to
 * epochs: the *serial*. They live in a ring of `num` records, of which the first have slabs, so
 * that reads may be planned farther ahead than batches:
 *
 *     first <= slab_end <= located_end <= limit,   located_end - first <= num
 *
 * The planner makes records (located_end) and admits their rows (passed), workers fill the slabs,
 * the consumer takes the first when it is complete. A row is ready once, each time it is admitted,
 * and done once. (L) is the ring's lock.
 */

typedef struct stk__steps stk__steps;
typedef struct stk__step stk__step;

/* Rows that need the same are a group, of which the first, the leader, has the needs and is
 * admitted for all of them. They become ready together, and one task takes them. */
enum { STK__GROUP_ROWS = 256 };

/* Of a dataset that is gone through in order, rows that need the same stand one behind the other:
 * one entry of `rows`, the first of them, is all that there is of such a *run*, and one task takes
 * it. The entries of the others are made (parted) where something befalls one of them. */
enum { STK__RUN_ROWS = 4096 };

/* A need of a row, waiting for its unit. */
typedef struct stk__need_entry {
    stk_need need;
    struct stk__unit *unit;       /* NULL: no read (cached) or given back */
    struct stk__need_entry *next; /* (L) the next that waits for the unit */
    stk__step *step;
    uint32_t row;
} stk__need_entry;

/* In two cache lines, the first of which is all that most rows are looked at. */
typedef struct stk__row {
    uint64_t index, position;
    stk__need_entry *needs;
    stk_slice *slices; /* parallel to needs: what prepare() reads */
    stk_status status;
    uint32_t num_needs;
    uint32_t follows;  /* 1 + the leader of its group, whose needs it has; 0: they are its own */
    uint32_t follower; /* 1 + the next row of its group; 0: none */
    uint32_t group;    /* rows of the group that it leads; 0: it leads none */
    uint32_t run;      /* rows that it stands for, those behind it; 0 and 1: itself */
    uint32_t pending;  /* (L) units still to come */
    bool apart;        /* it failed before its group was read, which it left */
    bool parted;       /* (L) those of its run have entries of their own, and follow it */
    bool admitted;     /* the planner's: it asks for nothing any more */
    bool now;          /* its task reads its only need; still set behind that: it could not */

    const void *decoded; /* blob of the decoded cache, or NULL */
    const char *reason;
    uint64_t line;         /* of the object of its first need; 0: not known */
    uint64_t wanted, left; /* bytes, where they do not fit the budget, and what was left for them */
    uint64_t reserve; /* bytes of the pool that decoding it wants beyond the room of decoding */
    float cost;
    uint32_t bad_need;     /* (L) the need that failed */
    uint16_t tries;        /* substitutes drawn */
    uint8_t stage;         /* of the failure */
    bool bad;              /* a hole in the batch, or the failure of it */
    bool wants_substitute; /* (L) */
    bool located;          /* the planner's: the substitute was drawn */
    bool reserved;         /* (L) it has its reserve */
    bool late;             /* (L) and then it was put back */
} stk__row;
_Static_assert(offsetof(stk__row, decoded) == STK_CACHE_LINE, "its second line begins there");

/* Needs of a row that got a substitute: those of the step are in use and cannot move. */
typedef struct stk__extra {
    struct stk__extra *next;
    stk_slice *slices;
    stk__need_entry needs[];
} stk__extra;

void stk__extras_free(stk_context *ctx, stk__extra *extras);

struct stk__step {
    stk__steps *steps;
    uint64_t serial, epoch, step;
    stk_batch *slab; /* (L) NULL: not its turn yet */
    uint32_t num_rows;
    uint32_t admitted; /* rows whose reads were sent; the planner's */
    uint32_t done;     /* (L) rows prepared or given up */
    bool complete;     /* (L) the slab may be handed out */
    bool has_costs;
    bool has_units;  /* (L) some row was tied to a read */
    bool has_holes;  /* (L) some row is bad */
    bool has_groups; /* some rows share their needs */
    stk__row *rows;
    uint64_t *positions, *indices;   /* scratch of planning */
    uint32_t *ready;                 /* (L) ring of rows that wait for a worker */
    uint32_t ready_first, num_ready; /* (L) from the first on, round the end */
    stk__need_entry *needs;          /* of all rows, in order; fixed while any row waits */
    stk_slice *slices;
    uint32_t num_needs, room_needs;
    stk__extra *extras;
    uint64_t *ragged_bound, *ragged_size, *ragged_at; /* [row * num_ragged + field] */
    void *ragged;                                     /* from the pool */
    bool reserved;               /* the planner's: that room was found, or never will be */
    struct stk__bad_sample *bad; /* (L) in no order until delivery */
    uint32_t num_bad;            /* (L) also those there was no memory to note */
    uint64_t planned_ns;
    uint64_t room_ns;     /* (L) room was found after planning waited for it; 0: it did not */
    uint64_t complete_ns; /* (L) */
    stk__path path;       /* (L) */
};

struct stk__steps {
    stk__ring *ring;
    stk__step *records; /* serial modulo num */
    uint32_t num;
    uint64_t row_room;    /* rows that a record has room for */
    bool plain;           /* indices are the positions, and lie where they do */
    uint64_t horizon;     /* steps that reads are planned ahead of those with a slab */
    uint64_t first;       /* (L) serial of the oldest step not delivered */
    uint64_t slab_end;    /* (L) steps before it have a slab */
    uint64_t located_end; /* (L) steps before it are located */
    uint64_t passed;      /* (L) steps before it are admitted: it may lag behind */
    uint64_t limit;       /* (L) serial not to plan past */
    bool draining;        /* (L) no new work: a reset or the end is near */
    uint32_t tasks;       /* (L) threads at work on steps, without the planner */
};

static inline stk__step *stk__step_at(const stk__steps *steps, uint64_t serial)
{
    return &steps->records[serial % steps->num];
}

/* `num` records for steps of `row_room` rows; `plain` is set. STK_ENOMEM; stk__steps_release() is
 * due even then. */
stk_status stk__steps_init(stk__steps *steps, stk__ring *ring, uint32_t num, uint64_t row_room);
/* Keep the first `num` records; no step is in the making. */
void stk__steps_shrink(stk__steps *steps, uint32_t num);
void stk__steps_release(stk__steps *steps);
/* Make the entries of all rows, whose positions and indices are there. */
void stk__rows_begin(stk__step *step);
/* A row has all its bytes, or has failed: hand it to the workers, and with it those it leads. (L)
 * held. */
void stk__row_ready_locked(stk__step *step, uint32_t row);
/* The oldest step that has rows to be prepared; UINT64_MAX: none. (L) held. */
uint64_t stk__steps_ready_locked(const stk__steps *steps);
/* Attach free slabs to the oldest steps without one. (L) held. */
void stk__steps_attach_locked(stk__steps *steps);
/* The entry behind that of a row, among those that are there. The planner goes along those that it
 * made, by `run`; who holds (L), or the step alone, along all. */
static inline uint32_t stk__row_behind(const stk__step *step, uint32_t row)
{
    const stk__row *r = &step->rows[row];

    return row + (r->parted ? 1 : STK_MAX(r->run, 1));
}
/* Rows that a row is admitted and becomes ready for: its run, its group, or itself. */
static inline uint32_t stk__row_count(const stk__row *row)
{
    return STK_MAX(row->parted ? 1 : STK_MAX(row->group, row->run), 1);
}
/* Give each row of a run an entry; all of them are as the first. (L) held. */
void stk__row_part_locked(stk__step *step, uint32_t row);
/* A task has begun, or ended. (L) held. */
void stk__steps_begin_locked(stk__steps *steps);
void stk__steps_end_locked(stk__steps *steps);
void stk__row_fail(stk__row *row, stk_status status, const char *reason);

#endif
