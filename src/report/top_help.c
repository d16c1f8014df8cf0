/* The keys, and what the figures mean. */
#include "report/top_table.h"

static const struct {
    const char *key, *what;
} entries[] = {
    {"q F10 Ctrl-C", "leave"},
    {"p  w  Tab", "the phases of all roles; the workers; the other of the two"},
    {"s  <  >", "sort by the next column; by the one to the left, the right"},
    {"T  M  N", "sort by time in phases, by memory, by pid or name"},
    {"R", "the other way round"},
    {"/", "only what contains a text: role, path, counter, pid, host"},
    {"Esc", "everything again"},
    {"i", "hide, or show, what is idle and who has ended"},
    {"space", "pause; go on"},
    {"arrows, PgUp PgDn", "scroll; Home, End: to the first line, the last"},
    {"h  ?", "this text; any key leaves it"},
    {"", ""},
    {"share, self", "of the processes' time: in the phase, and outside its child"},
    {"", "phases; over 100% where several threads are in phases"},
    {"wait", "of the phase's time, what its threads spent off the CPU"},
    {"calls/s, each", "entries that ended, and how long they took on average"},
    {"~   n/a", "estimated: sampled, or known by files alone   not known"},
};

void lp_top_help(struct lp_frame *frame, size_t row, size_t end)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries && row < end; i++, row++) {
        lp_frame_text(frame, row, 1, LP_FRAME_KEY, entries[i].key);
        lp_frame_text(frame, row, 19, LP_FRAME_PLAIN, entries[i].what);
    }
}
