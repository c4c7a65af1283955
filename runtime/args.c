/* args.c - see args.h. */
#include "args.h"

#include <math.h>
#include <string.h>

#include "shape.h"
#include "types.h"

static const char *const kind_name[] = {"nothing", "tensor",  "integer",         "number",
                                        "boolean", "string",  "list of integers", "list of numbers",
                                        "list of tensors"};

static int bad(mt_frame *f, int j, const char *expected, const mt_value *got) {
  return mt_fail(f->c.rt, MT_ERROR, "argument '%s': expected %s, got %s", f->c.op->arg[j].name,
                 expected, kind_name[got->kind]);
}

/* Room for n integers in the frame. */
static int64_t *list_room(mt_frame *f, int n) {
  if (f->nlist + n > MT_LISTBUF) return NULL;
  f->nlist += n;
  return f->list + f->nlist - n;
}

static int list_full(mt_frame *f, int j) {
  return mt_fail(f->c.rt, MT_ERROR, "argument '%s': too many elements", f->c.op->arg[j].name);
}

/* A float with an integral value is an integer. */
static bool integral(mt_value *v) {
  if (v->kind == MT_INT) return true;
  if (v->kind != MT_FLOAT || v->u.f != floor(v->u.f) || fabs(v->u.f) > 9.2e18) return false;
  v->u.i = (int64_t)v->u.f;
  v->kind = MT_INT;
  return true;
}

static int to_int(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_FLOAT && !integral(v))
    return mt_fail(f->c.rt, MT_ERROR, "argument '%s': expected an integer, got %.14g",
                   f->c.op->arg[j].name, v->u.f);
  return v->kind == MT_INT ? MT_OK : bad(f, j, "integer", v);
}

static int to_number(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_BOOL_ARG) v->kind = MT_INT;
  return v->kind == MT_INT || v->kind == MT_FLOAT ? MT_OK : bad(f, j, "number", v);
}

static int to_float(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_INT) *v = (mt_value){.kind = MT_FLOAT, .u.f = (double)v->u.i};
  return v->kind == MT_FLOAT ? MT_OK : bad(f, j, "number", v);
}

static int to_bool(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_INT) v->kind = MT_BOOL_ARG;
  return v->kind == MT_BOOL_ARG ? MT_OK : bad(f, j, "boolean", v);
}

/* A list of integers; one integer stands for a list of one, or of all when the length is fixed. */
static int to_ints(mt_frame *f, int j, mt_value *v) {
  int fixed = f->c.op->arg[j].fixed;
  if (v->kind == MT_INTS && (!fixed || v->n == fixed)) return MT_OK;
  int64_t one = 0;
  if (v->kind == MT_INTS && v->n == 1) {
    one = v->u.ints[0];
  } else if (v->kind == MT_INTS) {
    return mt_fail(f->c.rt, MT_ERROR, "argument '%s': expected %d integers, got %d",
                   f->c.op->arg[j].name, fixed, v->n);
  } else if (integral(v)) {
    one = v->u.i;
  } else {
    return bad(f, j, "integer or list of integers", v);
  }
  int n = fixed ? fixed : 1;
  int64_t *room = list_room(f, n);
  if (!room) return list_full(f, j);
  for (int i = 0; i < n; i++) room[i] = one;
  *v = (mt_value){.kind = MT_INTS, .n = n, .u.ints = room};
  return MT_OK;
}

static int first_ndim(const mt_frame *f) {
  for (int i = 0; i < f->c.nin; i++)
    if (f->inv[i]) return f->inv[i]->ndim;
  return 0;
}

static int to_dim(mt_frame *f, int j, mt_value *v, int ndim) {
  int d, status = to_int(f, j, v);
  if (status) return status;
  status = mt_shape_dim(f->c.rt, &d, f->c.op->arg[j].name, v->u.i, ndim);
  v->u.i = d;
  return status;
}

static int to_dims(mt_frame *f, int j, mt_value *v) {
  unsigned seen = 0;
  int status = to_ints(f, j, v), ndim = first_ndim(f);
  if (status) return status;
  int64_t *room = list_room(f, v->n);
  if (!room) return list_full(f, j);
  for (int i = 0; i < v->n; i++) {
    int d;
    status = mt_shape_dim(f->c.rt, &d, f->c.op->arg[j].name, v->u.ints[i], ndim);
    if (status) return status;
    if (seen >> d & 1)
      return mt_fail(f->c.rt, MT_ERROR, "argument '%s': dim %d appears twice",
                     f->c.op->arg[j].name, d + f->c.index_base);
    seen |= 1u << d;
    room[i] = d;
  }
  v->u.ints = room;
  return MT_OK;
}

static int to_dtype(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_STR) {
    mt_dtype d = mt_dtype_by_name(v->u.s);
    if (d == MT_NODTYPE)
      return mt_fail(f->c.rt, MT_ERROR, "argument '%s': '%.40s' is not a dtype",
                     f->c.op->arg[j].name, v->u.s);
    *v = (mt_value){.kind = MT_INT, .u.i = d};
  }
  if (v->kind != MT_INT || v->u.i < 0 || v->u.i >= MT_NDTYPES) return bad(f, j, "dtype", v);
  return MT_OK;
}

static int to_floats(mt_frame *f, int j, mt_value *v) {
  if (v->kind == MT_FLOATS) return MT_OK;
  int n = v->kind == MT_INTS ? v->n : 1;
  double *room = (double *)(void *)list_room(f, n);
  if (!room) return list_full(f, j);
  if (v->kind == MT_INTS) {
    for (int i = 0; i < n; i++) room[i] = (double)v->u.ints[i];
  } else {
    int status = to_float(f, j, v);
    if (status) return status;
    room[0] = v->u.f;
  }
  *v = (mt_value){.kind = MT_FLOATS, .n = n, .u.floats = room};
  return MT_OK;
}

static int convert(mt_frame *f, int j) {
  mt_value *v = &f->arg[j];
  switch (f->c.op->arg[j].kind) {
    case MT_A_INT:
    case MT_A_POS:
      return to_int(f, j, v);
    case MT_A_FLOAT:
      return to_float(f, j, v);
    case MT_A_NUMBER:
      return to_number(f, j, v);
    case MT_A_BOOL:
      return to_bool(f, j, v);
    case MT_A_STR:
      return v->kind == MT_STR ? MT_OK : bad(f, j, "string", v);
    case MT_A_PADDING:
      return v->kind == MT_STR ? MT_OK : to_ints(f, j, v);
    case MT_A_INTS:
    case MT_A_SIZE:
      return to_ints(f, j, v);
    case MT_A_FLOATS:
      return to_floats(f, j, v);
    case MT_A_DIM:
      return to_dim(f, j, v, first_ndim(f));
    case MT_A_NEWDIM:
      return to_dim(f, j, v, first_ndim(f) + 1);
    case MT_A_DIMS:
      return to_dims(f, j, v);
    case MT_A_DTYPE:
      return to_dtype(f, j, v);
    default:
      return MT_OK; /* tensors: see collect */
  }
}

static void add_input(mt_frame *f, moth_tensor *t) {
  f->in[f->c.nin] = t;
  f->inv[f->c.nin++] = t ? &t->v : NULL;
}

/* A number among the operands: a 0-d view on the frame, float64 or int64. */
static int add_number(mt_frame *f, int j, const mt_value *v) {
  if (f->nnum == 3) return bad(f, j, "tensor", v);
  mt_number *num = &f->num[f->nnum++];
  num->view.data = (char *)&num->u;
  num->view.ndim = 0;
  num->view.numel = 1;
  num->view.contiguous = true;
  if (v->kind == MT_FLOAT) {
    num->u.f = v->u.f;
    num->view.dtype = MT_F64;
  } else if (v->kind == MT_INT) {
    num->u.i = v->u.i;
    num->view.dtype = MT_I64;
  } else if (v->kind == MT_BOOL_ARG) {
    *(uint8_t *)&num->u = v->u.i != 0;
    num->view.dtype = MT_BOOL;
  } else {
    return bad(f, j, "tensor or number", v);
  }
  f->in[f->c.nin] = NULL;
  f->inv[f->c.nin++] = &num->view;
  return MT_OK;
}

static int add_list(mt_frame *f, int j, const mt_value *v) {
  if (v->kind == MT_TENSOR) {
    add_input(f, v->u.t);
    return MT_OK;
  }
  if (v->kind != MT_TENSORS) return bad(f, j, "list of tensors", v);
  for (int i = 0; i < v->n; i++) {
    if (!v->u.tensors[i])
      return mt_fail(f->c.rt, MT_ERROR, "argument '%s': element %d is not a tensor",
                     f->c.op->arg[j].name, i + f->c.index_base);
    add_input(f, v->u.tensors[i]);
  }
  return MT_OK;
}

static int add_tensor_arg(mt_frame *f, int j) {
  const mt_arginfo *info = &f->c.op->arg[j];
  const mt_value *v = &f->arg[j];
  if (MT_LIKELY(v->kind == MT_TENSOR && info->kind != MT_A_TENSORS)) {
    if (info->kind == MT_A_INDEX &&
        mt_dtype_category((mt_dtype)v->u.t->v.dtype) != MT_CAT_INT)
      return mt_fail(f->c.rt, MT_ERROR, "argument '%s': expected integer positions, got %s",
                     info->name, mt_tensor_str(v->u.t));
    add_input(f, v->u.t);
    return MT_OK;
  }
  if (info->kind == MT_A_TENSORS && v->kind != MT_NIL) return add_list(f, j, v);
  if (v->kind == MT_NIL && info->optional) {
    add_input(f, NULL);
    return MT_OK;
  }
  if (info->kind == MT_A_OPERAND) return add_number(f, j, v);
  return bad(f, j, "tensor", v);
}

/* Space for all inputs; long lists need a record. */
static int input_room(mt_frame *f) {
  size_t n = (size_t)f->c.op->nin;
  f->in = f->in_buf;
  f->inv = f->inv_buf;
  f->record = 0;
  if (MT_LIKELY(!f->c.op->has_list)) return MT_OK;
  for (int j = 0; j < f->c.op->narg; j++)
    if (f->arg[j].kind == MT_TENSORS) n += (size_t)f->arg[j].n;
  if (n <= MT_INLINE_INPUTS) return MT_OK;
  f->record = n * 2 * sizeof(void *);
  void *p = mt_record_new(&f->c.rt->alloc, f->record);
  if (!p) {
    f->record = 0;
    return mt_fail(f->c.rt, MT_NOMEM, "out of memory for a list of tensors");
  }
  f->in = p;
  f->inv = (const mt_view **)p + n;
  return MT_OK;
}

static int defaults(mt_frame *f, int n, const mt_value *arg) {
  const mt_opinfo *op = f->c.op;
  for (int j = 0; j < op->narg; j++) {
    const mt_arginfo *a = &op->arg[j];
    if (j < n && arg[j].kind != MT_NIL) {
      f->arg[j] = arg[j];
    } else if (a->has_default) {
      f->arg[j] = a->def;
    } else {
      return mt_fail(f->c.rt, MT_ERROR, "argument '%s' is missing", a->name);
    }
  }
  if (n > op->narg)
    return mt_fail(f->c.rt, MT_ERROR, "expected at most %d arguments, got %d", op->narg, n);
  return MT_OK;
}

void mt_args_free(mt_frame *f) {
  if (f->record) mt_record_free(&f->c.rt->alloc, f->in, f->record);
  f->record = 0;
}

int mt_args_fill(mt_frame *f, moth_runtime *rt, const mt_opinfo *op, int n, const mt_value *arg,
                 int base) {
  f->c.rt = rt;
  f->c.op = op;
  f->c.arg = f->arg;
  f->c.narg = op->narg;
  f->c.nin = 0;
  f->c.nout = op->nout;
  f->c.index_base = base;
  f->nnum = f->nlist = 0;
  f->record = 0;
  int status = defaults(f, n, arg);
  if (!status) status = input_room(f);
  for (int j = 0; j < op->narg && !status; j++)
    if (op->arg[j].in >= 0) status = add_tensor_arg(f, j);
  if (!op->plain)
    for (int j = 0; j < op->narg && !status; j++)
      if (f->arg[j].kind != MT_NIL) status = convert(f, j);
  f->c.in = f->in;
  f->c.inv = f->inv;
  if (status) mt_args_free(f);
  return status;
}
