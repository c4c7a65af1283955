/* pad.c - padding of any dims: constant, reflect, replicate, circular; negative amounts crop.
 *
 * Row by row of the result: where the row comes from follows from its coordinates, its middle is
 * copied at once and its ends are looked up element by element. The gradient adds rows where they
 * came from; planes that meet nowhere are done in parallel, rows of one plane in order. */
#include <string.h>

#include "accumulate.h"
#include "move.h"

typedef enum mode {
  CONSTANT,
  REFLECT,
  REPLICATE,
  CIRCULAR
} mode;

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

typedef struct job {
  const mt_view *small, *large; /* the input and the padded side */
  int64_t before[MT_MAX_DIM];   /* elements added in front of each dim */
  mode m;
  int lead; /* dims in front of the first one that is padded */
  const void *value;
  mt_combine_fn add;
  mt_view acc;
} job;

static mode mode_of(const char *s) {
  return strcmp(s, "reflect") == 0     ? REFLECT
         : strcmp(s, "replicate") == 0 ? REPLICATE
         : strcmp(s, "circular") == 0  ? CIRCULAR
                                       : CONSTANT;
}

/* The position in a dim of size n that position x (counted from the input's first) shows; -1: none.
 * Amounts are at most n - 1 (reflect) or n (circular). */
static inline int64_t source(mode m, int64_t x, int64_t n) {
  if (x >= 0 && x < n) return x;
  switch (m) {
    case REFLECT:
      return x < 0 ? -x : 2 * (n - 1) - x;
    case REPLICATE:
      return x < 0 ? 0 : n - 1;
    case CIRCULAR:
      return x < 0 ? x + n : x - n;
    default:
      return -1;
  }
}

static void plan(job *j, const mt_kargs *k, const mt_view *small, const mt_view *large) {
  const mt_value *pad = &k->arg[1];
  int n = small->ndim;
  j->small = small;
  j->large = large;
  j->m = mode_of(k->arg[2].u.s);
  j->lead = n;
  for (int d = 0; d < n; d++) {
    int i = 2 * (n - 1 - d);
    j->before[d] = i < pad->n ? pad->u.ints[i] : 0;
    bool changed = i + 1 < pad->n && (pad->u.ints[i] || pad->u.ints[i + 1]);
    if (changed && d < j->lead) j->lead = d;
  }
}

/* Bytes to the row of `small` that row `r` of `large` shows, -1 if none; *to: to the row itself. */
static int64_t row_source(const job *j, int64_t r, int64_t *to) {
  int64_t from = 0;
  bool inside = true;
  *to = 0;
  for (int d = j->large->ndim - 2; d >= 0; d--) {
    int64_t at = r % j->large->size[d], x = source(j->m, at - j->before[d], j->small->size[d]);
    r /= j->large->size[d];
    *to += at * j->large->stride[d] * bytes(j->large);
    from += x * j->small->stride[d] * bytes(j->small);
    inside = inside && x >= 0;
  }
  return inside ? from : -1;
}

/* The middle of a row: [begin, end) of the large side shows neighbours of the small one. */
static void middle(const job *j, int64_t *begin, int64_t *end) {
  int last = j->large->ndim - 1;
  int64_t before = j->before[last], n = j->small->size[last], all = j->large->size[last];
  *begin = before > 0 ? before : 0;
  *end = before + n < all ? before + n : all;
  if (*begin > all) *begin = all;
  if (*end < *begin) *end = *begin;
}

/* ---- forward ---- */

static void pad_rows(void *ctx, int64_t first, int64_t past, int worker) {
  const job *j = ctx;
  const int size = (int)bytes(j->small), last = j->large->ndim - 1;
  const int64_t width = j->large->size[last], n = j->small->size[last], before = j->before[last];
  const int64_t ls = j->large->stride[last] * size, ss = j->small->stride[last] * size;
  int64_t begin, end;
  (void)worker;
  middle(j, &begin, &end);
  for (int64_t r = first; r < past; r++) {
    int64_t to, from = row_source(j, r, &to);
    char *out = j->large->data + to;
    if (from < 0) {
      mt_move_set(size, out, ls, j->value, width);
      continue;
    }
    const char *in = j->small->data + from;
    mt_move_row(size, out + begin * ls, ls, in + (begin - before) * ss, ss, end - begin);
    if (j->m == CONSTANT) {
      mt_move_set(size, out, ls, j->value, begin);
      mt_move_set(size, out + end * ls, ls, j->value, width - end);
      continue;
    }
    for (int64_t i = 0; i < width; i++) {
      if (i == begin && end > begin) i = end;
      if (i < width) memcpy(out + i * ls, in + source(j->m, i - before, n) * ss, (size_t)size);
    }
  }
}

static int64_t rows_of(const mt_view *v) {
  int64_t n = 1;
  for (int d = 0; d + 1 < v->ndim; d++) n *= v->size[d];
  return n;
}

/* pad(x, int[] pad, str mode, number value): pairs (before, after) from the last dim on */
int mt_cpu_pad(const mt_kargs *k) {
  const mt_view *x = k->in[0], *out = k->out[0];
  uint64_t bits = 0;
  double number = mt_karg_f(k, 3);
  int64_t whole = k->arg[3].kind == MT_FLOAT ? 0 : k->arg[3].u.i;
  bool real = k->arg[3].kind == MT_FLOAT;
  mt_view from = {.data = real ? (char *)&number : (char *)&whole,
                  .numel = 1,
                  .contiguous = true,
                  .dtype = real ? MT_F64 : MT_I64};
  mt_view value = {.data = (char *)&bits, .numel = 1, .dtype = x->dtype, .contiguous = true};
  job j = {.value = &bits};
  if (out->numel == 0) return MT_OK;
  mt_convert_view(k, &value, &from);
  if (x->ndim == 0) {
    mt_move_copy(k->par, out, x);
    return MT_OK;
  }
  plan(&j, k, x, out);
  mt_parallel_for(k->par, rows_of(out), MT_MOVE_GRAIN / out->size[out->ndim - 1] + 1, pad_rows, &j);
  return MT_OK;
}

/* ---- gradient ---- */

/* Adds n elements of g (stride gs) to neighbours from `to` on. */
static void add_run(const job *j, char *to, const char *g, int64_t gs, int64_t n) {
  const int64_t zero = 0;
  int last = j->acc.ndim - 1;
  if (n > 0) {
    j->add(to, j->acc.stride[last] * bytes(&j->acc), (const char *)&zero, 0, g, gs, n);
  }
}

static void back_planes(void *ctx, int64_t first, int64_t past, int worker) {
  const job *j = ctx;
  const int last = j->large->ndim - 1;
  const int64_t width = j->large->size[last], n = j->small->size[last], before = j->before[last];
  const int64_t gs = j->large->stride[last] * bytes(j->large),
                as = j->acc.stride[last] * bytes(&j->acc);
  job to_acc = *j;
  int64_t begin, end, rows = 1;
  (void)worker;
  to_acc.small = &j->acc;
  for (int d = j->lead; d < last; d++) rows *= j->large->size[d];
  middle(j, &begin, &end);
  for (int64_t r = first * rows; r < past * rows; r++) {
    int64_t from, to = row_source(&to_acc, r, &from);
    if (to < 0) continue;
    const char *g = j->large->data + from;
    char *out = j->acc.data + to;
    add_run(j, out + (begin - before) * as, g + begin * gs, gs, end - begin);
    for (int64_t i = 0; i < width && j->m != CONSTANT; i++) {
      if (i == begin && end > begin) i = end;
      if (i < width) add_run(j, out + source(j->m, i - before, n) * as, g + i * gs, gs, 1);
    }
  }
}

/* pad_back(g, int[] pad, str mode, int[] in_size): each element of g added to what it was a copy of
 */
int mt_cpu_pad_back(const mt_kargs *k) {
  const mt_view *g = k->in[0], *out = k->out[0];
  job j = {.add = mt_combine_find(MT_COMBINE_ADD, (mt_dtype)out->dtype)};
  j.acc = mt_accumulate_begin(k, NULL, out, k->scratch);
  if (g->numel > 0 && out->numel > 0 && out->ndim > 0) {
    int64_t planes = 1;
    plan(&j, k, out, g);
    if (j.lead > out->ndim - 1) j.lead = out->ndim - 1;
    for (int d = 0; d < j.lead; d++) planes *= g->size[d];
    mt_parallel_for(k->par, planes, 16384 * planes / g->numel + 1, back_planes, &j);
  }
  return mt_accumulate_end(k, &j.acc, out);
}

size_t mt_cpu_pad_back_scratch(const mt_kargs *k) { return mt_accumulate_bytes(k->out[0]); }
