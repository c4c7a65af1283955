/* print.c - tensors as text, in PyTorch's layout.
 *
 * Only the elements that will be shown are looked at: first to choose one style for all of them
 * (whole numbers, four digits, or scientific), then to write them, aligned to the widest. More than
 * `threshold` elements are summarised by `edgeitems` at each end of every dim. The options live in
 * the Lua state.
 *
 * The style rules are PyTorch's, except that NaN, infinities and zeros count for the width, so
 * that columns stay aligned. */
#include "print.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../runtime/tape.h"
#include "../runtime/tensor.h"

typedef struct options {
  int precision, threshold, edgeitems, linewidth;
  int sci; /* -1: by the numbers, 0: never, 1: always */
} options;

static const options defaults = {4, 1000, 3, 80, -1};
static const char options_key = 0; /* its address is the registry key */

enum {
  FIELD = 400
}; /* the longest %.*f of a double with 60 digits behind the point */

typedef enum mode {
  WHOLE, /* "3" */
  POINT, /* "3." */
  FIXED, /* "3.0000" */
  SCI    /* "3.0000e+00" */
} mode;

typedef struct style {
  mode mode;
  int width;
  double min, max; /* of the finite non-zero magnitudes; max 0: there are none */
  bool fraction;   /* some number is not whole */
} style;

typedef struct value {
  bool integer, boolean;
  int64_t i;
  double f;
} value;

typedef struct printer {
  const moth_tensor *t;
  options o;
  bool summarise, complex;
  style style[2]; /* real and imaginary part */
  luaL_Buffer *b;
} printer;

/* ---- elements ---- */

static value element(const moth_tensor *t, int64_t pos, int part) {
  value v = {0};
  if (t->v.dtype == MT_C64) {
    const mt_c64 *c = (const mt_c64 *)(const void *)t->v.data + pos;
    v.f = part ? c->im : c->re;
  } else {
    v.integer = mt_tensor_read(t, pos, &v.i, &v.f) == 1;
    v.boolean = t->v.dtype == MT_BOOL;
  }
  return v;
}

/* A number must read the same whatever locale the host has set. */
static void use_point(char *s) {
  char *comma = strchr(s, ',');
  if (comma) *comma = '.';
}

static int format_float(char *buf, mode m, int precision, double f) {
  if (isnan(f)) return snprintf(buf, FIELD, "nan");
  if (isinf(f)) return snprintf(buf, FIELD, f < 0 ? "-inf" : "inf");
  int n;
  if (m == SCI) {
    n = snprintf(buf, FIELD, "%.*e", precision, f);
  } else if (m == FIXED) {
    n = snprintf(buf, FIELD, "%.*f", precision, f);
  } else {
    n = snprintf(buf, FIELD, "%.0f.", f);
  }
  use_point(buf);
  return n;
}

/* Writes the text of v without padding; returns its length. */
static int format_value(const printer *p, int part, value v, char *buf) {
  if (v.boolean) return snprintf(buf, FIELD, v.i ? "true" : "false");
  if (v.integer) return snprintf(buf, FIELD, "%lld", (long long)v.i);
  return format_float(buf, p->style[part].mode, p->o.precision, v.f);
}

static void add_element(const printer *p, int64_t pos) {
  char buf[FIELD];
  int n = format_value(p, 0, element(p->t, pos, 0), buf);
  for (int i = n; i < p->style[0].width; i++) luaL_addchar(p->b, ' ');
  luaL_addlstring(p->b, buf, (size_t)n);
  if (!p->complex) return;
  n = format_value(p, 1, element(p->t, pos, 1), buf);
  if (buf[0] != '-') luaL_addchar(p->b, '+');
  luaL_addlstring(p->b, buf, (size_t)n);
  luaL_addchar(p->b, 'j');
  for (int i = n; i < p->style[1].width; i++) luaL_addchar(p->b, ' ');
}

/* ---- choosing the style ---- */

typedef void (*visit_fn)(printer *p, int64_t pos);

static bool folded(const printer *p, int dim) {
  return p->summarise && p->t->v.size[dim] > 2 * p->o.edgeitems;
}

/* Visits the elements that will be shown. */
static void visit(printer *p, int dim, int64_t pos, visit_fn fn) {
  const mt_view *v = &p->t->v;
  if (dim == v->ndim) {
    fn(p, pos);
    return;
  }
  for (int64_t i = 0; i < v->size[dim]; i++) {
    if (folded(p, dim) && i == p->o.edgeitems) i = v->size[dim] - p->o.edgeitems;
    if (i < v->size[dim]) visit(p, dim + 1, pos + i * v->stride[dim], fn);
  }
}

static void measure(printer *p, int64_t pos) {
  for (int part = 0; part <= (int)p->complex; part++) {
    style *s = &p->style[part];
    double f = element(p->t, pos, part).f, a = fabs(f);
    if (!isfinite(f) || f == 0) continue;
    if (a < s->min) s->min = a;
    if (a > s->max) s->max = a;
    if (f != ceil(f)) s->fraction = true;
  }
}

static void widen(printer *p, int64_t pos) {
  for (int part = 0; part <= (int)p->complex; part++) {
    char buf[FIELD];
    int n = format_value(p, part, element(p->t, pos, part), buf);
    if (n > p->style[part].width) p->style[part].width = n;
  }
}

static mode choose(const style *s, const options *o) {
  bool wide = s->max > 0 && (s->max / s->min > 1000 || s->max > 1e8);
  bool tiny = s->fraction && s->min < 1e-4;
  if (o->sci == 1 || (o->sci < 0 && (wide || tiny))) return SCI;
  return s->fraction ? FIXED : POINT;
}

static void choose_styles(printer *p) {
  mt_category category = mt_dtype_category((mt_dtype)p->t->v.dtype);
  for (int part = 0; part < 2; part++) p->style[part] = (style){.mode = WHOLE, .min = INFINITY};
  if (category >= MT_CAT_FLOAT) {
    visit(p, 0, 0, measure);
    for (int part = 0; part < 2; part++) p->style[part].mode = choose(&p->style[part], &p->o);
  }
  visit(p, 0, 0, widen);
}

/* ---- layout ---- */

static void add_newline(luaL_Buffer *b, int lines, int indent) {
  while (lines-- > 0) luaL_addchar(b, '\n');
  while (indent-- > 0) luaL_addchar(b, ' ');
}

/* The last dim, wrapped to the line width. */
static void add_row(printer *p, int64_t pos, int indent) {
  const mt_view *v = &p->t->v;
  int dim = v->ndim - 1, column = 0;
  int width = p->style[0].width + 2 + (p->complex ? p->style[1].width + 2 : 0);
  int fit = (p->o.linewidth - indent) / width;
  luaL_addchar(p->b, '[');
  for (int64_t i = 0; i < v->size[dim]; i++) {
    if (i > 0) luaL_addchar(p->b, ',');
    if (i > 0 && column >= fit) {
      add_newline(p->b, 1, indent + 1);
      column = 0;
    } else if (i > 0) {
      luaL_addchar(p->b, ' ');
    }
    column++;
    if (folded(p, dim) && i == p->o.edgeitems) {
      luaL_addstring(p->b, " ...");
      i = v->size[dim] - p->o.edgeitems - 1;
    } else {
      add_element(p, pos + i * v->stride[dim]);
    }
  }
  luaL_addchar(p->b, ']');
}

static void add_dims(printer *p, int dim, int64_t pos, int indent) {
  const mt_view *v = &p->t->v;
  if (v->ndim == 0) {
    add_element(p, pos);
    return;
  }
  if (dim == v->ndim - 1) {
    add_row(p, pos, indent);
    return;
  }
  luaL_addchar(p->b, '[');
  for (int64_t i = 0; i < v->size[dim]; i++) {
    if (i > 0) {
      luaL_addchar(p->b, ',');
      add_newline(p->b, v->ndim - dim - 1, indent + 1);
    }
    if (folded(p, dim) && i == p->o.edgeitems) {
      luaL_addstring(p->b, "...");
      i = v->size[dim] - p->o.edgeitems - 1;
    } else {
      add_dims(p, dim + 1, pos + i * v->stride[dim], indent + 1);
    }
  }
  luaL_addchar(p->b, ']');
}

/* ---- what stands behind the elements ---- */

typedef struct tail {
  luaL_Buffer *b;
  int column, indent, width;
} tail;

static void add_suffix(tail *s, const char *text) {
  int len = (int)strlen(text);
  luaL_addchar(s->b, ',');
  if (s->column + len + 3 > s->width) {
    add_newline(s->b, 1, s->indent);
    s->column = s->indent + len;
  } else {
    luaL_addchar(s->b, ' ');
    s->column += len + 2;
  }
  luaL_addstring(s->b, text);
}

static int format_size(char *buf, size_t room, const moth_tensor *t) {
  int n = snprintf(buf, room, "(");
  for (int i = 0; i < t->v.ndim; i++)
    n += snprintf(buf + n, room - (size_t)n, i ? ", %lld" : "%lld", (long long)t->v.size[i]);
  return n + snprintf(buf + n, room - (size_t)n, ")");
}

static void format_grad(char *buf, size_t room, const moth_tensor *t) {
  buf[0] = 0;
  if (!t) return;
  if (t->node) {
    const mt_node *n = t->node;
    const char *name = n->op ? n->op->name : n->custom ? n->custom->name : "accumulate";
    snprintf(buf, room, "grad_fn=<%s>", name);
  } else if (moth_requires_grad(t)) {
    snprintf(buf, room, "requires_grad=true");
  }
}

/* Scalars are values in running text ("loss: tensor(0.5)"): they say only what surprises. */
static void add_suffixes(tail *s, const moth_tensor *t, const char *grad) {
  char text[8 * 24 + 16];
  mt_dtype dtype = (mt_dtype)t->v.dtype;
  bool usual = dtype == t->rt->default_float || dtype == MT_I64 || dtype == MT_BOOL;
  if (t->v.ndim > 0) {
    snprintf(text, sizeof(text), "size=");
    format_size(text + 5, sizeof(text) - 5, t);
    add_suffix(s, text);
  }
  if (t->v.ndim > 0 || !usual) {
    snprintf(text, sizeof(text), "dtype=%s", mt_dtypes[dtype].name);
    add_suffix(s, text);
  }
  if (t->v.ndim > 0) add_suffix(s, "device=cpu");
  if (grad[0]) add_suffix(s, grad);
}

static options *get_options(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &options_key) == LUA_TNIL) {
    lua_pop(L, 1);
    options *o = lua_newuserdatauv(L, sizeof(*o), 0);
    *o = defaults;
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &options_key);
  }
  options *o = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return o;
}

static void push_elements(lua_State *L, printer *p, int indent) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  p->b = &b;
  if (p->t->v.numel == 0) {
    luaL_addstring(&b, "[]");
  } else {
    choose_styles(p);
    add_dims(p, 0, 0, indent);
  }
  luaL_pushresult(&b);
}

/* Everything here may collect garbage, and a script's finalizer may free or replace the tensor
 * meanwhile: a second handle, which no script can reach, holds an alias until the text is ready. */
static moth_tensor *hold_alias(lua_State *L, int idx) {
  mt_lua *S = mt_lua_of(L);
  mt_handle *h = mt_handle_new(L, S);
  moth_tensor *t = mt_handle_tensor(L, S, idx), *alias;
  if (!t) return NULL;
  int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
  if (status) mt_error_raise(L, S, status);
  mt_handle_fill(S, h, alias);
  return alias;
}

void mt_print_tensor(lua_State *L, int idx) {
  static const char head[] = "tensor(";
  int indent = (int)sizeof(head) - 1;
  size_t len;
  char grad[64];
  idx = lua_absindex(L, idx);
  printer p = {.o = *get_options(L), .t = hold_alias(L, idx)};
  if (!p.t) {
    lua_pop(L, 1);
    lua_pushliteral(L, "tensor(freed)");
    return;
  }
  format_grad(grad, sizeof(grad), mt_handle_tensor(L, mt_lua_of(L), idx));
  p.complex = p.t->v.dtype == MT_C64;
  p.summarise = p.t->v.numel > p.o.threshold;
  push_elements(L, &p, indent);
  const char *elements = lua_tolstring(L, -1, &len), *last = strrchr(elements, '\n');
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, head);
  luaL_addlstring(&b, elements, len);
  tail s = {&b, last ? (int)(elements + len - last) : indent + (int)len, indent, p.o.linewidth};
  add_suffixes(&s, p.t, grad);
  luaL_addchar(&b, ')');
  luaL_pushresult(&b);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

int mt_print_tostring(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  if (!mt_handle_at(L, S, 1)) return mt_error_throw(L, "tostring: expected tensor");
  mt_print_tensor(L, 1);
  return 1;
}

void mt_print_brief(lua_State *L, const moth_tensor *t) {
  char size[8 * 24 + 16];
  format_size(size, sizeof(size), t);
  lua_pushfstring(L, "<tensor %s %s>", mt_dtypes[t->v.dtype].name, size);
}

/* ---- Lua functions ---- */

int mt_print_inspect_fn(lua_State *L) {
  luaL_checkany(L, 1);
  mt_print_inspect(L, 1);
  return 1;
}

static void int_option(lua_State *L, const char *name, int *out, int least, int most) {
  if (lua_getfield(L, 1, name) != LUA_TNIL) {
    int isint;
    lua_Integer v = lua_tointegerx(L, -1, &isint);
    if (!isint || v < least || v > most)
      luaL_error(L, "set_printoptions: %s must be an integer from %d to %d", name, least, most);
    *out = (int)v;
  }
  lua_pop(L, 1);
}

int mt_print_set_options(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  options *shared = get_options(L), o = *shared;
  int_option(L, "precision", &o.precision, 0, 60);
  int_option(L, "threshold", &o.threshold, 0, 1000000000);
  int_option(L, "edgeitems", &o.edgeitems, 1, 1000000);
  int_option(L, "linewidth", &o.linewidth, 20, 10000);
  int kind = lua_getfield(L, 1, "sci_mode");
  if (kind == LUA_TBOOLEAN) o.sci = lua_toboolean(L, -1);
  if (kind == LUA_TSTRING) o.sci = -1; /* "auto": by the numbers */
  *shared = o;
  return 0;
}
