/* api.c - the public C functions on tensors; see moth.h. */
#include <stdarg.h>
#include <string.h>

#include "invoke.h"
#include "shape.h"
#include "tape.h"

static bool known_dtype(moth_dtype d) { return (int)d >= 0 && (int)d < MT_NDTYPES; }

static int check_shape(moth_runtime *rt, moth_dtype dtype, int ndim, const int64_t *size) {
  if (!known_dtype(dtype)) return mt_fail(rt, MT_ERROR, "%d is not a dtype", (int)dtype);
  if (ndim < 0 || ndim > MT_MAX_DIM)
    return mt_fail(rt, MT_ERROR, "expected 0 to %d dims, got %d", MT_MAX_DIM, ndim);
  int64_t n = mt_shape_numel(ndim, size);
  if (n < 0 || n > INT64_MAX / 16)
    return mt_fail(rt, MT_ERROR, "shape %s is negative or too large", mt_shape_str(rt, ndim, size));
  return MT_OK;
}

int moth_empty(moth_tensor **out, moth_runtime *rt, moth_dtype dtype, int ndim,
               const int64_t *size) {
  int status = check_shape(rt, dtype, ndim, size);
  return status ? status : mt_tensor_new(out, rt, (mt_dtype)dtype, ndim, size, NULL);
}

int moth_wrap(moth_tensor **out, moth_runtime *rt, void *data, moth_dtype dtype, int ndim,
              const int64_t *size, const int64_t *stride, void (*release)(void *ud), void *ud) {
  int64_t zero = 0, reach = 1, own[MT_MAX_DIM];
  moth_tensor *t;
  int status = check_shape(rt, dtype, ndim, size);
  if (status) return status;
  if (!stride) {
    mt_shape_contiguous(ndim, size, own);
    stride = own;
  }
  for (int d = 0; d < ndim; d++) {
    if (stride[d] < 0) return mt_fail(rt, MT_ERROR, "stride %d is negative", d);
    reach += size[d] ? (size[d] - 1) * stride[d] : 0;
  }
  /* An empty tensor brings the records; its storage is then pointed at the host's memory. */
  status = mt_tensor_new(&t, rt, (mt_dtype)dtype, 1, &zero, NULL);
  if (status) return status;
  mt_storage_wrap(t->storage, data, (size_t)(reach * mt_dtype_size((mt_dtype)dtype)), release, ud);
  t->v.data = data;
  t->v.ndim = (int8_t)ndim;
  memcpy(t->v.size, size, sizeof(int64_t) * (size_t)ndim);
  memcpy(t->v.stride, stride, sizeof(int64_t) * (size_t)ndim);
  mt_view_finish(&t->v);
  *out = t;
  return MT_OK;
}

void moth_retain(moth_tensor *t) { mt_tensor_retain(t); }
void moth_release(moth_tensor *t) { mt_tensor_release(t); }

moth_dtype moth_tensor_dtype(const moth_tensor *t) { return (moth_dtype)t->v.dtype; }
int moth_tensor_ndim(const moth_tensor *t) { return t->v.ndim; }
const int64_t *moth_tensor_sizes(const moth_tensor *t) { return t->v.size; }
const int64_t *moth_tensor_strides(const moth_tensor *t) { return t->v.stride; }
int64_t moth_tensor_numel(const moth_tensor *t) { return t->v.numel; }
void *moth_tensor_data(const moth_tensor *t) { return t->v.data; }

/* ---- calls by name ---- */

static mt_value next_value(char letter, va_list *ap) {
  mt_value v = {.kind = MT_NIL};
  switch (letter) {
    case 't':
      return mt_t(va_arg(*ap, moth_tensor *));
    case 'i':
      return mt_i(va_arg(*ap, int64_t));
    case 'f':
      return mt_f(va_arg(*ap, double));
    case 'b':
      return mt_b(va_arg(*ap, int) != 0);
    case 's':
      return mt_s(va_arg(*ap, const char *));
    case 'I':
      v.n = va_arg(*ap, int);
      return mt_ints(va_arg(*ap, const int64_t *), v.n);
    case 'T':
      v.n = va_arg(*ap, int);
      return mt_ts(va_arg(*ap, moth_tensor *const *), v.n);
    default:
      return v;
  }
}

static int take_results(mt_results *r, moth_tensor **out, int *nout, const char *op) {
  moth_tensor **t = mt_results_all(r);
  int room = *nout;
  *nout = r->n;
  if (r->n > room) {
    int n = r->n;
    moth_runtime *rt = r->rt;
    mt_results_free(r);
    return mt_fail(rt, MT_ERROR, "%s has %d results, room for %d", op, n, room);
  }
  for (int i = 0; i < r->n; i++) out[i] = t[i];
  mt_results_taken(r);
  return MT_OK;
}

int moth_call(moth_runtime *rt, moth_tensor **out, int *nout, const char *op, const char *args,
              ...) {
  mt_value v[MT_MAX_ARGS];
  mt_results r;
  int n = 0;
  size_t len = strlen(op);
  char plain[40];
  bool inplace = false;
  const mt_opinfo *info = mt_op_find(op);
  if (!info && len > 1 && len < sizeof plain && op[len - 1] == '_') {
    memcpy(plain, op, len - 1);
    plain[len - 1] = 0;
    info = mt_op_find(plain);
    inplace = true;
  }
  if (!info || (inplace && !(info->row->flags & MT_INPLACE)))
    return mt_fail(rt, MT_ERROR, "there is no operation '%s'", op);
  if (strlen(args) > MT_MAX_ARGS || strspn(args, "tifbsnIT") != strlen(args))
    return mt_fail(rt, MT_ERROR, "%s: bad description of arguments '%s'", op, args);
  va_list ap;
  va_start(ap, args);
  for (; args[n]; n++) v[n] = next_value(args[n], &ap);
  va_end(ap);
  int status = mt_invoke(&r, rt, info, n, v, 0, inplace);
  return status ? status : take_results(&r, out, nout, op);
}

/* ---- gradients ---- */

int moth_set_requires_grad(moth_tensor *t, bool on) {
  mt_dtype d = (mt_dtype)t->v.dtype;
  if (on && !mt_dtype_is_float(d) && d != MT_C64)
    return mt_fail(t->rt, MT_ERROR, "only floating tensors can require a gradient, not %s",
                   mt_dtypes[d].name);
  if (t->node) {
    if (on) return MT_OK;
    return mt_fail(t->rt, MT_ERROR,
                   "only leaves can stop requiring a gradient; use detach() for the result of an "
                   "operation");
  }
  if (!on && !t->leaf) return MT_OK;
  mt_leaf *leaf = mt_tensor_leaf(t);
  if (!leaf) return mt_fail(t->rt, MT_NOMEM, "out of memory for a tensor record");
  leaf->wants = on;
  return MT_OK;
}

bool moth_requires_grad(const moth_tensor *t) { return mt_tensor_needs_grad(t); }

int moth_backward(moth_tensor *t, moth_tensor *grad, bool retain_graph, bool create_graph) {
  moth_tensor *root[1] = {t}, *g[1] = {grad};
  mt_backward_args a = {.nroots = 1,
                        .root = root,
                        .grad = g,
                        .retain_graph = retain_graph || create_graph,
                        .create_graph = create_graph};
  return mt_tape_backward(t->rt, &a);
}

moth_tensor *moth_grad(const moth_tensor *t) { return t->leaf ? t->leaf->grad : NULL; }

void moth_zero_grad(moth_tensor *t) {
  if (!t->leaf || !t->leaf->grad) return;
  mt_tensor_release(t->leaf->grad);
  t->leaf->grad = NULL;
}
