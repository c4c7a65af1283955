/* kernel.h - the contract between the runtime and the kernels.
 *
 * A kernel is a pure function on borrowed views. It allocates nothing (scratch is lent), knows no
 * autograd and no Lua, and reports bad data through its status and an error record, never by
 * trapping. It must be right for every stride (negative never occurs, zero does: broadcast), for
 * zero-size and 0-d views, and for every dtype it claims. Outputs never overlap inputs, except that
 * elementwise outputs may be exactly one of the inputs (same data, same strides).
 *
 * The same signature serves every kernel, so a row of an operation table names it and nothing
 * else has to know it. */
#ifndef MT_KERNEL_H
#define MT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parallel.h"

#define MT_MAX_DIM 8

typedef struct mt_c64 {
  float re, im;
} mt_c64;

typedef enum mt_dtype {
#define MT_DTYPE(id, name, ctype, size, cat) MT_##id,
#include "dtype.def"
#undef MT_DTYPE
  MT_NDTYPES,
  MT_NODTYPE = -1
} mt_dtype;

typedef enum mt_category { MT_CAT_BOOL, MT_CAT_INT, MT_CAT_FLOAT, MT_CAT_COMPLEX } mt_category;

typedef struct mt_dtype_info {
  const char *name;
  int size;
  mt_category category;
} mt_dtype_info;
extern const mt_dtype_info mt_dtypes[MT_NDTYPES]; /* kernels/dtype.c */

static inline int mt_dtype_size(mt_dtype d) { return mt_dtypes[d].size; }
static inline mt_category mt_dtype_category(mt_dtype d) { return mt_dtypes[d].category; }
static inline bool mt_dtype_is_float(mt_dtype d) { return d <= MT_BF16 && d >= 0; }

/* Status of every function that can fail, in kernels and runtime alike. */
enum {
  MT_OK = 0,
  MT_ERROR = -1,       /* wrong use: types, shapes, values */
  MT_NOMEM = -2,       /* out of memory: worth a collection and a retry */
  MT_INTERRUPTED = -3, /* stopped by moth_interrupt */
  MT_BADINDEX = -4,    /* an index in a tensor is out of range: see mt_kerror */
  MT_NOKERNEL = -5     /* this kernel does not do this dtype */
};

/* A strided window on memory: `data` points at the first element, strides count elements. */
typedef struct mt_view {
  char *data;
  int64_t size[MT_MAX_DIM], stride[MT_MAX_DIM];
  int64_t numel;
  int8_t ndim;
  int8_t dtype;      /* mt_dtype */
  bool contiguous;   /* row-major without gaps (also true when numel < 2) */
} mt_view;

/* An argument that is not a tensor, or a reference to one (which kernels find in `in` instead). */
typedef enum mt_kind {
  MT_NIL, MT_TENSOR, MT_INT, MT_FLOAT, MT_BOOL_ARG, MT_STR, MT_INTS, MT_FLOATS, MT_TENSORS
} mt_kind;

struct moth_tensor;
typedef struct mt_value {
  mt_kind kind;
  int n; /* length of a list; for MT_STR the length of the string */
  union {
    struct moth_tensor *t;
    int64_t i; /* MT_INT, MT_BOOL_ARG; a dtype or a dim is an int as well */
    double f;
    const char *s;
    const int64_t *ints;
    const double *floats;
    struct moth_tensor *const *tensors;
  } u;
} mt_value;

/* What was wrong with an element of an index tensor. The lowest position wins. */
typedef struct mt_kerror {
  int input;         /* number of the input view */
  int64_t position;  /* row-major position in it */
  int64_t value;     /* as stored there, base included */
  int64_t first, last; /* the allowed range, base included; last < first: it is empty */
} mt_kerror;

struct mt_isa;
struct mt_blas; /* cpu/gemm.h */

/* Everything a kernel gets. */
typedef struct mt_kargs {
  const mt_view *const *in; /* tensor arguments in schema order (lists expanded); NULL: absent */
  const mt_view *const *out;
  const mt_value *arg;      /* all arguments in schema order, defaults filled in, dims 0-based */
  int nin, nout, narg;
  int index_base;           /* what the first position is called in index tensors: 0 or 1 */
  mt_dtype compute;         /* elementwise: F32, F64, I64 or C64 */
  int ew;                   /* elementwise: which formula (mt_ew) */
  void *scratch;            /* 64-byte aligned, of the size that the kernel's query asked for */
  size_t scratch_size;
  uint64_t seed, offset;    /* random kernels: stream and first counter (rng.h) */
  mt_parallel *par;
  const struct mt_isa *isa; /* the variants for this processor, chosen once at start */
  mt_kerror *error;
  const struct mt_blas *(*blas)(mt_dtype dtype); /* NULL, or lends a BLAS: loaded when asked for */
} mt_kargs;

typedef int (*mt_kernel_fn)(const mt_kargs *k);
/* Pure; sizes overflow-checked, SIZE_MAX on overflow. */
typedef size_t (*mt_scratch_fn)(const mt_kargs *k);

#define MT_KARG_INT(k, j) ((k)->arg[j].u.i)
/* The number at position j as a double, whether it was given as integer or float. */
static inline double mt_karg_f(const mt_kargs *k, int j) {
  const mt_value *v = &k->arg[j];
  return v->kind == MT_FLOAT ? v->u.f : (double)v->u.i;
}
static inline int64_t mt_karg_i(const mt_kargs *k, int j) {
  const mt_value *v = &k->arg[j];
  return v->kind == MT_FLOAT ? (int64_t)v->u.f : v->u.i;
}
/* Number of tensors that a tensor[] argument brought: one tensor may stand for a list of one. */
static inline int mt_karg_len(const mt_kargs *k, int j) {
  return k->arg[j].kind == MT_TENSORS ? k->arg[j].n : k->arg[j].kind == MT_TENSOR;
}

/* The elementwise formulas by name. */
typedef enum mt_ew {
  MT_EW_NONE,
#define MT_UNARY(name, types, ...) MT_EW_##name,
#define MT_BINARY(name, types, ...) MT_EW_##name,
#define MT_TERNARY(name, types, ...) MT_EW_##name,
#define MT_TEST(name, types, ...) MT_EW_##name,
#define MT_COMPARE(name, types, ...) MT_EW_##name,
#define MT_SELECT(name, types, ...) MT_EW_##name,
#include "elementwise.def"
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT
  MT_NEW
} mt_ew;

/* Prototypes: `int mt_cpu_NAME(const mt_kargs *)`; MT_KERNEL_S has a scratch query as well. */
/* Sources compiled per instruction set need none, and are dear to compile again. */
#ifndef MT_ISA
#define MT_KERNEL(name) int mt_cpu_##name(const mt_kargs *k);
#define MT_KERNEL_S(name)              \
  int mt_cpu_##name(const mt_kargs *k); \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k);
#include "kernels.def"
#undef MT_KERNEL
#undef MT_KERNEL_S
#endif

/* Chooses the instruction-set variants for this processor. Reads MOTH_ISA ("v2", "v3", "v4") once,
 * to test the others. Never NULL; the same pointer every time. */
const struct mt_isa *mt_isa_choose(void);
const char *mt_isa_name(const struct mt_isa *isa);

#endif
