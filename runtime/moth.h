/* moth.h - the public C interface of Moth: tensors with automatic differentiation.
 *
 * A host program includes this file alone (and lua/moth_lua.h to run Lua). A runtime and the
 * tensors made with it belong to one thread at a time; any number of runtimes may live in one
 * process. Nothing here prints, exits, aborts, or touches signal handlers, the locale, the
 * floating-point mode or the thread settings of the host.
 *
 * Errors: functions that can fail return MOTH_OK or a negative status; moth_error(rt) then tells
 * in words. Results come through the first pointer. `moth_tensor **out`: the caller owns one
 * reference and gives it back with moth_release. Indices and dims are 0-based. */
#ifndef MOTH_H
#define MOTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOTH_VERSION "0.1.0"
#define MOTH_API __attribute__((visibility("default")))

typedef struct moth_runtime moth_runtime;
typedef struct moth_tensor moth_tensor;

enum {
  MOTH_OK = 0,
  MOTH_ERROR = -1,       /* wrong arguments, shapes, types */
  MOTH_NOMEM = -2,       /* out of memory, or over the limit that was set */
  MOTH_INTERRUPTED = -3, /* stopped by moth_interrupt */
  MOTH_BADINDEX = -4,    /* an element of an index tensor is out of range */
  MOTH_NOKERNEL = -5     /* the operation does not exist for this dtype or device */
};

typedef enum moth_dtype {
  MOTH_F64, MOTH_F32, MOTH_F16, MOTH_BF16, MOTH_I64, MOTH_I32, MOTH_I16, MOTH_I8, MOTH_U8,
  MOTH_BOOL, MOTH_C64
} moth_dtype;

/* As lua_Alloc: allocates, resizes or (nsize 0) frees; NULL when it cannot. Called from the
 * runtime's thread only, for everything but tensor elements. */
typedef void *(*moth_alloc_fn)(void *ud, void *ptr, size_t osize, size_t nsize);

typedef struct moth_options {
  moth_alloc_fn alloc;  /* NULL: realloc and free */
  void *alloc_ud;
  int threads;          /* most threads used by kernels; 0: as many as the process may use */
  int64_t memory_limit; /* bytes of tensor elements; 0: none */
} moth_options;

/* Opens a runtime; `options` may be NULL. NULL when there is no memory. */
MOTH_API moth_runtime *moth_open(const moth_options *options);
/* Closes it. Tensors still held by the host stay readable until released. */
MOTH_API void moth_close(moth_runtime *rt);
/* The last error in words; "" if there was none. Valid until the next call. */
MOTH_API const char *moth_error(const moth_runtime *rt);
/* Asks the running operation to stop. The only function that may be called from any thread and
 * from a signal handler. The request holds until moth_resume. */
MOTH_API void moth_interrupt(moth_runtime *rt);
MOTH_API void moth_resume(moth_runtime *rt);
MOTH_API int moth_set_threads(moth_runtime *rt, int threads);
MOTH_API int moth_threads(const moth_runtime *rt);
MOTH_API void moth_seed(moth_runtime *rt, uint64_t seed);

typedef struct moth_memory {
  int64_t live;      /* bytes of elements in use */
  int64_t cached;    /* bytes kept for reuse */
  int64_t peak;      /* highest `live` since the start or the last reset */
  int64_t allocated; /* bytes handed out in all */
  int64_t limit;     /* 0: none */
} moth_memory;
MOTH_API void moth_memory_stats(const moth_runtime *rt, moth_memory *out);
MOTH_API void moth_memory_reset_peak(moth_runtime *rt);
MOTH_API void moth_memory_set_limit(moth_runtime *rt, int64_t bytes);
MOTH_API void moth_memory_empty_cache(moth_runtime *rt);

/* A new tensor with undefined elements. */
MOTH_API int moth_empty(moth_tensor **out, moth_runtime *rt, moth_dtype dtype, int ndim,
                        const int64_t *size);
/* A tensor on the host's memory, nothing is copied. `stride` counts elements, NULL: contiguous.
 * The memory must stay until `release(ud)` is called (NULL: until moth_close). */
MOTH_API int moth_wrap(moth_tensor **out, moth_runtime *rt, void *data, moth_dtype dtype, int ndim,
                       const int64_t *size, const int64_t *stride, void (*release)(void *ud),
                       void *ud);
MOTH_API void moth_retain(moth_tensor *t);
MOTH_API void moth_release(moth_tensor *t); /* NULL is allowed */

MOTH_API moth_dtype moth_tensor_dtype(const moth_tensor *t);
MOTH_API int moth_tensor_ndim(const moth_tensor *t);
MOTH_API const int64_t *moth_tensor_sizes(const moth_tensor *t);
MOTH_API const int64_t *moth_tensor_strides(const moth_tensor *t); /* in elements */
MOTH_API int64_t moth_tensor_numel(const moth_tensor *t);
MOTH_API void *moth_tensor_data(const moth_tensor *t); /* the first element, not a copy */

/* Calls any operation by name with its arguments in schema order; missing ones at the end take
 * their defaults. `args` describes them, one letter each: t tensor, i int64_t, f double, b int
 * (boolean), s const char *, n nil (takes no argument), I int count + const int64_t * (a list),
 * T int count + moth_tensor *const * (a list). `out` takes *nout tensors; *nout becomes how many.
 *     moth_tensor *y; int n = 1;
 *     moth_call(rt, &y, &n, "softmax", "ti", x, (int64_t)-1); */
MOTH_API int moth_call(moth_runtime *rt, moth_tensor **out, int *nout, const char *op,
                       const char *args, ...);

MOTH_API int moth_set_requires_grad(moth_tensor *t, bool on);
MOTH_API bool moth_requires_grad(const moth_tensor *t);
/* Adds d(t)/d(leaf) to the gradient of every leaf. `grad` may be NULL for one element. */
MOTH_API int moth_backward(moth_tensor *t, moth_tensor *grad, bool retain_graph, bool create_graph);
MOTH_API moth_tensor *moth_grad(const moth_tensor *t); /* borrowed; NULL if there is none */
MOTH_API void moth_zero_grad(moth_tensor *t);          /* forgets the gradient */
/* Switches recording; returns what it was. */
MOTH_API bool moth_set_grad_enabled(moth_runtime *rt, bool on);

#ifdef __cplusplus
}
#endif
#endif
