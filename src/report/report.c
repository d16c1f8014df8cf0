#include "report/report.h"

#include <string.h>

const struct lp_report_format *lp_report_format_find(const char *name)
{
    static const struct lp_report_format *const formats[] = {&lp_report_text, &lp_report_json, NULL};
    for (size_t i = 0; formats[i] != NULL; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}
