/* types.c - see types.h. */
#include "types.h"

#include <stdio.h>
#include <string.h>

#include "tensor.h"

mt_dtype mt_promote(mt_dtype a, mt_dtype b) {
  if (a == b || b == MT_NODTYPE) return a;
  if (a == MT_NODTYPE) return b;
  mt_category ca = mt_dtype_category(a), cb = mt_dtype_category(b);
  if (ca != cb) {
    mt_dtype hi = ca > cb ? a : b, lo = ca > cb ? b : a;
    /* There is no complex128: a double beside a complex stays complex64. */
    (void)lo;
    return hi;
  }
  if (ca == MT_CAT_FLOAT) {
    if ((a == MT_F16 && b == MT_BF16) || (a == MT_BF16 && b == MT_F16)) return MT_F32;
    return a < b ? a : b; /* f64, f32, then a half */
  }
  if (ca == MT_CAT_INT) {
    if (a == MT_U8 || b == MT_U8) { /* unsigned beside signed needs one size more */
      mt_dtype s = a == MT_U8 ? b : a;
      return s == MT_I8 ? MT_I16 : s;
    }
    return a < b ? a : b;
  }
  return a;
}

bool mt_can_cast(mt_dtype from, mt_dtype to) {
  return mt_dtype_category(from) <= mt_dtype_category(to);
}

static const struct {
  const char *name;
  mt_dtype dtype;
} aliases[] = {{"double", MT_F64}, {"float", MT_F32},  {"half", MT_F16}, {"long", MT_I64},
               {"int", MT_I32},    {"short", MT_I16},  {"char", MT_I8},  {"byte", MT_U8},
               {"cfloat", MT_C64}, {"boolean", MT_BOOL}};

mt_dtype mt_dtype_by_name(const char *name) {
  for (int d = 0; d < MT_NDTYPES; d++)
    if (strcmp(mt_dtypes[d].name, name) == 0) return (mt_dtype)d;
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
    if (strcmp(aliases[i].name, name) == 0) return aliases[i].dtype;
  return MT_NODTYPE;
}

/* The ranks of promotion: tensors with dims, 0-d tensors, numbers. */
typedef struct ranks {
  mt_dtype dims, zero, number;
} ranks;

static void rank_input(const mt_call *c, int i, ranks *r) {
  const mt_view *v = c->inv[i];
  if (!v) return;
  mt_dtype d = (mt_dtype)v->dtype;
  if (!c->in[i]) {
    if (d == MT_F64) d = c->rt->default_float;
    r->number = mt_promote(r->number, d);
  } else if (v->ndim == 0) {
    r->zero = mt_promote(r->zero, d);
  } else {
    r->dims = mt_promote(r->dims, d);
  }
}

/* A lower rank counts only when its category is higher. */
static mt_dtype combine(mt_dtype hi, mt_dtype lo) {
  if (hi == MT_NODTYPE) return lo;
  if (lo == MT_NODTYPE) return hi;
  return mt_dtype_category(hi) >= mt_dtype_category(lo) ? hi : mt_promote(hi, lo);
}

/* Whether input i is a tensor of positions, which has no say. */
static bool is_index(const mt_call *c, int i) {
  if (c->op->has_list) return false;
  for (int j = 0; j < c->op->narg; j++)
    if (c->op->arg[j].in == i) return c->op->arg[j].kind == MT_A_INDEX;
  return false;
}

static mt_dtype promote_all(const mt_call *c) {
  ranks r = {MT_NODTYPE, MT_NODTYPE, MT_NODTYPE};
  for (int i = 0; i < c->nin; i++)
    if (!is_index(c, i)) rank_input(c, i, &r);
  /* numbers: of scalar arguments such as alpha count as well, but never alone */
  return combine(combine(r.dims, r.zero), r.number);
}

static int equal_all(mt_call *c) {
  mt_dtype d = MT_NODTYPE;
  int first = 0;
  for (int i = 0; i < c->nin; i++) {
    if (!c->in[i] || is_index(c, i)) continue;
    mt_dtype e = (mt_dtype)c->inv[i]->dtype;
    if (d == MT_NODTYPE) {
      d = e;
      first = i;
    } else if (e != d) {
      return mt_fail(c->rt, MT_ERROR, "tensors must have one dtype: got %s and %s",
                     mt_tensor_str(c->in[first]), mt_tensor_str(c->in[i]));
    }
  }
  c->common = d;
  return MT_OK;
}

static int find_common(mt_call *c) {
  switch ((mt_rule)c->op->row->types.rule) {
    case MT_FIRST:
      c->common = c->nin && c->inv[0] ? (mt_dtype)c->inv[0]->dtype : MT_NODTYPE;
      break;
    case MT_EQUAL:
      return equal_all(c);
    case MT_PROMOTE:
      c->common = promote_all(c);
      break;
    case MT_PROMOTE_FLOAT:
      c->common = promote_all(c);
      if (c->common != MT_NODTYPE && mt_dtype_category(c->common) < MT_CAT_FLOAT)
        c->common = c->rt->default_float;
      break;
    case MT_DEFAULT:
      c->common = c->rt->default_float;
      break;
  }
  if (c->common == MT_NODTYPE) c->common = c->rt->default_float;
  return MT_OK;
}

mt_dtype mt_compute_type(mt_dtype d) {
  switch (mt_dtype_category(d)) {
    case MT_CAT_COMPLEX:
      return MT_C64;
    case MT_CAT_FLOAT:
      return d == MT_F64 ? MT_F64 : MT_F32;
    default:
      return MT_I64;
  }
}

static mt_dtype result_type(const mt_call *c, mt_dtype asked) {
  if (c->op->row->types.result == MT_IS_BOOL) return MT_BOOL;
  if (asked != MT_NODTYPE) return asked;
  if (c->op->row->types.result == MT_SUM_TYPE && mt_dtype_category(c->common) < MT_CAT_FLOAT)
    return MT_I64;
  return c->common;
}

static void names_of(uint32_t set, char *buf, size_t cap) {
  size_t n = 0;
  for (int d = 0; d < MT_NDTYPES && n < cap - 16; d++)
    if (set >> d & 1)
      n += (size_t)snprintf(buf + n, cap - n, n ? ", %s" : "%s", mt_dtypes[d].name);
}

int mt_types_apply(mt_call *c) {
  const mt_op *row = c->op->row;
  int status = find_common(c);
  if (status) return status;
  mt_dtype asked = MT_NODTYPE;
  if (c->op->dtype_arg >= 0 && c->arg[c->op->dtype_arg].kind == MT_INT)
    asked = (mt_dtype)c->arg[c->op->dtype_arg].u.i;
  mt_dtype judged = asked != MT_NODTYPE ? asked : c->common;
  if (!(row->types.allow >> judged & 1)) {
    char names[160];
    names_of(row->types.allow, names, sizeof names);
    return mt_fail(c->rt, MT_ERROR, "not defined for %s: expected one of %s",
                   mt_dtypes[judged].name, names);
  }
  c->compute = mt_compute_type(judged);
  for (int i = 0; i < c->nout; i++)
    c->out[i].dtype = c->op->res[i] == MT_R_INDEX  ? MT_I64
                      : c->op->res[i] == MT_R_BOOL ? MT_BOOL
                                                   : result_type(c, asked);
  return MT_OK;
}
