#include "report/top_table.h"

#include <stdio.h>
#include <string.h>

static size_t columns_of(const struct lp_top_table *table, size_t gap)
{
    size_t columns = table->n > 0 ? (table->n - 1) * gap : 0;
    for (size_t i = 0; i < table->n; i++)
        columns += table->places[i].columns;
    return columns;
}

/* Takes out the least important column; false if none may go. */
static bool drop_one(struct lp_top_table *table)
{
    size_t least = table->n;
    for (size_t i = 0; i < table->n; i++) {
        unsigned drop = table->places[i].column->drop;
        if (drop > 0 && (least == table->n || drop > table->places[least].column->drop))
            least = i;
    }
    if (least == table->n)
        return false;
    for (size_t i = least; i + 1 < table->n; i++)
        table->places[i] = table->places[i + 1];
    table->n--;
    return true;
}

void lp_top_table_place(struct lp_top_table *table, const struct lp_top_column *columns, size_t n, enum lp_top_key rest,
                        size_t gap, size_t width)
{
    *table = (struct lp_top_table){0};
    for (size_t i = 0; i < n && i < LP_TOP_COLUMNS; i++)
        table->places[table->n++] = (struct lp_top_place){.column = &columns[i], .columns = columns[i].columns};
    while (columns_of(table, gap) > width && drop_one(table))
        ;
    size_t used = columns_of(table, gap), column = 0;
    for (size_t i = 0; i < table->n; i++) {
        struct lp_top_place *place = &table->places[i];
        if (place->column->key == rest && used < width)
            place->columns += width - used;
        place->begin = column;
        column += place->columns + gap;
    }
}

const struct lp_top_place *lp_top_table_find(const struct lp_top_table *table, enum lp_top_key key)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->places[i].column->key == key)
            return &table->places[i];
    return NULL;
}

static void put(const struct lp_top_place *place, struct lp_frame *frame, size_t row, enum lp_frame_style style,
                const char *text)
{
    if (place->column->left)
        lp_frame_label(frame, row, place->begin, place->columns, style, text, strlen(text));
    else
        lp_frame_right(frame, row, place->begin + place->columns, style, text);
}

void lp_top_table_put(const struct lp_top_table *table, enum lp_top_key key, struct lp_frame *frame, size_t row,
                      enum lp_frame_style style, const char *text)
{
    const struct lp_top_place *place = lp_top_table_find(table, key);
    if (place != NULL)
        put(place, frame, row, style, text);
}

void lp_top_table_figure(const struct lp_top_table *table, enum lp_top_key key, struct lp_frame *frame, size_t row,
                         enum lp_frame_style style, bool estimated, struct lp_report_cell cell)
{
    char text[sizeof cell + 1];
    bool known = strcmp(cell.text, "n/a") != 0;
    snprintf(text, sizeof text, "%s%s", estimated && known ? "~" : "", cell.text);
    lp_top_table_put(table, key, frame, row, known ? style : LP_FRAME_DIM, text);
}

void lp_top_table_headings(const struct lp_top_table *table, struct lp_frame *frame, size_t row, enum lp_top_key sort)
{
    lp_frame_restyle(frame, row, 0, frame->columns, LP_FRAME_HEADING);
    for (size_t i = 0; i < table->n; i++) {
        const struct lp_top_place *place = &table->places[i];
        put(place, frame, row, place->column->key == sort ? LP_FRAME_KEY : LP_FRAME_HEADING, place->column->title);
    }
}
