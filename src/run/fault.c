#include "run/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            *text = ' ';
}

int lp_run_fault_set(struct lp_run_fault *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    make_printable(fault->text);
    fault->no_memory = false;
    return -1;
}

int lp_run_fault_within(struct lp_run_fault *fault, const char *format, ...)
{
    char place[LP_RUN_FAULT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(place, sizeof place, format, args);
    va_end(args);
    make_printable(place);
    size_t len = strlen(place);
    memmove(fault->text + len, fault->text, sizeof fault->text - len);
    memcpy(fault->text, place, len);
    fault->text[sizeof fault->text - 1] = '\0';
    return -1;
}

int lp_run_fault_no_memory(struct lp_run_fault *fault)
{
    lp_run_fault_set(fault, "out of memory");
    fault->no_memory = true;
    return -1;
}
