/* index.c - x[key] and x[key] = value.
 *
 * A key is a position, an index tensor, a mask, or a table with one item per dim:
 *
 *     x[2]   x[-1]                  the second, the last along dim 1
 *     x[{2, 5}]                     row 2, column 5
 *     x[{{2, 5}}]                   rows 2 to 5; {first, last} and {first, last, step}, inclusive
 *     x[{2, {}, {1, -1, 2}}]        {} everything; -1 is the last
 *     x[{"...", 1}]                 "..." as many {} as are missing
 *     x[{{}, moth.newaxis}]         a new dim of size 1
 *     x[idx]  x[{idx, {}, idx2}]    index tensors: broadcast together, result dims in their place,
 * or in front when they are apart x[mask]                       the elements where mask is true;
 * covers as many dims as it has
 *
 * Ranges are cut at the ends of the dim; first > last gives size 0, as in a Lua loop. Positions out
 * of range raise. The key is read completely before anything is computed, and from then on nothing
 * calls Lua: tensors are borrowed from the stack. Positions, ranges and newaxis become a chain of
 * views; index tensors and masks one `index`, or one in-place write. All of it is recorded, so
 * `h[t] = v` is differentiable. */
#include "index.h"

#include <stdio.h>
#include <string.h>

#include "../runtime/ctx.h"

enum {
  MAX_ITEMS = 2 * MT_MAX_DIM + 2
};

typedef enum kind {
  POSITION,
  RANGE,
  NEWAXIS,
  ELLIPSIS,
  INDEX,
  MASK
} kind;

typedef struct item {
  kind kind;
  int64_t first, last, step; /* 1-based as written; POSITION: first */
  moth_tensor *t;            /* INDEX, MASK */
} item;

/* A key, read. */
typedef struct key {
  int n, consumed; /* items; dims they stand for */
  bool ellipsis, table;
  item item[MAX_ITEMS];
} key;

/* What is left to do after the views: index tensors and the dim that each addresses. */
typedef struct advanced {
  int n;
  moth_tensor *t[MT_MAX_DIM];
  int64_t dim[MT_MAX_DIM];
} advanced;

/* ---- reading a key: may raise, holds nothing ---- */

/* "x[...], item 2" */
static int bad_item(lua_State *L, int i, const char *what) {
  if (i == 0) return mt_error_throw(L, "bad index: %s", what);
  return mt_error_throw(L, "bad index, item %d: %s", i, what);
}

static int64_t read_bound(lua_State *L, int idx, int pos, int i) {
  int isint;
  lua_rawgeti(L, idx, pos);
  lua_Integer v = lua_tointegerx(L, -1, &isint);
  if (lua_type(L, -1) != LUA_TNUMBER || !isint)
    bad_item(L, i, "a range is {}, {first, last} or {first, last, step} of integers");
  lua_pop(L, 1);
  return v;
}

static bool is_empty(lua_State *L, int idx) {
  lua_pushnil(L);
  if (!lua_next(L, idx)) return true;
  lua_pop(L, 2);
  return false;
}

static void read_range(lua_State *L, item *it, int idx, int i) {
  size_t n = lua_rawlen(L, idx);
  *it = (item){.kind = RANGE, .first = 1, .last = -1, .step = 1};
  if (n == 0 && is_empty(L, idx)) return;
  if (n == 1) bad_item(L, i, "a range needs a last position: {first, last}; -1 is the end");
  if (n != 2 && n != 3)
    bad_item(L, i, "a range is {}, {first, last} or {first, last, step} of integers");
  it->first = read_bound(L, idx, 1, i);
  it->last = read_bound(L, idx, 2, i);
  if (n == 3) it->step = read_bound(L, idx, 3, i);
  if (it->first == 0) bad_item(L, i, "indices start at 1, got a range from 0");
  if (it->step < 1) bad_item(L, i, "the step of a range must be at least 1 (x:flip() reverses)");
}

static void read_tensor(lua_State *L, item *it, moth_tensor *t, int i) {
  mt_dtype dtype = (mt_dtype)t->v.dtype;
  *it = (item){.kind = dtype == MT_BOOL ? MASK : INDEX, .t = t};
  if (mt_dtype_category(dtype) > MT_CAT_INT)
    bad_item(L, i, "a tensor as index must hold integers (positions) or bool (a mask)");
  if (dtype == MT_U8)
    bad_item(L, i, "a uint8 tensor may mean a mask or positions: use x:bool() or x:long()");
}

static void read_string(lua_State *L, item *it, int idx, int i) {
  const char *s = lua_tostring(L, idx);
  if (strcmp(s, "...") == 0) {
    it->kind = ELLIPSIS;
  } else if (strcmp(s, "newaxis") == 0) {
    it->kind = NEWAXIS;
  } else {
    bad_item(L, i, "the only strings that index are \"...\" and \"newaxis\"");
  }
}

/* Reads the value at idx; i is its number in the table, 0 when it is the key itself. */
static void read_item(lua_State *L, const mt_lua *S, key *k, int idx, int i) {
  int isint;
  if (k->n == MAX_ITEMS) bad_item(L, i, "too many items");
  item *it = &k->item[k->n++];
  *it = (item){0};
  switch (lua_type(L, idx)) {
    case LUA_TNUMBER:
      *it = (item){.kind = POSITION, .first = lua_tointegerx(L, idx, &isint)};
      if (!isint) bad_item(L, i, "a position must be an integer");
      if (it->first == 0) bad_item(L, i, "indices start at 1, got 0");
      break;
    case LUA_TSTRING:
      read_string(L, it, idx, i);
      break;
    case LUA_TTABLE:
      read_range(L, it, idx, i);
      break;
    default: {
      moth_tensor *t = mt_handle_tensor(L, S, idx);
      if (!t) {
        lua_pushfstring(L,
                        "expected an integer, a range, \"...\", moth.newaxis or a tensor, got %s",
                        mt_error_type(L, S, idx));
        bad_item(L, i, lua_tostring(L, -1));
      }
      read_tensor(L, it, t, i);
    }
  }
}

static void read_items(lua_State *L, const mt_lua *S, key *k, int idx) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
  if (n == 0 && !is_empty(L, idx))
    bad_item(L, 0, "a table as index is a list of items, one per dim");
  if (n > MAX_ITEMS) bad_item(L, MAX_ITEMS + 1, "too many items");
  for (int i = 1; i <= (int)n; i++) {
    lua_rawgeti(L, idx, i);
    read_item(L, S, k, lua_gettop(L), i);
    lua_pop(L, 1);
  }
}

static void count_dims(lua_State *L, key *k, const moth_tensor *x) {
  for (int i = 0; i < k->n; i++) {
    const item *it = &k->item[i];
    if (it->kind == ELLIPSIS && k->ellipsis) bad_item(L, i + 1, "only one \"...\" is possible");
    if (it->kind == ELLIPSIS) k->ellipsis = true;
    if (it->kind == POSITION || it->kind == RANGE || it->kind == INDEX) k->consumed++;
    if (it->kind == MASK) k->consumed += it->t->v.ndim;
  }
  if (k->consumed > x->v.ndim)
    mt_error_throw(L, "bad index: too many: %d dims are indexed, but the tensor is %s", k->consumed,
                   mt_tensor_str(x));
}

static void read_key(lua_State *L, const mt_lua *S, key *k, const moth_tensor *x) {
  k->n = k->consumed = 0;
  k->ellipsis = false;
  k->table = lua_type(L, 2) == LUA_TTABLE;
  if (k->table) {
    read_items(L, S, k, 2);
  } else {
    read_item(L, S, k, 2, 0);
  }
  count_dims(L, k, x);
}

/* ---- computing: errors are values, nothing calls Lua ---- */

/* "bad index" or "bad index, item 2": where in the key something is wrong. */
static const char *place(const key *k, int i, char *buf, size_t room) {
  snprintf(buf, room, k->table ? "bad index, item %d" : "bad index", i + 1);
  return buf;
}

static moth_tensor *do_position(mt_ctx *c, const key *k, int i, moth_tensor *x, int dim) {
  char where[40];
  int64_t pos = k->item[i].first, size = x->v.size[dim];
  int64_t at = pos < 0 ? pos + size : pos - 1;
  if (at >= 0 && at < size) return MT_DO(c, "select", mt_t(x), mt_i(dim), mt_i(at));
  place(k, i, where, sizeof(where));
  if (size == 0) {
    mt_ctx_fail(c, "%s: position %lld of an empty dim", where, (long long)pos);
  } else {
    mt_ctx_fail(c, "%s: position %lld is out of range 1..%lld (or -%lld..-1)", where,
                (long long)pos, (long long)size, (long long)size);
  }
  return NULL;
}

static moth_tensor *do_slice(mt_ctx *c, moth_tensor *x, int dim, int64_t start, int64_t end,
                             int64_t step) {
  return MT_DO(c, "_slice", mt_t(x), mt_i(dim), mt_i(start), mt_i(end), mt_i(step));
}

static moth_tensor *do_range(mt_ctx *c, moth_tensor *x, int dim, const item *it) {
  int64_t size = x->v.size[dim];
  int64_t start = it->first < 0 ? it->first + size : it->first - 1;
  int64_t end = it->last < 0 ? it->last + size + 1 : it->last;
  if (start < 0) start = 0;
  if (start > size) start = size;
  if (end > size) end = size;
  if (end < start) end = start;
  if (start == 0 && end == size && it->step == 1) return x;
  return do_slice(c, x, dim, start, end, it->step);
}

/* A mask becomes one index tensor per dim: the columns of its true positions. */
static void add_mask(mt_ctx *c, advanced *a, const key *k, int number, moth_tensor *x, int dim,
                     moth_tensor *mask) {
  char where[40];
  const mt_view *m = &mask->v;
  for (int i = 0; i < m->ndim; i++) {
    if (m->size[i] == x->v.size[dim + i]) continue;
    mt_ctx_fail(c, "%s: a mask of shape %s does not fit dims of shape %s",
                place(k, number, where, sizeof(where)), mt_shape_str(c->rt, m->ndim, m->size),
                mt_shape_str(c->rt, m->ndim, x->v.size + dim));
    return;
  }
  moth_tensor *at = mt_op1(c, "nonzero", mask);
  for (int i = 0; i < m->ndim && at; i++) {
    a->dim[a->n] = dim + i;
    a->t[a->n++] = MT_DO(c, "select", mt_t(at), mt_i(1), mt_i(i));
  }
}

/* Applies the views of a key; collects index tensors. Returns NULL after an error. */
static moth_tensor *apply(mt_ctx *c, const key *k, moth_tensor *x, advanced *a) {
  int dim = 0, rest = x->v.ndim - k->consumed;
  for (int i = 0; i < k->n && x; i++) {
    const item *it = &k->item[i];
    moth_tensor *mask = it->t;
    switch (it->kind) {
      case POSITION:
        x = do_position(c, k, i, x, dim);
        break;
      case RANGE:
        x = do_range(c, x, dim++, it);
        break;
      case ELLIPSIS:
        dim += rest;
        break;
      case NEWAXIS:
        x = MT_DO(c, "unsqueeze", mt_t(x), mt_i(dim++));
        break;
      case INDEX:
        a->t[a->n] = it->t;
        a->dim[a->n++] = dim++;
        break;
      case MASK: /* without dims it chooses whether a new dim has size 1 or 0 */
        if (mask->v.ndim == 0) {
          x = MT_DO(c, "unsqueeze", mt_t(x), mt_i(dim));
          mask = MT_DO(c, "unsqueeze", mt_t(mask), mt_i(0));
        }
        if (!x || !mask) return NULL;
        add_mask(c, a, k, i, x, dim, mask);
        dim += mask->v.ndim;
        break;
    }
    if (c->status) return NULL;
  }
  return x;
}

static moth_tensor *do_index(mt_ctx *c, moth_tensor *x, const advanced *a) {
  return MT_DO(c, "index", mt_t(x), mt_ts(a->t, a->n), mt_ints(a->dim, a->n));
}

/* Whether the key is one mask of x's shape, for which there are direct operations. */
static moth_tensor *whole_mask(const key *k, const moth_tensor *x) {
  if (k->n != 1 || k->item[0].kind != MASK) return NULL;
  const mt_view *m = &k->item[0].t->v, *v = &x->v;
  if (m->ndim == 0 || m->ndim != v->ndim) return NULL;
  for (int i = 0; i < m->ndim; i++) {
    if (m->size[i] != v->size[i]) return NULL;
  }
  return k->item[0].t;
}

static moth_tensor *compute(mt_ctx *c, const key *k, moth_tensor *x) {
  advanced a = {0};
  moth_tensor *mask = whole_mask(k, x);
  if (mask) return mt_op2(c, "masked_select", x, mask);
  moth_tensor *y = apply(c, k, x, &a);
  if (!y) return NULL;
  if (a.n > 0) return do_index(c, y, &a);
  if (y != x) return y;
  /* x[{}] is a view, not x itself; a tensor without dims is viewed through a new one */
  if (x->v.ndim > 0) return do_slice(c, x, 0, 0, x->v.size[0], 1);
  y = MT_DO(c, "unsqueeze", mt_t(x), mt_i(0));
  return y ? MT_DO(c, "select", mt_t(y), mt_i(0), mt_i(0)) : NULL;
}

static moth_tensor *checked_self(lua_State *L, mt_lua *S) {
  return mt_handle_check(L, S, 1, "self", "index");
}

static void start(mt_ctx *c, mt_lua *S) {
  mt_ctx_init(c, S->rt);
  c->index_base = 1;
}

/* x[i] with a position that is there: the loop over a tensor. false: anything else. */
static bool get_position(lua_State *L, mt_lua *S, mt_handle *h, moth_tensor *x) {
  int isint;
  int64_t at = lua_tointegerx(L, 2, &isint);
  if (!isint || lua_type(L, 2) != LUA_TNUMBER || x->v.ndim == 0) return false;
  at = at < 0 ? at + x->v.size[0] : at - 1;
  if (at < 0 || at >= x->v.size[0]) return false;
  mt_value arg[3] = {mt_t(x), mt_i(0), mt_i(at)};
  mt_results r;
  int status = mt_invoke(&r, S->rt, mt_op_find("select"), 3, arg, 1, false);
  if (status) mt_error_raise(L, S, status);
  mt_handle_fill(S, h, r.t[0]);
  return true;
}

int mt_index_get(lua_State *L, mt_lua *S) {
  mt_handle *h = mt_handle_new(L, S);
  moth_tensor *x = checked_self(L, S), *y;
  mt_ctx c;
  key k;
  if (get_position(L, S, h, x)) return 1;
  read_key(L, S, &k, x);
  start(&c, S);
  y = compute(&c, &k, x);
  if (y) mt_tensor_retain(y);
  int status = c.status;
  mt_ctx_free(&c);
  if (status) return mt_error_raise(L, S, status);
  mt_handle_fill(S, h, y);
  return 1;
}

/* ---- writing ---- */

/* The value at 3, a tensor or a number. */
static mt_value read_value(lua_State *L, const mt_lua *S) {
  int isint;
  moth_tensor *t = mt_handle_tensor(L, S, 3);
  if (t) return mt_t(t);
  switch (lua_type(L, 3)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, 3)) return mt_i(lua_tointegerx(L, 3, &isint));
      return mt_f(lua_tonumber(L, 3));
    case LUA_TBOOLEAN:
      return mt_i(lua_toboolean(L, 3));
    default:
      mt_error_throw(L,
                     "bad value assigned to an element: expected number, boolean or tensor, got %s",
                     mt_error_type(L, S, 3));
      return mt_nil();
  }
}

/* Leading dims of size 1 that the place does not have are dropped, as in PyTorch. */
static moth_tensor *drop_ones(mt_ctx *c, moth_tensor *v, int ndim) {
  while (v && v->v.ndim > ndim && v->v.size[0] == 1)
    v = MT_DO(c, "select", mt_t(v), mt_i(0), mt_i(0));
  return v;
}

static void assign(mt_ctx *c, const key *k, moth_tensor *x, mt_value v) {
  advanced a = {0};
  moth_tensor *mask = whole_mask(k, x);
  if (mask && (v.kind != MT_TENSOR || v.u.t->v.ndim == 0)) {
    MT_DO_(c, "masked_fill_", mt_t(x), mt_t(mask), v);
    return;
  }
  moth_tensor *target = apply(c, k, x, &a);
  if (!target) return;
  if (a.n > 0) {
    MT_DO_(c, "_index_put_", mt_t(target), mt_ts(a.t, a.n), v, mt_ints(a.dim, a.n));
  } else if (v.kind == MT_TENSOR) {
    moth_tensor *from = drop_ones(c, v.u.t, target->v.ndim);
    if (from) MT_DO_(c, "copy_", mt_t(target), mt_t(from));
  } else {
    MT_DO_(c, "fill_", mt_t(target), v);
  }
}

int mt_index_set(lua_State *L, mt_lua *S) {
  moth_tensor *x = checked_self(L, S);
  mt_ctx c;
  key k;
  read_key(L, S, &k, x);
  mt_value v = read_value(L, S);
  start(&c, S);
  assign(&c, &k, x, v);
  int status = c.status;
  mt_ctx_free(&c);
  return status ? mt_error_raise(L, S, status) : 0;
}
