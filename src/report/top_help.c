/* The keys, and what the figures mean. */
#include "report/top_table.h"

static const struct {
    const char *key, *what;
} entries[] = {
    {"q  F10  Ctrl-C", "leave"},
    {"p  w  Tab", "the phases of all roles; the workers; the other one"},
    {"s  <  >", "sort by the next column; by the one to the left, to the right"},
    {"T  M  N", "sort by time in phases, by memory, by pid or name"},
    {"R", "the other way round"},
    {"/", "show only what contains a text: path, role, counter; pid, host, state"},
    {"Esc", "show everything again"},
    {"i", "hide what is idle, and who has ended"},
    {"space", "pause; again: go on"},
    {"arrows PgUp PgDn", "scroll; Home and End: to the first and the last line"},
    {"h  ?", "this text; any key leaves it"},
    {"", ""},
    {"share, self", "of the time of the role's processes in the interval; in child phases too,"},
    {"", "or outside them. Over 100% where several threads are in phases"},
    {"wait", "of a phase's time, the part that its thread spent off the CPU"},
    {"calls/s, each", "entries that ended, and how long they took"},
    {"~", "an estimate: the phase is sampled, or some processes write files only"},
    {"n/a", "not known"},
};

void lp_top_help(struct lp_frame *frame, size_t row, size_t end)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries && row < end; i++, row++) {
        lp_frame_text(frame, row, 1, LP_FRAME_KEY, entries[i].key);
        lp_frame_text(frame, row, 19, LP_FRAME_PLAIN, entries[i].what);
    }
}
