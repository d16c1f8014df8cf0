/* What bench_core and core_counted agree on. */
#ifndef CORE_COUNTED_H
#define CORE_COUNTED_H

#define COUNTED_TIMES 9
#define COUNTED_TURNS(row) ((row)->period ? (row)->period : 20)

#endif
