/* op.c - parses the schemas of all rows into mt_opinfo, once per process.
 *
 * The result is constant afterwards and shared by all runtimes. A schema that does not parse is a
 * bug of ours: mt_op_init says which, and no runtime opens. */
#include "op.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"

#define X(fam) extern const mt_family mt_family_##fam;
#include "families.def"
#undef X

static const mt_family *const families[] = {
#define X(fam) &mt_family_##fam,
#include "families.def"
#undef X
};
#define NFAMILIES ((int)(sizeof families / sizeof families[0]))

#define TABLE 2048 /* slots of the name table, a power of two well above the number of rows */

/* Written once under `once`, read-only from then on. */
static struct {
  pthread_once_t once;
  mt_opinfo *op;
  mt_arginfo *arg; /* of all operations, one behind the other */
  int count, narg;
  int16_t slot[TABLE]; /* id + 1 */
  char error[256];
} reg = {.once = PTHREAD_ONCE_INIT};

typedef struct reader {
  const char *p;
  mt_opinfo *op;
  const char *error;
} reader;

static void blanks(reader *r) {
  while (*r->p == ' ') r->p++;
}

static bool eat(reader *r, const char *word) {
  size_t n = strlen(word);
  blanks(r);
  if (strncmp(r->p, word, n) != 0) return false;
  r->p += n;
  return true;
}

static void ident(reader *r, char *out, size_t cap) {
  size_t n = 0;
  blanks(r);
  while ((isalnum((unsigned char)*r->p) || *r->p == '_') && n + 1 < cap) out[n++] = *r->p++;
  out[n] = 0;
  if (n == 0) r->error = "a name is missing";
}

static const struct {
  const char *name;
  mt_argkind kind, list;
} kinds[] = {
    {"tensor", MT_A_TENSOR, MT_A_TENSORS}, {"operand", MT_A_OPERAND, MT_A_OPERAND},
    {"index", MT_A_INDEX, MT_A_TENSORS},   {"int", MT_A_INT, MT_A_INTS},
    {"float", MT_A_FLOAT, MT_A_FLOATS},    {"number", MT_A_NUMBER, MT_A_NUMBER},
    {"bool", MT_A_BOOL, MT_A_BOOL},        {"str", MT_A_STR, MT_A_STR},
    {"size", MT_A_SIZE, MT_A_SIZE},        {"dim", MT_A_DIM, MT_A_DIMS},
    {"newdim", MT_A_NEWDIM, MT_A_NEWDIM},  {"pos", MT_A_POS, MT_A_POS},
    {"dtype", MT_A_DTYPE, MT_A_DTYPE},     {"padding", MT_A_PADDING, MT_A_PADDING}};

static void arg_kind(reader *r, mt_arginfo *a) {
  char word[16];
  ident(r, word, sizeof word);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(word, kinds[i].name) != 0) continue;
    a->kind = kinds[i].kind;
    if (*r->p == '[') {
      a->kind = kinds[i].list;
      a->fixed = (int)strtol(r->p + 1, (char **)(uintptr_t)&r->p, 10);
      if (!eat(r, "]")) r->error = "']' is missing";
    }
    if (*r->p == '?') {
      a->optional = true;
      r->p++;
    }
    return;
  }
  r->error = "unknown kind";
}

static void default_list(reader *r, mt_arginfo *a) {
  int n = 0;
  while (!eat(r, "}") && !r->error) {
    char *end;
    blanks(r);
    long v = strtol(r->p, &end, 10);
    if (end == r->p || n == 4) {
      r->error = "bad default list";
      return;
    }
    r->p = end;
    a->deflist[n++] = v;
    eat(r, ",");
  }
  a->def = (mt_value){.kind = MT_INTS, .n = n, .u.ints = a->deflist};
}

static void default_number(reader *r, mt_arginfo *a) {
  char *end;
  double f = strtod(r->p, &end);
  bool real = false;
  if (end == r->p) {
    r->error = "bad default";
    return;
  }
  for (const char *q = r->p; q < end; q++)
    real |= *q == '.' || *q == 'e' || isalpha((unsigned char)*q);
  r->p = end;
  if (a->kind == MT_A_FLOAT || real)
    a->def = (mt_value){.kind = MT_FLOAT, .u.f = f};
  else
    a->def = (mt_value){.kind = MT_INT, .u.i = (int64_t)f};
}

static void arg_default(reader *r, mt_arginfo *a) {
  a->has_default = true;
  if (eat(r, "nil")) {
    a->def = (mt_value){.kind = MT_NIL};
  } else if (eat(r, "true")) {
    a->def = (mt_value){.kind = MT_BOOL_ARG, .u.i = 1};
  } else if (eat(r, "false")) {
    a->def = (mt_value){.kind = MT_BOOL_ARG, .u.i = 0};
  } else if (eat(r, "\"")) {
    const char *end = strchr(r->p, '"');
    if (!end) {
      r->error = "'\"' is missing";
      return;
    }
    size_t n = (size_t)(end - r->p);
    if (n >= sizeof a->deflist) {
      r->error = "the default is too long";
      return;
    }
    memcpy(a->deflist, r->p, n); /* zeroed before: ends in 0 */
    a->def = (mt_value){.kind = MT_STR, .n = (int)n, .u.s = (const char *)a->deflist};
    r->p = end + 1;
  } else if (eat(r, "{")) {
    default_list(r, a);
  } else if (a->kind == MT_A_DTYPE) {
    char word[16];
    ident(r, word, sizeof word);
    a->def = (mt_value){.kind = MT_INT, .u.i = mt_dtype_by_name(word)};
  } else {
    default_number(r, a);
  }
}

static bool is_tensor_kind(mt_argkind k) { return k <= MT_A_TENSORS; }

static void one_arg(reader *r, bool keyword) {
  mt_opinfo *op = r->op;
  if (op->narg == MT_MAX_ARGS) {
    r->error = "too many arguments";
    return;
  }
  mt_arginfo *a = &reg.arg[reg.narg++];
  a->keyword = keyword;
  arg_kind(r, a);
  if (r->error) return;
  ident(r, a->name, sizeof a->name);
  if (eat(r, "=")) arg_default(r, a);
  if (a->optional && !a->has_default) {
    a->has_default = true;
    a->def = (mt_value){.kind = MT_NIL};
  }
  a->in = is_tensor_kind(a->kind) ? op->nin++ : -1;
  if (a->kind == MT_A_TENSORS) op->has_list = true;
  if (a->kind == MT_A_DTYPE) op->dtype_arg = op->narg;
  op->narg++;
}

static void result(reader *r) {
  mt_opinfo *op = r->op;
  char word[16];
  if (op->nout == MT_MAX_OUT) {
    r->error = "too many results";
    return;
  }
  ident(r, word, sizeof word);
  mt_reskind k = MT_R_TENSOR;
  if (strcmp(word, "index") == 0) k = MT_R_INDEX;
  else if (strcmp(word, "bool") == 0) k = MT_R_BOOL;
  else if (strcmp(word, "tensor") != 0) r->error = "unknown kind of result";
  if (eat(r, "[]")) k = MT_R_LIST;
  op->res[op->nout] = k;
  blanks(r);
  if (isalpha((unsigned char)*r->p)) ident(r, op->resname[op->nout], sizeof op->resname[0]);
  op->nout++;
}

static const char *parse(mt_opinfo *op) {
  reader r = {op->row->schema, op, NULL};
  op->arg = &reg.arg[reg.narg];
  bool keyword = false;
  op->dtype_arg = -1;
  ident(&r, op->name, sizeof op->name);
  if (!eat(&r, "(")) return "'(' is missing";
  while (!eat(&r, ")")) {
    if (eat(&r, "*")) keyword = true;
    else one_arg(&r, keyword);
    if (!r.error && !eat(&r, ",") && *r.p != ')') r.error = "',' is missing";
    if (r.error) return r.error;
  }
  if (!eat(&r, "->")) return "'->' is missing";
  if (eat(&r, "(")) {
    while (!eat(&r, ")") && !r.error) {
      result(&r);
      eat(&r, ",");
    }
  } else {
    result(&r);
  }
  return r.error;
}

/* What a row must be, whatever its schema says. */
static const char *lint(const mt_opinfo *op) {
  const mt_op *row = op->row;
  int ways = (row->cpu != NULL) + (row->compose != NULL) + (row->view != NULL);
  if (ways != 1) return "needs exactly one of cpu, compose, view";
  if (!row->help) return "needs help";
  if (row->ew && op->nout != 1) return "elementwise operations have one result";
  if (row->backward && (row->compose || op->nin == 0)) return "cannot have a backward rule";
  if ((row->flags & MT_INPLACE) && (op->nin == 0 || op->arg[0].in != 0))
    return "needs a tensor first to be done in place";
  if (row->save >> 16 >= 1u << op->nout) return "saves a result that it does not have";
  return NULL;
}

static unsigned hash(const char *s) {
  unsigned h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h ^ h >> 15;
}

static bool enter(int id) {
  unsigned h = hash(reg.op[id].name);
  for (;; h++) {
    int16_t *slot = &reg.slot[h & (TABLE - 1)];
    if (*slot == 0) {
      *slot = (int16_t)(id + 1);
      return true;
    }
    if (strcmp(reg.op[*slot - 1].name, reg.op[id].name) == 0) return false;
  }
}

static bool plain(const mt_opinfo *op) {
  for (int j = 0; j < op->narg; j++) {
    mt_argkind k = op->arg[j].kind;
    if (k != MT_A_TENSOR && k != MT_A_OPERAND && k != MT_A_INDEX) return false;
  }
  return true;
}

static void add_row(const mt_family *fam, const mt_op *row) {
  mt_opinfo *op = &reg.op[reg.count];
  op->row = row;
  op->family = fam;
  op->id = reg.count;
  const char *wrong = parse(op);
  if (!wrong) wrong = lint(op);
  if (!wrong && !enter(reg.count)) wrong = "is declared twice";
  if (wrong && !reg.error[0])
    snprintf(reg.error, sizeof reg.error, "%s: %.100s: %s", fam->name, row->schema, wrong);
  op->plain = plain(op);
  reg.count++;
}

/* No schema has more arguments than commas and one. */
static int most_args(const char *schema) {
  int n = 1;
  for (; *schema; schema++) n += *schema == ',';
  return n;
}

static void init(void) {
  size_t n = 0, nargs = 0;
  for (int f = 0; f < NFAMILIES; f++) {
    n += (size_t)families[f]->nops;
    for (int i = 0; i < families[f]->nops; i++)
      nargs += (size_t)most_args(families[f]->ops[i].schema);
  }
  if (n >= TABLE / 2) {
    snprintf(reg.error, sizeof reg.error, "the name table is too small");
    return;
  }
  reg.op = calloc(n, sizeof *reg.op);
  reg.arg = calloc(nargs, sizeof *reg.arg);
  if (!reg.op || !reg.arg) {
    snprintf(reg.error, sizeof reg.error, "out of memory");
    return;
  }
  for (int f = 0; f < NFAMILIES; f++)
    for (int i = 0; i < families[f]->nops; i++) add_row(families[f], &families[f]->ops[i]);
}

const char *mt_op_init(void) {
  pthread_once(&reg.once, init);
  return reg.error[0] ? reg.error : NULL;
}

const mt_opinfo *mt_op_find(const char *name) {
  for (unsigned h = hash(name);; h++) {
    int id = reg.slot[h & (TABLE - 1)] - 1;
    if (id < 0) return NULL;
    if (strcmp(reg.op[id].name, name) == 0) return &reg.op[id];
  }
}

const mt_opinfo *mt_op_at(int id) { return &reg.op[id]; }
int mt_op_count(void) { return reg.count; }
