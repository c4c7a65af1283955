/* ew.h - the elementwise family: table of loops, and which compute type has which.
 *
 * A loop computes n elements of one formula: all operands contiguous and of the compute type (the
 * condition of a MT_SELECT: bytes), `out` may be one of them. Everything else, that is other
 * dtypes, strides and broadcasting, is the driver's business (elementwise.c), which loads, converts
 * and stores in tiles. So there is one loop per formula and type.
 *
 * MT_CAT(MT_HAS_F_, types)(...) keeps its arguments if `types` of a formula has the letter F; G
 * asks for f32 loops that are made from the formula. */
#ifndef MT_CPU_EW_H
#define MT_CPU_EW_H

#include "isa.h"

#define MT_ON(...) __VA_ARGS__
#define MT_OFF(...)
#define MT_CAT_(a, b) a##b
#define MT_CAT(a, b) MT_CAT_(a, b)

#define MT_HAS_F_F MT_ON
#define MT_HAS_F_FI MT_ON
#define MT_HAS_F_FIC MT_ON
#define MT_HAS_F_FC MT_ON
#define MT_HAS_F_GC MT_ON
#define MT_HAS_F_I MT_OFF
#define MT_HAS_F_C MT_OFF

#define MT_HAS_G_F MT_ON
#define MT_HAS_G_FI MT_ON
#define MT_HAS_G_FIC MT_ON
#define MT_HAS_G_FC MT_ON
#define MT_HAS_G_GC MT_OFF
#define MT_HAS_G_I MT_OFF
#define MT_HAS_G_C MT_OFF

#define MT_HAS_I_F MT_OFF
#define MT_HAS_I_FI MT_ON
#define MT_HAS_I_FIC MT_ON
#define MT_HAS_I_FC MT_OFF
#define MT_HAS_I_GC MT_OFF
#define MT_HAS_I_I MT_ON
#define MT_HAS_I_C MT_OFF

#define MT_HAS_C_F MT_OFF
#define MT_HAS_C_FI MT_OFF
#define MT_HAS_C_FIC MT_ON
#define MT_HAS_C_FC MT_ON
#define MT_HAS_C_GC MT_ON
#define MT_HAS_C_I MT_OFF
#define MT_HAS_C_C MT_ON

#define MT_EW_PARAMS 4

/* p: MT_EW_PARAMS numbers of the compute type (of float for c64). */
typedef void (*mt_ew_fn)(void *out, const void *a, const void *b, const void *c, int64_t n,
                         const void *p);
/* Converts n contiguous elements. */
typedef void (*mt_convert_fn)(void *out, const void *in, int64_t n);

enum {
  MT_EW_F32,
  MT_EW_F64,
  MT_EW_I64,
  MT_EW_C64,
  MT_EW_TYPES
};

struct mt_ew_table {
  mt_ew_fn loop[MT_NEW][MT_EW_TYPES]; /* NULL: not for this type */
  /* Between any dtype and a pivot: F32, F64 or I64. NULL: not needed (the same dtype, or another
   * pivot serves better). I64 loads integers and bool only. */
  mt_convert_fn load[3][MT_NDTYPES], store[3][MT_NDTYPES];
  /* out[c*so + r] = in[r*si + c] for a block of 4-byte elements, rows, columns <= 16. */
  void (*transpose4)(char *out, int64_t so, const char *in, int64_t si, int rows, int cols);
};

static inline int mt_ew_type(mt_dtype compute) {
  return compute == MT_F32   ? MT_EW_F32
         : compute == MT_F64 ? MT_EW_F64
         : compute == MT_I64 ? MT_EW_I64
                             : MT_EW_C64;
}

/* Converts n <= MT_TILE contiguous elements between any two dtypes. */
#define MT_TILE 512
void mt_convert(const struct mt_ew_table *t, mt_dtype to, void *out, mt_dtype from, const void *in,
                int64_t n);

#endif
