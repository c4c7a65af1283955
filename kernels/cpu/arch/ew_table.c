/* ew_table.c - the table of this variant's loops and conversions, and its block transpose. */
#include <string.h>

#include "ew_convert.h"

/* ---- every loop, from the list ---- */

#define NAME_(name, type, isa) mt_ew_##name##_##type##_##isa
#define NAME(name, type, isa) NAME_(name, type, isa)
#define LOOP(name, type, isa)                                                                   \
  void NAME(name, type, isa)(void *out, const void *a, const void *b, const void *c, int64_t n, \
                             const void *p);
#define LOOPS(name, types, ...)                         \
  MT_CAT(MT_HAS_F_, types)                              \
  (LOOP(name, f32, MT_ISA) LOOP(name, f64, MT_ISA))     \
      MT_CAT(MT_HAS_I_, types)(LOOP(name, i64, MT_ISA)) \
          MT_CAT(MT_HAS_C_, types)(LOOP(name, c64, all))
#define ROW(name, types, ...)                                                                \
  [MT_EW_##name] = {MT_CAT(                                                                  \
      MT_HAS_F_,                                                                             \
      types)([MT_EW_F32] = NAME(name, f32, MT_ISA), [MT_EW_F64] = NAME(name, f64, MT_ISA), ) \
                        MT_CAT(MT_HAS_I_, types)([MT_EW_I64] = NAME(name, i64, MT_ISA), )    \
                            MT_CAT(MT_HAS_C_, types)([MT_EW_C64] = NAME(name, c64, all), )},

#define MT_UNARY LOOPS
#define MT_BINARY LOOPS
#define MT_TERNARY LOOPS
#define MT_TEST LOOPS
#define MT_COMPARE LOOPS
#define MT_SELECT LOOPS
#include "../../elementwise.def"

/* ---- transposing blocks of 4-byte elements ---- */

typedef uint32_t lanes __attribute__((vector_size(16)));

static inline lanes load4(const uint32_t *p) {
  lanes v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void store4(uint32_t *p, lanes v) { memcpy(p, &v, sizeof v); }

static inline void square4(uint32_t *out, int64_t so, const uint32_t *in, int64_t si) {
  lanes a = load4(in), b = load4(in + si), c = load4(in + 2 * si), d = load4(in + 3 * si);
  lanes ab0 = __builtin_shuffle(a, b, (lanes){0, 4, 1, 5});
  lanes ab1 = __builtin_shuffle(a, b, (lanes){2, 6, 3, 7});
  lanes cd0 = __builtin_shuffle(c, d, (lanes){0, 4, 1, 5});
  lanes cd1 = __builtin_shuffle(c, d, (lanes){2, 6, 3, 7});
  store4(out, __builtin_shuffle(ab0, cd0, (lanes){0, 1, 4, 5}));
  store4(out + so, __builtin_shuffle(ab0, cd0, (lanes){2, 3, 6, 7}));
  store4(out + 2 * so, __builtin_shuffle(ab1, cd1, (lanes){0, 1, 4, 5}));
  store4(out + 3 * so, __builtin_shuffle(ab1, cd1, (lanes){2, 3, 6, 7}));
}

/* Reads whole rows of the block and writes whole columns: with strides that are powers of two a
 * line that is touched twice may be gone in between. */
static void transpose4(char *out, int64_t so, const char *in, int64_t si, int rows, int cols) {
  uint32_t *o = (uint32_t *)out, block[16 * 16];
  const uint32_t *x = (const uint32_t *)in;
  if (rows == 16 && cols == 16) {
    for (int r = 0; r < 16; r++) memcpy(block + 16 * r, x + r * si, 64);
    for (int c = 0; c < 16; c += 4)
      for (int r = 0; r < 16; r += 4) square4(o + c * so + r, so, block + 16 * r + c, 16);
    return;
  }
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c++) o[c * so + r] = x[r * si + c];
}

/* ---- the table ---- */

#define C(name) MT_ISA_NAME(mt_##name)

const struct mt_ew_table MT_ISA_NAME(mt_ew_table) = {
    .loop =
        {
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT
#define MT_UNARY ROW
#define MT_BINARY ROW
#define MT_TERNARY ROW
#define MT_TEST ROW
#define MT_COMPARE ROW
#define MT_SELECT ROW
#include "../../elementwise.def"
        },
    .load = {[MT_EW_F32] = {[MT_F64] = C(f32_from_f64),
                            [MT_F16] = C(f32_from_f16),
                            [MT_BF16] = C(f32_from_bf16),
                            [MT_I64] = C(f32_from_i64),
                            [MT_I32] = C(f32_from_i32),
                            [MT_I16] = C(f32_from_i16),
                            [MT_I8] = C(f32_from_i8),
                            [MT_U8] = C(f32_from_u8),
                            [MT_BOOL] = C(f32_from_u8),
                            [MT_C64] = C(f32_from_c64)},
             [MT_EW_F64] = {[MT_F32] = C(f64_from_f32),
                            [MT_F16] = C(f64_from_f16),
                            [MT_BF16] = C(f64_from_bf16),
                            [MT_I64] = C(f64_from_i64),
                            [MT_I32] = C(f64_from_i32),
                            [MT_I16] = C(f64_from_i16),
                            [MT_I8] = C(f64_from_i8),
                            [MT_U8] = C(f64_from_u8),
                            [MT_BOOL] = C(f64_from_u8),
                            [MT_C64] = C(f64_from_c64)},
             [MT_EW_I64] = {[MT_I32] = C(i64_from_i32),
                            [MT_I16] = C(i64_from_i16),
                            [MT_I8] = C(i64_from_i8),
                            [MT_U8] = C(i64_from_u8),
                            [MT_BOOL] = C(i64_from_u8)}},
    .store = {[MT_EW_F32] = {[MT_F64] = C(f64_from_f32),
                             [MT_F16] = C(f32_to_f16),
                             [MT_BF16] = C(f32_to_bf16),
                             [MT_I64] = C(f32_to_i64),
                             [MT_I32] = C(f32_to_i32),
                             [MT_I16] = C(f32_to_i16),
                             [MT_I8] = C(f32_to_i8),
                             [MT_U8] = C(f32_to_u8),
                             [MT_BOOL] = C(f32_to_bool),
                             [MT_C64] = C(f32_to_c64)},
              [MT_EW_F64] = {[MT_F32] = C(f32_from_f64),
                             [MT_F16] = C(f64_to_f16),
                             [MT_BF16] = C(f64_to_bf16),
                             [MT_I64] = C(f64_to_i64),
                             [MT_I32] = C(f64_to_i32),
                             [MT_I16] = C(f64_to_i16),
                             [MT_I8] = C(f64_to_i8),
                             [MT_U8] = C(f64_to_u8),
                             [MT_BOOL] = C(f64_to_bool),
                             [MT_C64] = C(f64_to_c64)},
              [MT_EW_I64] = {[MT_F64] = C(f64_from_i64),
                             [MT_F32] = C(f32_from_i64),
                             [MT_F16] = C(i64_to_f16),
                             [MT_BF16] = C(i64_to_bf16),
                             [MT_I32] = C(i64_to_i32),
                             [MT_I16] = C(i64_to_i16),
                             [MT_I8] = C(i64_to_i8),
                             [MT_U8] = C(i64_to_i8),
                             [MT_BOOL] = C(i64_to_bool),
                             [MT_C64] = C(i64_to_c64)}},
    .transpose4 = transpose4,
};
