/* einsum.c - sums of products by Einstein's convention.
 *
 * Every subscript becomes a label; "..." stands for labels of its own. An operand is first brought
 * to one dim per label (a repeated one takes the diagonal). Then operands are multiplied from left
 * to right: labels that only the pair has are summed by one batched matrix product, so nothing
 * larger than the intermediate results is ever made. Sizes of 1 broadcast. */
#include <ctype.h>
#include <string.h>

#include "rules.h"

#define LABELS (52 + MT_MAX_DIM) /* letters, then the dims of "..." */
#define MAX_OPERANDS 16

typedef struct term { /* an operand, or a product of some */
  moth_tensor *t;
  int n;
  uint8_t label[MT_MAX_DIM];
} term;

typedef struct sum {
  mt_ctx *c;
  term in[MAX_OPERANDS];
  int nin;
  uint8_t out[MT_MAX_DIM];
  int nout;
  int ellipsis;         /* dims that "..." stands for */
  int64_t size[LABELS]; /* 0: not used */
  int uses[LABELS];     /* operands that still have it, plus one for the output */
} sum;

static int letter(char ch) { return ch >= 'a' ? ch - 'a' : ch - 'A' + 26; }

/* Reads subscripts up to ',' or '-' or the end into labels; returns how many, -1 after an error.
 * `dims`: dims of the operand, -1 for the output. */
static int read_term(sum *s, const char **p, int dims, uint8_t *label) {
  int n = 0, letters = 0;
  bool dots = false;
  for (const char *q = *p; *q && *q != ',' && *q != '-'; q++)
    letters += isalpha((unsigned char)*q) != 0;
  for (; **p && **p != ',' && **p != '-'; (*p)++) {
    if (**p == ' ') continue;
    if (strncmp(*p, "...", 3) == 0 && !dots) {
      int count = dims < 0 ? s->ellipsis : dims - letters;
      dots = true;
      if (count < 0 || n + count > MT_MAX_DIM) break;
      if (count > s->ellipsis) s->ellipsis = count;
      for (int i = 0; i < count; i++) label[n++] = (uint8_t)(52 + MT_MAX_DIM - count + i);
      *p += 2;
    } else if (isalpha((unsigned char)**p) && n < MT_MAX_DIM) {
      label[n++] = (uint8_t)letter(**p);
    } else {
      mt_ctx_fail(s->c, "argument 'equation': unexpected '%.8s'", *p);
      return -1;
    }
  }
  if (dims >= 0 && n != dims) {
    mt_ctx_fail(s->c, "argument 'equation': %d subscripts for a tensor with %d dims", n, dims);
    return -1;
  }
  return n;
}

/* A repeated label: the diagonal of its two dims, which becomes the last dim. */
static void take_diagonals(sum *s, term *t) {
  for (int a = 0; a < t->n; a++)
    for (int b = a + 1; b < t->n; b++) {
      if (t->label[a] != t->label[b]) continue;
      if (t->t->v.size[a] != t->t->v.size[b]) {
        mt_ctx_fail(s->c, "argument 'equation': a repeated subscript has sizes %lld and %lld",
                    (long long)t->t->v.size[a], (long long)t->t->v.size[b]);
        return;
      }
      uint8_t l = t->label[a];
      t->t = MT_DO(s->c, "diagonal", mt_t(t->t), mt_i(0), mt_i(a), mt_i(b));
      if (s->c->status) return;
      memmove(t->label + b, t->label + b + 1, (size_t)(t->n - b - 1));
      memmove(t->label + a, t->label + a + 1, (size_t)(t->n - a - 2));
      t->n--;
      t->label[t->n - 1] = l;
      a = -1; /* dims moved: look again */
      break;
    }
}

static bool note_sizes(sum *s, const term *t) {
  for (int d = 0; d < t->n; d++) {
    int64_t *have = &s->size[t->label[d]], size = t->t->v.size[d];
    if (*have == 0 || *have == 1) {
      *have = size;
    } else if (size != *have && size != 1) {
      mt_ctx_fail(s->c, "a subscript has sizes %lld and %lld", (long long)*have, (long long)size);
      return false;
    }
    s->uses[t->label[d]]++;
  }
  return true;
}

/* The output that is not written: subscripts that occur once, in alphabetical order, after "...".
 */
static void implicit_output(sum *s) {
  for (int i = 0; i < s->ellipsis; i++)
    s->out[s->nout++] = (uint8_t)(52 + MT_MAX_DIM - s->ellipsis + i);
  for (int k = 0; k < 52; k++) { /* capitals come first in the alphabet of characters */
    int l = k < 26 ? k + 26 : k - 26;
    if (s->uses[l] == 1 && s->nout < MT_MAX_DIM) s->out[s->nout++] = (uint8_t)l;
  }
}

static bool parse(sum *s, const mt_value *arg) {
  const char *p = arg[0].u.s;
  s->nin = arg[1].n;
  if (s->nin < 1 || s->nin > MAX_OPERANDS) {
    mt_ctx_fail(s->c, "expected 1 to %d tensors, got %d", MAX_OPERANDS, s->nin);
    return false;
  }
  for (int i = 0; i < s->nin; i++) {
    term *t = &s->in[i];
    t->t = arg[1].u.tensors[i];
    t->n = read_term(s, &p, t->t->v.ndim, t->label);
    if (t->n < 0) return false;
    if (i + 1 < s->nin && *p++ != ',') {
      mt_ctx_fail(s->c, "argument 'equation': fewer terms than the %d tensors", s->nin);
      return false;
    }
    take_diagonals(s, t);
    if (s->c->status || !note_sizes(s, t)) return false;
  }
  if (strncmp(p, "->", 2) == 0) {
    p += 2;
    s->nout = read_term(s, &p, -1, s->out);
  } else if (*p == 0) {
    implicit_output(s);
  }
  if (*p && !s->c->status) mt_ctx_fail(s->c, "argument 'equation': unexpected '%.8s'", p);
  return !s->c->status;
}

static bool check_output(sum *s) {
  for (int i = 0; i < s->nout; i++) {
    bool twice = memchr(s->out + i + 1, s->out[i], (size_t)(s->nout - i - 1)) != NULL;
    if (s->uses[s->out[i]] == 0 || twice) {
      mt_ctx_fail(s->c, "argument 'equation': an output subscript is %s",
                  twice ? "repeated" : "in no operand");
      return false;
    }
  }
  for (int i = 0; i < s->nout; i++) s->uses[s->out[i]]++;
  return true;
}

static int find(const term *t, int label) {
  for (int d = 0; d < t->n; d++)
    if (t->label[d] == label) return d;
  return -1;
}

static void remove_dim(term *t, int d) {
  memmove(t->label + d, t->label + d + 1, (size_t)(t->n - d - 1));
  t->n--;
}

/* Drops dims of size 1 whose label is larger elsewhere, and sums what nobody else needs. */
static void reduce(sum *s, term *t) {
  int64_t dims[MT_MAX_DIM];
  int n = 0;
  for (int d = t->n - 1; d >= 0 && !s->c->status; d--) {
    int l = t->label[d];
    int64_t at = d;
    if (t->t->v.size[d] == 1 && s->size[l] != 1 && s->uses[l] > 1) {
      t->t = MT_DO(s->c, "squeeze", mt_t(t->t), mt_ints(&at, 1));
      s->uses[l]--;
      remove_dim(t, d);
    }
  }
  if (s->c->status) return;
  for (int d = 0; d < t->n; d++)
    if (s->uses[t->label[d]] == 1) dims[n++] = d;
  if (!n) return;
  t->t = MT_DO(s->c, "sum", mt_t(t->t), mt_ints(dims, n));
  for (int i = n - 1; i >= 0; i--) {
    s->uses[t->label[dims[i]]] = 0;
    remove_dim(t, (int)dims[i]);
  }
}

/* Which part of a pair's product a label belongs to. */
typedef struct parts {
  uint8_t batch[MT_MAX_DIM], a[MT_MAX_DIM], b[MT_MAX_DIM], k[MT_MAX_DIM];
  int nbatch, na, nb, nk;
} parts;

static void sort_labels(const sum *s, const term *x, const term *y, parts *p) {
  memset(p, 0, sizeof *p);
  for (int d = 0; d < x->n; d++) {
    uint8_t l = x->label[d];
    if (find(y, l) < 0)
      p->a[p->na++] = l;
    else if (s->uses[l] > 2)
      p->batch[p->nbatch++] = l;
    else
      p->k[p->nk++] = l;
  }
  for (int d = 0; d < y->n; d++)
    if (find(x, y->label[d]) < 0) p->b[p->nb++] = y->label[d];
}

static int64_t product(const sum *s, const uint8_t *l, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= s->size[l[i]];
  return p;
}

/* t as (batch, u, v), each of the last two one dim. */
static moth_tensor *matrix(sum *s, const term *t, const parts *p, const uint8_t *u, int nu,
                           const uint8_t *v, int nv) {
  int64_t order[MT_MAX_DIM], size[3];
  int n = 0;
  for (int i = 0; i < p->nbatch; i++) order[n++] = find(t, p->batch[i]);
  for (int i = 0; i < nu; i++) order[n++] = find(t, u[i]);
  for (int i = 0; i < nv; i++) order[n++] = find(t, v[i]);
  size[0] = product(s, p->batch, p->nbatch);
  size[1] = product(s, u, nu);
  size[2] = product(s, v, nv);
  moth_tensor *m = MT_DO(s->c, "permute", mt_t(t->t), mt_ints(order, n));
  return MT_DO(s->c, "reshape", mt_t(m), mt_ints(size, 3));
}

static term multiply(sum *s, const term *x, const term *y) {
  parts p;
  term r = {.n = 0};
  int64_t size[3 * MT_MAX_DIM];
  sort_labels(s, x, y, &p);
  if (p.nbatch + p.na + p.nb > MT_MAX_DIM) {
    mt_ctx_fail(s->c, "a product would have more than %d dims", MT_MAX_DIM);
    return r;
  }
  moth_tensor *a = matrix(s, x, &p, p.a, p.na, p.k, p.nk);
  moth_tensor *b = matrix(s, y, &p, p.k, p.nk, p.b, p.nb);
  moth_tensor *m = mt_op2(s->c, "_matmul", a, b);
  for (int i = 0; i < p.nbatch; i++) r.label[r.n++] = p.batch[i];
  for (int i = 0; i < p.na; i++) r.label[r.n++] = p.a[i];
  for (int i = 0; i < p.nb; i++) r.label[r.n++] = p.b[i];
  for (int i = 0; i < r.n; i++) size[i] = s->size[r.label[i]];
  for (int i = 0; i < p.nbatch; i++) s->uses[p.batch[i]]--;
  for (int i = 0; i < p.nk; i++) s->uses[p.k[i]] = 0;
  r.t = MT_DO(s->c, "reshape", mt_t(m), mt_ints(size, r.n));
  return r;
}

static void compose_einsum(mt_ctx *c, const mt_value *arg) {
  sum s = {.c = c};
  if (!parse(&s, arg) || !check_output(&s)) return;
  for (int i = 0; i < s.nin && !c->status; i++) reduce(&s, &s.in[i]);
  term t = s.in[0];
  for (int i = 1; i < s.nin && !c->status; i++) t = multiply(&s, &t, &s.in[i]);
  int64_t order[MT_MAX_DIM];
  for (int i = 0; i < s.nout; i++) order[i] = find(&t, s.out[i]);
  mt_return(c, MT_DO(c, "permute", mt_t(t.t), mt_ints(order, s.nout)));
}

static const mt_op ops[] = {
    {.schema = "einsum(str equation, tensor[] operands) -> tensor",
     .help = "Sums of products as an equation says: 'ij,jk->ik'; '...' stands for any dims.",
     .types = {MT_NUMBERS, MT_EQUAL, MT_COMMON},
     .compose = compose_einsum,
     .onnx = "Einsum:12"},
};
MT_FAMILY(einsum, ops);
