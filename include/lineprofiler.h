/*
 * The public C interface of liblineprofiler.
 */
#ifndef LINEPROFILER_H
#define LINEPROFILER_H

#ifdef __cplusplus
extern "C" {
#endif

#define LP_API __attribute__((visibility("default")))

/* The library's version, such as "1.2.3". A static text. */
LP_API const char *lp_version(void);

#ifdef __cplusplus
}
#endif

#endif
