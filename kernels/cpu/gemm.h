/* gemm.h - matrix products: the problem, the drivers, and what every instruction set provides.
 *
 * C = alpha * A B + beta * C0 + biases, row-major, any strides. Every element of C is one chain
 * over k in ascending order, cut only at borders that depend on the shape: the bits of a result
 * depend neither on the number of threads nor on which of them computed it.
 *
 * gemm.c chooses the path and cuts the work, once for all types; arch/gemm_kernel.h holds the
 * loops, written once and compiled per type and per instruction set. Convolution (conv.c) uses the
 * same kernels with a packer of its own. */
#ifndef MT_CPU_GEMM_H
#define MT_CPU_GEMM_H

#include "../kernel.h"

enum {
  MT_GEMM_MAXMR = 14, /* rows of the tallest tile of any instruction set */
  MT_GEMM_SLACK = 64  /* bytes behind packed panels that kernels may read or write */
};

/* A tile of C, or for `dot` a whole product. Strides count elements. */
struct mt_tile {
  const void *a, *b;
  void *c;
  int64_t ars, acs; /* row and column stride of A; a packed panel has 1 and m */
  int64_t brs;      /* B is read as rows of unit stride; `dot`: as rows of B transposed */
  int64_t crs;      /* columns of C have stride 1 */
  int64_t m, n, k;
  double alpha;
  const void *row_bias, *col_bias; /* NULL: none; col_bias starts at this tile's columns */
  bool accumulate;                 /* add to what C holds */
};
typedef void (*mt_tile_fn)(const struct mt_tile *t);

/* Packs k slices of w elements: dst[p * wpad + i] = src[i * ps + p * ks]. Elements w..wpad-1 of a
 * slice become zero. May write MT_GEMM_SLACK bytes behind the end of dst. */
typedef void (*mt_pack_fn)(void *dst, const void *src, int64_t ps, int64_t ks, int64_t w,
                           int64_t wpad, int64_t k);

/* One type's kernels. */
struct mt_gemm_fns {
  int size;                               /* bytes of an element */
  int vl;                                 /* elements of a vector */
  int mr, dr, dotr;                       /* most rows of packed, direct and dot tiles */
  mt_tile_fn packed[MT_GEMM_MAXMR][2];    /* [m-1][vectors-1]: A and B packed */
  mt_tile_fn mixed[MT_GEMM_MAXMR][2];     /* A strided, B packed; up to dr rows */
  mt_tile_fn direct[MT_GEMM_MAXMR][4][2]; /* [m-1][log2 of vectors][last one partial] */
  mt_tile_fn dot;                         /* A and B transposed have unit columns; any m and n */
  mt_tile_fn dot1;                        /* the same for m = n = 1 */
  mt_pack_fn pack[3];                     /* from the type itself, and for f32 from f16 and bf16 */
};

struct mt_gemm_table {
  const struct mt_gemm_fns *f32, *f64;
  void (*widen[2])(float *dst, const uint16_t *src, int64_t n); /* f16, bf16 */
  void (*narrow[2])(uint16_t *dst, const float *src, int64_t n);
};

/* A product. To add to C pass c0 = c. */
typedef struct mt_gemm {
  mt_dtype dtype; /* of A, B, C and C0: F32, F64, F16 or BF16 */
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t ars, acs, brs, bcs, crs, ccs;
  double alpha, beta; /* beta 0: c0 is not read */
  const void *c0;     /* strides may be 0: broadcast; may be c itself with the strides of c */
  int64_t c0rs, c0cs;
  const void *row_bias, *col_bias; /* NULL, or unit stride, in the accumulator's type */
  const struct mt_blas *blas;      /* NULL: none is lent */
} mt_gemm;

/* The same product on several sets of operands: the dims of a batch, outermost first. */
typedef struct mt_gemm_batch {
  int ndim;
  int64_t count; /* product of the sizes */
  int64_t size[MT_MAX_DIM], a[MT_MAX_DIM], b[MT_MAX_DIM], c[MT_MAX_DIM], c0[MT_MAX_DIM];
} mt_gemm_batch;

/* What the runtime lends of a BLAS. */
struct mt_blas {
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                int lda, const double *b, int ldb, double beta, double *c, int ldc);
  bool serial;  /* known to stay on the calling thread, and safe to call from several */
  bool use_f32; /* wished for f32 products as well */
};

/* Bytes of scratch for at most `threads` workers; SIZE_MAX when there is no such size. `batch`
 * may be NULL. */
size_t mt_gemm_scratch(const struct mt_isa *isa, const mt_gemm *g, const mt_gemm_batch *batch,
                       int threads);
/* `batch` and `par` may be NULL. Stops early, with C undefined, when par is interrupted. */
void mt_gemm_run(const struct mt_isa *isa, const mt_gemm *g, const mt_gemm_batch *batch,
                 mt_parallel *par, void *scratch);
/* Whether a product is large enough that a BLAS would be asked for it. */
bool mt_gemm_wants_blas(mt_dtype dtype, int64_t m, int64_t n, int64_t k);

/* The table of a type's kernels; F16 and BF16 give those of F32. */
const struct mt_gemm_fns *mt_gemm_fns_of(const struct mt_isa *isa, mt_dtype dtype);

static inline bool mt_stopped(const mt_parallel *par) {
  return par && par->interrupted && *par->interrupted;
}

/* The plain product (ref/gemm.c): floats in double, integers modulo 2^64, c64 in double; rounded
 * once. The truth for tests, and the only path of integers and c64. Biases are in the
 * accumulator's type as above (c64: none). */
void mt_ref_gemm(const mt_gemm *g);

#endif
