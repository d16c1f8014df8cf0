/*
 * What bench_core measures: TURNS of something, each a function. bench_core.c times them, core_counted.c runs them for who
 * counts instructions.
 */
#ifndef CORE_ROWS_H
#define CORE_ROWS_H

#include <lineprofiler.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When a row is measured: with the clocks as they are best, with each way of reading them too, and without a profiler. */
enum core_when { CORE_ONCE, CORE_EACH_WAY, CORE_WITHOUT };

struct core_row {
    const char *name;
    void (*run)(int turns);
    enum core_when when;
    int in_kernel; /* some of it runs in the kernel or its vDSO, which instruction counts do not see */
    int period;    /* turns after which it does the same again; 0: each does the same */
};

extern const struct core_row core_rows[];
extern const size_t core_n_rows;

/* Those that verdicts are about. */
extern const char core_two_clocks[], core_pair[], core_nothing_shared[];

struct core_set_up {
    const char *run_dir; /* NULL: no profiler is opened */
    int no_cpu;
    int quiet; /* no thread of the profiler */
};

/* What rows work on: the profiler, names, a table. 0, or -1 with lp_error_message(). */
int core_open(const struct core_set_up *wanted);
lp_profiler *core_profiler(void);
void core_close(void);

/* An entry and a reading of the clocks. */
void core_touch(void);

/* Of core_rows_bound.c, an object that does not link the library, and core_rows.cpp. */
void core_bind(const lp_api *table, lp_profiler *of, lp_name name);
void core_bound_pair(int turns);
void core_bound_macro(int turns);
void core_cpp_static_name(int turns);
void core_cpp_text(int turns);

#ifdef __cplusplus
}
#endif

#endif
