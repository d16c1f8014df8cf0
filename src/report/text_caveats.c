/* K10: what the reader must know before trusting the rest. */
#include <string.h>

#include "report/format.h"
#include "report/text.h"

#define INDENT        4
#define SHOWN_OF_KIND 10 /* A run may lose a thousand workers in one way; the JSON names each. */
#define KINDS_MAX     32 /* Caveats of further kinds are all shown. */

struct kind {
    const char *name; /* Borrowed. */
    size_t n, seen;
};

static struct kind *find_kind(struct kind kinds[KINDS_MAX], const char *name)
{
    for (size_t i = 0; i < KINDS_MAX; i++) {
        if (kinds[i].name == NULL)
            kinds[i].name = name;
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}

static void caveat(struct lp_report_page *page, const char *text)
{
    lp_report_page_to(page, INDENT - 2);
    lp_report_page_text(page, "-");
    lp_report_page_to(page, INDENT);
    lp_report_page_words(page, text, strlen(text), INDENT);
    lp_report_page_end(page);
}

static void more(struct lp_report_page *page, const struct kind *kind)
{
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, "and ");
    lp_report_page_text(page, lp_report_count(kind->n - SHOWN_OF_KIND).text);
    lp_report_page_text(page, " more of this kind (");
    lp_report_page_text(page, kind->name);
    lp_report_page_text(page, "); --json names them all");
    lp_report_page_end(page);
}

void lp_report_text_caveats(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    struct kind kinds[KINDS_MAX] = {{0}};
    if (run->n_caveats == 0)
        return;
    for (size_t i = 0; i < run->n_caveats; i++) {
        struct kind *kind = find_kind(kinds, run->caveats[i].kind);
        if (kind != NULL)
            kind->n++;
    }
    lp_report_page_end(page);
    lp_report_page_line(page, LP_STYLE_BOLD, "CAVEATS");
    lp_report_page_rule(page);
    for (size_t i = 0; i < run->n_caveats; i++) {
        struct kind *kind = find_kind(kinds, run->caveats[i].kind);
        if (kind == NULL || kind->seen++ < SHOWN_OF_KIND)
            caveat(page, run->caveats[i].text);
        else if (kind->seen == SHOWN_OF_KIND + 1)
            more(page, kind);
    }
}
