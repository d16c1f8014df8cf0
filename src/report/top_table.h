/*
 * report/top_table.h: what the files of the live view share: a line, a column, and a table of them.
 */
#ifndef LP_REPORT_TOP_TABLE_H
#define LP_REPORT_TOP_TABLE_H

#include "report/format.h"
#include "report/top.h"

enum lp_top_kind { LP_TOP_LINE_ROLE, LP_TOP_LINE_NOTE, LP_TOP_LINE_COUNTER, LP_TOP_LINE_PHASE, LP_TOP_LINE_WORKER };

struct lp_top_line {
    enum lp_top_kind kind;
    const struct lp_top_role *role; /* Borrowed; NULL on a worker. */
    size_t index;                   /* Of the phase, counter or worker; of a note, which (lp_top_note). */
    size_t order;                   /* Among equal ones. */
};

struct lp_top_lines {
    struct lp_top_line *lines; /* Owned. */
    size_t n, size;
};

/* The lines of the table that view shows, filtered and sorted. 0 or -ENOMEM; to be released in both cases. */
int lp_top_lines_make(struct lp_top_lines *lines, const struct lp_top *top, const struct lp_top_view *view);
void lp_top_lines_release(struct lp_top_lines *lines);

/* What qualifies the figures of a role, or NULL. index counts from 0. */
struct lp_top_note {
    char text[192];
};
bool lp_top_note(struct lp_top_note *note, const struct lp_top *top, const struct lp_top_role *role, size_t index);
#define LP_TOP_NOTES 2

/* The path of a phase, names joined by '/'. To be freed; NULL without memory. */
char *lp_top_path(const struct lp_run_phase *phase, size_t *len);
const char *lp_top_state_name(const struct lp_top_worker *worker);

struct lp_top_column {
    enum lp_top_key key;
    const char *title;
    size_t columns; /* Of its cells; of the column that takes what is left, the least. */
    bool left;      /* Begins where the column begins; else ends where it ends. */
    unsigned drop;  /* 0: never left out; else the highest goes first. */
};

#define LP_TOP_COLUMNS 12

/* Columns with their places in a frame. */
struct lp_top_table {
    size_t n;
    struct lp_top_place {
        const struct lp_top_column *column; /* Borrowed. */
        size_t begin, columns;
    } places[LP_TOP_COLUMNS];
};

/* Places n columns in width; the one of key `rest` takes what the others leave. */
void lp_top_table_place(struct lp_top_table *table, const struct lp_top_column *columns, size_t n, enum lp_top_key rest,
                        size_t gap, size_t width);
/* The column of a key; NULL if it was left out. */
const struct lp_top_place *lp_top_table_find(const struct lp_top_table *table, enum lp_top_key key);
/* A cell of a column, if that is there. */
void lp_top_table_put(const struct lp_top_table *table, enum lp_top_key key, struct lp_frame *frame, size_t row,
                      enum lp_frame_style style, const char *text);
/* A figure: "~" before an estimate, dim if it is not known. */
void lp_top_table_figure(const struct lp_top_table *table, enum lp_top_key key, struct lp_frame *frame, size_t row,
                         enum lp_frame_style style, bool estimated, struct lp_report_cell cell);
void lp_top_table_headings(const struct lp_top_table *table, struct lp_frame *frame, size_t row, enum lp_top_key sort);

/* The two tables. table is filled for a frame of that width; a line is drawn into a row. */
void lp_top_phases_table(struct lp_top_table *table, size_t width);
void lp_top_phases_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row, const struct lp_top *top,
                        const struct lp_top_line *line);
/* columns is room for the columns as this run needs them; it must stay with the table. */
void lp_top_workers_table(struct lp_top_table *table, struct lp_top_column columns[LP_TOP_COLUMNS],
                          const struct lp_top *top, size_t width);
void lp_top_workers_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                         const struct lp_top_worker *worker);

void lp_top_help(struct lp_frame *frame, size_t row, size_t end);

#endif
