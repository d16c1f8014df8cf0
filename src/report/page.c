#include "report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/label.h"

void lp_report_page_init(struct lp_report_page *page, struct lp_report_sink *sink, size_t width, bool colour)
{
    *page = (struct lp_report_page){.sink = sink, .width = width, .colour = colour};
}

void lp_report_page_release(struct lp_report_page *page)
{
    free(page->line.bytes);
    page->line = (struct lp_buffer){0};
}

static void raw(struct lp_report_page *page, const char *text)
{
    if (lp_buffer_put(&page->line, text, strlen(text)) != 0)
        lp_report_fail(page->sink, -ENOMEM);
}

static void pay(struct lp_report_page *page)
{
    for (; page->owed > 0; page->owed--)
        raw(page, " ");
}

void lp_report_page_style(struct lp_report_page *page, enum lp_report_style style)
{
    static const char *const codes[] = {"", "\033[1m", "\033[2m"};
    if (!page->colour)
        return;
    pay(page);
    if (page->style != LP_STYLE_PLAIN)
        raw(page, "\033[0m");
    raw(page, codes[style]);
    page->style = style;
}

typedef size_t write_fn(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns);

static void put(struct lp_report_page *page, const char *bytes, size_t len, size_t columns, write_fn *write)
{
    if (len == 0 || columns == 0)
        return;
    struct lp_report_sink line;
    lp_report_sink_init(&line, lp_buffer_put, &page->line);
    pay(page);
    page->column += write(&line, bytes, len, columns);
    lp_report_fail(page->sink, line.error);
}

void lp_report_page_label(struct lp_report_page *page, const char *bytes, size_t len, size_t columns)
{
    put(page, bytes, len, columns, lp_report_label);
}

void lp_report_page_name(struct lp_report_page *page, const char *bytes, size_t len, size_t columns)
{
    put(page, bytes, len, columns, lp_report_name);
}

void lp_report_page_text(struct lp_report_page *page, const char *text)
{
    lp_report_page_label(page, text, strlen(text), SIZE_MAX);
}

static void owe(struct lp_report_page *page, size_t blanks)
{
    page->owed += blanks;
    page->column += blanks;
}

void lp_report_page_to(struct lp_report_page *page, size_t column)
{
    if (page->column < column)
        owe(page, column - page->column);
    else if (page->column > 0 && page->owed == 0)
        owe(page, 1);
}

void lp_report_page_right(struct lp_report_page *page, const char *text, size_t end)
{
    size_t columns = lp_report_columns(text, strlen(text));
    lp_report_page_to(page, end > columns ? end - columns : 0);
    lp_report_page_text(page, text);
}

void lp_report_page_end(struct lp_report_page *page)
{
    page->owed = 0;
    if (page->style != LP_STYLE_PLAIN)
        raw(page, "\033[0m");
    raw(page, "\n");
    lp_report_write(page->sink, page->line.bytes, page->line.len);
    page->line.len = 0;
    page->column = 0;
    page->style = LP_STYLE_PLAIN;
}

void lp_report_page_rule(struct lp_report_page *page)
{
    for (size_t i = 0; i < page->width; i++)
        lp_report_page_text(page, "\xe2\x94\x80"); /* U+2500 */
    lp_report_page_end(page);
}

void lp_report_page_line(struct lp_report_page *page, enum lp_report_style style, const char *text)
{
    lp_report_page_style(page, style);
    lp_report_page_text(page, text);
    lp_report_page_end(page);
}

/* In the style of the one before. */
static void new_line(struct lp_report_page *page, size_t indent)
{
    enum lp_report_style style = page->style;
    lp_report_page_end(page);
    lp_report_page_style(page, style);
    lp_report_page_to(page, indent);
}

void lp_report_page_room(struct lp_report_page *page, size_t columns, size_t indent)
{
    if (page->column + columns > page->width && page->column > indent)
        new_line(page, indent);
}

/* What stands after the last blank of this line opens a new one, unless it would stand where it does now. */
static void carry(struct lp_report_page *page, size_t indent)
{
    const char *line = page->line.bytes;
    size_t at = page->line.len, owed = page->owed;
    while (at > 0 && line[at - 1] != ' ')
        at--;
    size_t columns = at > 0 ? lp_report_columns(line + at, page->line.len - at) : 0;
    if (at == 0 || page->column - owed <= indent + columns)
        return;
    struct lp_buffer tail = {0};
    if (lp_buffer_put(&tail, line + at, page->line.len - at) == 0) {
        while (at > 0 && line[at - 1] == ' ')
            at--;
        page->line.len = at;
        new_line(page, indent);
        pay(page);
        if (lp_buffer_put(&page->line, tail.bytes, tail.len) != 0)
            lp_report_fail(page->sink, -ENOMEM);
        page->column += columns;
        owe(page, owed);
    }
    free(tail.bytes);
}

void lp_report_page_fit(struct lp_report_page *page, size_t indent)
{
    if (page->column - page->owed > page->width)
        carry(page, indent);
}

void lp_report_page_word(struct lp_report_page *page, const char *bytes, size_t len, size_t indent)
{
    size_t columns = lp_report_columns(bytes, len);
    lp_report_page_fit(page, indent);
    if (page->owed > 0)
        lp_report_page_room(page, columns, indent);
    else if (page->column + columns > page->width)
        carry(page, indent);
    lp_report_page_label(page, bytes, len, SIZE_MAX);
}

void lp_report_page_words(struct lp_report_page *page, const char *bytes, size_t len, size_t indent)
{
    for (size_t at = 0; at < len;) {
        const char *blank = memchr(bytes + at, ' ', len - at);
        size_t word = blank != NULL ? (size_t)(blank - bytes) - at : len - at;
        if (word > 0)
            lp_report_page_word(page, bytes + at, word, indent);
        at += word;
        if (blank != NULL) {
            owe(page, 1);
            at++;
        }
    }
}
