#include "report/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "report/label.h"

static const struct lp_frame_cell blank = {.columns = 1};

int lp_frame_init(struct lp_frame *frame, size_t rows, size_t columns)
{
    *frame = (struct lp_frame){.rows = rows, .columns = columns};
    frame->cells = calloc(rows * columns + 1, sizeof *frame->cells);
    if (frame->cells == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < rows * columns; i++)
        frame->cells[i] = blank;
    return 0;
}

void lp_frame_release(struct lp_frame *frame)
{
    free(frame->cells);
    *frame = (struct lp_frame){0};
}

static struct lp_frame_cell *cell_at(const struct lp_frame *frame, size_t row, size_t column)
{
    return row < frame->rows && column < frame->columns ? &frame->cells[row * frame->columns + column] : NULL;
}

/* Half a wide character is none: what is written over one half blanks the other. */
static void clear(const struct lp_frame *frame, size_t row, size_t column)
{
    struct lp_frame_cell *cell = cell_at(frame, row, column);
    struct lp_frame_cell *next = cell_at(frame, row, column + 1);
    if (cell->columns == 0)
        cell[-1] = blank;
    else if (cell->columns == 2 && next != NULL)
        *next = blank;
    *cell = blank;
}

static void combine(const struct lp_frame *frame, size_t row, size_t column, uint32_t code)
{
    struct lp_frame_cell *cell = column > 0 ? cell_at(frame, row, column - 1) : NULL;
    if (cell != NULL && cell->columns == 0)
        cell--;
    if (cell != NULL && cell->n_codes > 0 && cell->n_codes < LP_FRAME_CODES)
        cell->codes[cell->n_codes++] = code;
}

/* One shown character. Returns its columns; 0 if there is no room for it. */
static unsigned put(const struct lp_frame *frame, size_t row, size_t column, enum lp_frame_style style, uint32_t code)
{
    unsigned columns = lp_report_columns_of(code);
    if (cell_at(frame, row, column + columns - 1) == NULL)
        return 0;
    for (unsigned i = 0; i < columns; i++) {
        clear(frame, row, column + i);
        *cell_at(frame, row, column + i) = (struct lp_frame_cell){.style = (uint8_t)style};
    }
    struct lp_frame_cell *cell = cell_at(frame, row, column);
    cell->codes[0] = code;
    cell->n_codes = 1;
    cell->columns = (uint8_t)columns;
    return columns;
}

static size_t put_bytes(struct lp_frame *frame, size_t row, size_t column, enum lp_frame_style style, const char *bytes,
                        size_t len)
{
    uint32_t code;
    for (size_t at = 0; at < len;) {
        at += lp_report_decode(bytes + at, len - at, &code);
        code = lp_report_shown(code);
        if (lp_report_columns_of(code) == 0) {
            combine(frame, row, column, code);
            continue;
        }
        unsigned columns = put(frame, row, column, style, code);
        if (columns == 0)
            break;
        column += columns;
    }
    return column;
}

size_t lp_frame_text(struct lp_frame *frame, size_t row, size_t column, enum lp_frame_style style, const char *text)
{
    return put_bytes(frame, row, column, style, text, strlen(text));
}

typedef size_t write_fn(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns);

static size_t put_cut(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style,
                      const char *bytes, size_t len, write_fn *write)
{
    struct lp_buffer label = {0};
    struct lp_report_sink sink;
    lp_report_sink_init(&sink, lp_buffer_put, &label);
    write(&sink, bytes, len, columns);
    if (sink.error != 0)
        frame->error = sink.error;
    else if (label.len > 0)
        column = put_bytes(frame, row, column, style, label.bytes, label.len);
    free(label.bytes);
    return column;
}

size_t lp_frame_label(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style,
                      const char *bytes, size_t len)
{
    return put_cut(frame, row, column, columns, style, bytes, len, lp_report_label);
}

size_t lp_frame_name(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style,
                     const char *bytes, size_t len)
{
    return put_cut(frame, row, column, columns, style, bytes, len, lp_report_name);
}

size_t lp_frame_right(struct lp_frame *frame, size_t row, size_t end, enum lp_frame_style style, const char *text)
{
    size_t columns = lp_report_columns(text, strlen(text));
    return lp_frame_text(frame, row, end > columns ? end - columns : 0, style, text);
}

void lp_frame_restyle(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style)
{
    for (size_t i = 0; i < columns; i++) {
        struct lp_frame_cell *cell = cell_at(frame, row, column + i);
        if (cell != NULL)
            cell->style = (uint8_t)style;
    }
}

static void write_cell(const struct lp_frame_cell *cell, struct lp_report_sink *sink)
{
    char bytes[4];
    if (cell->n_codes == 0 && cell->columns > 0)
        lp_report_write(sink, " ", 1);
    for (size_t i = 0; i < cell->n_codes; i++)
        lp_report_write(sink, bytes, lp_report_encode(cell->codes[i], bytes));
}

void lp_frame_write(const struct lp_frame *frame, struct lp_report_sink *sink)
{
    for (size_t row = 0; row < frame->rows; row++) {
        const struct lp_frame_cell *cells = frame->cells + row * frame->columns;
        size_t end = frame->columns;
        while (end > 0 && (cells[end - 1].n_codes == 0 || cells[end - 1].codes[0] == ' ') && cells[end - 1].columns > 0)
            end--;
        for (size_t i = 0; i < end; i++)
            write_cell(&cells[i], sink);
        lp_report_write(sink, "\n", 1);
    }
}
