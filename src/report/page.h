/*
 * report/page: a text page of fixed width, written line by line.
 *
 * Knows at which column the line stands, so that a table is a row of "to column n" and "ending at
 * column n" calls. Text is sanitised and measured by label.h; styles take no columns and are
 * dropped where colour is off. A cell that does not fit is written whole and pushes the rest: a
 * blank always stands between neighbours, no number is cut.
 *
 * Must not know: what the page says.
 */
#ifndef LP_REPORT_PAGE_H
#define LP_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/emit.h"
#include "report/sink.h"

enum lp_report_style { LP_STYLE_PLAIN, LP_STYLE_BOLD, LP_STYLE_DIM };

struct lp_report_page {
    struct lp_report_sink *sink; /* Borrowed; gets whole lines, and keeps the first error. */
    struct lp_buffer line;       /* Owned. */
    size_t width;
    size_t column; /* Where the next character goes; blanks up to there may still be owed. */
    size_t owed;   /* Blanks not yet written: a line never ends in any. */
    enum lp_report_style style;
    bool colour;
};

void lp_report_page_init(struct lp_report_page *page, struct lp_report_sink *sink, size_t width, bool colour);
void lp_report_page_release(struct lp_report_page *page);

/* A style lasts until the next one or the end of the line. */
void lp_report_page_style(struct lp_report_page *page, enum lp_report_style style);
void lp_report_page_text(struct lp_report_page *page, const char *text);
/* At most `columns`, keeping the tail. */
void lp_report_page_label(struct lp_report_page *page, const char *bytes, size_t len, size_t columns);
/* At most `columns`, keeping head and tail: of a host, a role, a run. */
void lp_report_page_name(struct lp_report_page *page, const char *bytes, size_t len, size_t columns);
/* Blanks up to a column; at least one if something stands there already. */
void lp_report_page_to(struct lp_report_page *page, size_t column);
/* A text that ends at a column, or just behind its neighbour. */
void lp_report_page_right(struct lp_report_page *page, const char *text, size_t end);
void lp_report_page_end(struct lp_report_page *page);

void lp_report_page_rule(struct lp_report_page *page);
/* A whole line of its own. */
void lp_report_page_line(struct lp_report_page *page, enum lp_report_style style, const char *text);
/* Words from here on, broken at blanks, further lines beginning at column `indent`; the line stays open. What has no blank
   before it stays with the word that it follows. */
void lp_report_page_words(struct lp_report_page *page, const char *bytes, size_t len, size_t indent);
/* One of them: its blanks break no line. */
void lp_report_page_word(struct lp_report_page *page, const char *bytes, size_t len, size_t indent);
/* Takes what was written last to a new line if it stands beyond the end of this one. */
void lp_report_page_fit(struct lp_report_page *page, size_t indent);
/* Opens a new line at `indent` unless `columns` more fit on this one. */
void lp_report_page_room(struct lp_report_page *page, size_t columns, size_t indent);

#endif
