/* lane.c - loads and stores between dtypes and compute types; see ../lane.h.
 *
 * One short loop per pair. The unit-stride form is written apart because only that one is
 * vectorised. */
#include "../lane.h"
#include "../isa.h"
#include "../../half.h"

#include <math.h>
#include <string.h>

#define SAME(x) (x)
#define NOT0(x) ((x) != 0)
#define MODULUS(z) hypotf((z).re, (z).im)
/* Conversions that C leaves undefined (NaN and infinities to integers) give the lowest integer, as
 * the instruction does. */
#define WHOLE(x) ((x) > -9.2e18 && (x) < 9.2e18 ? (int64_t)(x) : INT64_MIN)

#define LOAD(name, to_t, from_t, get)                                       \
  static void name(void *to, const void *from, int64_t n, int64_t stride) { \
    to_t *restrict d = to;                                                  \
    const from_t *restrict s = from;                                        \
    if (stride == 1)                                                        \
      for (int64_t i = 0; i < n; i++) d[i] = (to_t)get(s[i]);               \
    else                                                                    \
      for (int64_t i = 0; i < n; i++) d[i] = (to_t)get(s[i * stride]);      \
  }
#define STORE(name, to_t, from_t, put)                                      \
  static void name(void *to, const void *from, int64_t n, int64_t stride) { \
    to_t *restrict d = to;                                                  \
    const from_t *restrict s = from;                                        \
    if (stride == 1)                                                        \
      for (int64_t i = 0; i < n; i++) d[i] = (to_t)put(s[i]);               \
    else                                                                    \
      for (int64_t i = 0; i < n; i++) d[i * stride] = (to_t)put(s[i]);      \
  }

#define LOADS_FLOAT(l, t)                            \
  LOAD(load_##l##_f64, t, double, SAME)              \
  LOAD(load_##l##_f32, t, float, SAME)               \
  LOAD(load_##l##_f16, t, uint16_t, mt_f16_to_f32)   \
  LOAD(load_##l##_bf16, t, uint16_t, mt_bf16_to_f32) \
  LOAD(load_##l##_c64, t, mt_c64, MODULUS)
#define LOADS_INT(l, t)                  \
  LOAD(load_##l##_i64, t, int64_t, SAME) \
  LOAD(load_##l##_i32, t, int32_t, SAME) \
  LOAD(load_##l##_i16, t, int16_t, SAME) \
  LOAD(load_##l##_i8, t, int8_t, SAME)   \
  LOAD(load_##l##_u8, t, uint8_t, SAME)
LOADS_FLOAT(f32, float)
LOADS_INT(f32, float)
LOADS_FLOAT(f64, double)
LOADS_INT(f64, double)
LOADS_INT(i64, int64_t)
static inline int64_t whole_f16(uint16_t h) { return WHOLE(mt_f16_to_f32(h)); }
static inline int64_t whole_bf16(uint16_t h) { return WHOLE(mt_bf16_to_f32(h)); }
LOAD(load_i64_f64, int64_t, double, WHOLE)
LOAD(load_i64_f32, int64_t, float, WHOLE)
LOAD(load_i64_f16, int64_t, uint16_t, whole_f16)
LOAD(load_i64_bf16, int64_t, uint16_t, whole_bf16)

#define STORES_FLOAT(l, t)                           \
  STORE(store_##l##_f64, double, t, SAME)            \
  STORE(store_##l##_f32, float, t, SAME)             \
  STORE(store_##l##_f16, uint16_t, t, mt_f32_to_f16) \
  STORE(store_##l##_bf16, uint16_t, t, mt_f32_to_bf16)
#define STORES_INT(l, t, whole)             \
  STORE(store_##l##_i64, int64_t, t, whole) \
  STORE(store_##l##_i32, int32_t, t, whole) \
  STORE(store_##l##_i16, int16_t, t, whole) \
  STORE(store_##l##_i8, int8_t, t, whole)   \
  STORE(store_##l##_u8, uint8_t, t, whole)  \
  STORE(store_##l##_bool, uint8_t, t, NOT0)
STORES_FLOAT(f32, float)
STORES_INT(f32, float, WHOLE)
STORES_FLOAT(f64, double)
STORES_INT(f64, double, WHOLE)
STORES_FLOAT(i64, int64_t)
STORES_INT(i64, int64_t, SAME)

#define LOAD_ROW(l, c64)                                                                 \
  {                                                                                      \
    load_##l##_f64, load_##l##_f32, load_##l##_f16, load_##l##_bf16, load_##l##_i64,     \
        load_##l##_i32, load_##l##_i16, load_##l##_i8, load_##l##_u8, load_##l##_u8, c64 \
  }
#define STORE_ROW(l)                                                                          \
  {                                                                                           \
    store_##l##_f64, store_##l##_f32, store_##l##_f16, store_##l##_bf16, store_##l##_i64,     \
        store_##l##_i32, store_##l##_i16, store_##l##_i8, store_##l##_u8, store_##l##_bool, 0 \
  }

const struct mt_lane_table MT_ISA_NAME(mt_lane_table) = {
    {LOAD_ROW(f32, load_f32_c64), LOAD_ROW(f64, load_f64_c64), LOAD_ROW(i64, 0)},
    {STORE_ROW(f32), STORE_ROW(f64), STORE_ROW(i64)},
};
