/*
 * base/compiler.h: names for the few compiler features that the core relies on (gcc and clang).
 * Owns nothing, costs nothing; every room may include it.
 */
#ifndef LP_BASE_COMPILER_H
#define LP_BASE_COMPILER_H

#define LP_LIKELY(x) __builtin_expect(!!(x), 1)
#define LP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LP_NOINLINE __attribute__((noinline))
#define LP_COLD __attribute__((cold, noinline))
/* Bytes that a core may fetch together: two cache lines. What one thread writes all the time shares none with others. */
#define LP_APART 128
#define LP_ALWAYS_INLINE static inline __attribute__((always_inline))
/* Orders what was stored before against what is stored after. ThreadSanitizer knows no fences; every access that we
   order with one is atomic, so it loses nothing by not seeing them. */
#if defined(__SANITIZE_THREAD__)
#define LP_FENCE(order) ((void)0)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LP_FENCE(order) ((void)0)
#endif
#endif
#ifndef LP_FENCE
#define LP_FENCE(order) atomic_thread_fence(order)
#endif

/* Left out of the thread sanitizer: for what reads words that others write as plain fields, and is right whatever it reads. */
#define LP_RACY __attribute__((no_sanitize("thread"), noinline))
#define LP_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

#endif
