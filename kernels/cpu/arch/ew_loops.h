/* ew_loops.h - makes the loops of one compute type from elementwise.def.
 *
 * A source defines, before including this: T, the type; PT, that of the parameters; SUFFIX, the
 * end of the names; M(f), the functions of the type; HAS(types), which keeps its further
 * arguments if the type has the formula; and MT_PART if it compiles a part of the list.
 *
 * `ivdep` holds although `out` may be an operand: an element is read before it is written, and
 * elements do not meet. */
/* gcc's own choice for x86-64-v4 is 256 bits. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

#include "../../kernel.h"
#include "../ew.h"
#include "../ew_ops.h"

#define NAME3_(isa, name, suffix) mt_ew_##name##_##suffix##_##isa
#define NAME3(isa, name, suffix) NAME3_(isa, name, suffix)
#ifndef MT_EW_ISA
#define MT_EW_ISA MT_ISA
#endif
#define LOOP(name)                                                                            \
  void NAME3(MT_EW_ISA, name, SUFFIX)(void *out, const void *a, const void *b, const void *c, \
                                      int64_t n, const void *p)

#define K(number) ((PT)(number))
#define P(i) p##i
#define OPEN(OUT, A)                                          \
  OUT *o = out;                                               \
  const A *as = a;                                            \
  const T *bs = b, *cs = c;                                   \
  const PT *ps = p;                                           \
  const PT p0 = ps[0], p1 = ps[1], p2 = ps[2], p3 = ps[3];    \
  (void)bs, (void)cs, (void)p0, (void)p1, (void)p2, (void)p3; \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {      \
    const A x = as[i];
#define CLOSE }

#define LOOP1(name, OUT, formula)       \
  LOOP(name);                           \
  LOOP(name) {                          \
    OPEN(OUT, T) o[i] = (OUT)(formula); \
    CLOSE                               \
  }
#define LOOP2(name, OUT, formula)   \
  LOOP(name);                       \
  LOOP(name) {                      \
    OPEN(OUT, T) const T y = bs[i]; \
    o[i] = (OUT)(formula);          \
    CLOSE                           \
  }
#define LOOP3(name, A, formula)              \
  LOOP(name);                                \
  LOOP(name) {                               \
    OPEN(T, A) const T y = bs[i], z = cs[i]; \
    o[i] = (formula);                        \
    CLOSE                                    \
  }

#define MT_UNARY(name, types, ...) HAS(types)(LOOP1(name, T, __VA_ARGS__))
#define MT_BINARY(name, types, ...) HAS(types)(LOOP2(name, T, __VA_ARGS__))
#define MT_TERNARY(name, types, ...) HAS(types)(LOOP3(name, T, __VA_ARGS__))
#define MT_TEST(name, types, ...) HAS(types)(LOOP1(name, uint8_t, (__VA_ARGS__) != 0))
#define MT_COMPARE(name, types, ...) HAS(types)(LOOP2(name, uint8_t, (__VA_ARGS__) != 0))
#define MT_SELECT(name, types, ...) HAS(types)(LOOP3(name, uint8_t, __VA_ARGS__))
#include "../../elementwise.def"
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT
