/* config.h - the few limits and portability macros of the runtime. */
#ifndef MT_CONFIG_H
#define MT_CONFIG_H

#define MT_MESSAGE 1024     /* bytes of an error message */
#define MT_ALIGN 64         /* bytes: a cache line, and the widest vector */
#define MT_HUGE (2u << 20)  /* blocks from here on are mapped with huge pages */

#if defined(__GNUC__)
#define MT_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define MT_LIKELY(x) __builtin_expect(!!(x), 1)
#define MT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define MT_PRINTF(a, b)
#define MT_LIKELY(x) (x)
#define MT_UNLIKELY(x) (x)
#endif

#endif
