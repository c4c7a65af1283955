/* ew_convert.h - conversions of contiguous elements between a pivot type and every dtype; made by
 * ew_convert.c, named in ew_table.c. */
#ifndef MT_CPU_EW_CONVERT_H
#define MT_CPU_EW_CONVERT_H

#include "../ew.h"

/* name, C type stored, C type computed, expression of v */
#define MT_CONVERSIONS(X)                                     \
  X(f32_from_f64, double, float, (float)v)                    \
  X(f32_from_i64, int64_t, float, (float)v)                   \
  X(f32_from_i32, int32_t, float, (float)v)                   \
  X(f32_from_i16, int16_t, float, (float)v)                   \
  X(f32_from_i8, int8_t, float, (float)v)                     \
  X(f32_from_u8, uint8_t, float, (float)v)                    \
  X(f32_from_c64, mt_c64, float, v.re)                        \
  X(f64_from_f32, float, double, v)                           \
  X(f64_from_f16, uint16_t, double, mt_f16_to_f32(v))         \
  X(f64_from_bf16, uint16_t, double, mt_bf16_to_f32(v))       \
  X(f64_from_i64, int64_t, double, (double)v)                 \
  X(f64_from_i32, int32_t, double, v)                         \
  X(f64_from_i16, int16_t, double, v)                         \
  X(f64_from_i8, int8_t, double, v)                           \
  X(f64_from_u8, uint8_t, double, v)                          \
  X(f64_from_c64, mt_c64, double, v.re)                       \
  X(i64_from_i32, int32_t, int64_t, v)                        \
  X(i64_from_i16, int16_t, int64_t, v)                        \
  X(i64_from_i8, int8_t, int64_t, v)                          \
  X(i64_from_u8, uint8_t, int64_t, v)                         \
  X(f64_to_f16, double, uint16_t, mt_f32_to_f16((float)v))    \
  X(f64_to_bf16, double, uint16_t, mt_f32_to_bf16((float)v))  \
  X(f32_to_i64, float, int64_t, to_i64((double)v))            \
  X(f32_to_i32, float, int32_t, to_i64((double)v))            \
  X(f32_to_i16, float, int16_t, to_i64((double)v))            \
  X(f32_to_i8, float, int8_t, to_i64((double)v))              \
  X(f32_to_u8, float, uint8_t, to_i64((double)v))             \
  X(f32_to_bool, float, uint8_t, v != 0)                      \
  X(f32_to_c64, float, mt_c64, to_c64(v))                     \
  X(f64_to_i64, double, int64_t, to_i64(v))                   \
  X(f64_to_i32, double, int32_t, to_i64(v))                   \
  X(f64_to_i16, double, int16_t, to_i64(v))                   \
  X(f64_to_i8, double, int8_t, to_i64(v))                     \
  X(f64_to_u8, double, uint8_t, to_i64(v))                    \
  X(f64_to_bool, double, uint8_t, v != 0)                     \
  X(f64_to_c64, double, mt_c64, to_c64((float)v))             \
  X(i64_to_f16, int64_t, uint16_t, mt_f32_to_f16((float)v))   \
  X(i64_to_bf16, int64_t, uint16_t, mt_f32_to_bf16((float)v)) \
  X(i64_to_i32, int64_t, int32_t, v)                          \
  X(i64_to_i16, int64_t, int16_t, v)                          \
  X(i64_to_i8, int64_t, int8_t, v)                            \
  X(i64_to_bool, int64_t, uint8_t, v != 0)                    \
  X(i64_to_c64, int64_t, mt_c64, to_c64((float)v))

/* Written by hand: with instructions of their own where there are some. */
#define MT_CONVERSIONS_HALF(X) X(f32_from_f16) X(f32_from_bf16) X(f32_to_f16) X(f32_to_bf16)

#define X(name, ...) void MT_ISA_NAME(mt_##name)(void *out, const void *in, int64_t n);
MT_CONVERSIONS(X)
MT_CONVERSIONS_HALF(X)
#undef X

#endif
