/* conv_weight.c - the gradient of convolution weights: a product over pixels.
 *
 * dW (channels of the output x (channel, tap)) = dY by the transposed columns of the padded image.
 * The columns are cut into blocks of whole channels, and the bands into chunks whose number follows
 * from the shape; a task owns one block of one chunk, walks its bands in order, and the chunks are
 * added in order at the end. So threads share nothing and change no bit. */
#include "conv.h"

#include <string.h>

#include "isa.h"

enum {
  PIXEL_BYTES = 2048,      /* pixels of a band: the k-block of the product */
  BLOCK_COLUMNS = 256,     /* (channel, tap) columns of a task, about */
  TASKS = 16,              /* wanted at least */
  PARTIAL_BYTES = 1 << 25, /* most for sums of chunks */
  FORK_WORK = 1 << 20
};

struct plan {
  const struct mt_conv *c;
  const struct mt_isa *isa;
  const struct mt_gemm_fns *gemm;
  const struct mt_conv_fns *fns;
  struct mt_bands bands;
  int64_t blocks, chunks, elements; /* elements of dw */
  bool direct;                      /* rows of dY are read where they are */
  size_t off_bytes, partial_bytes, shared_bytes;
  size_t piece_bytes, a_bytes, b_bytes, dy_bytes, worker_bytes;
  int64_t *off;
  char *partial, *workers, *dw;
  mt_parallel *par;
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t deal(int64_t n, int64_t parts, int64_t i) {
  int64_t each = n / parts, extra = n % parts;
  return i * each + least(i, extra);
}

static void plan_chunks(struct plan *p) {
  const struct mt_conv *c = p->c;
  double work = (double)c->co * (double)(c->ci * c->ntaps) * (double)p->bands.columns;
  work *= (double)p->bands.count / (double)p->blocks;
  int64_t chunks = TASKS / (c->groups * p->blocks);
  chunks = least(chunks, p->bands.count);
  chunks = least(chunks, (int64_t)(work / FORK_WORK));
  chunks = least(chunks, PARTIAL_BYTES / (p->elements * p->gemm->size + 1));
  p->chunks = chunks > 1 ? chunks : 1;
}

static void make_plan(struct plan *p, const struct mt_isa *isa, const struct mt_conv *c) {
  p->c = c, p->isa = isa;
  p->gemm = mt_gemm_fns_of(isa, c->dtype);
  p->fns = mt_conv_fns_of(isa->conv, c->dtype);
  int64_t size = p->gemm->size, most = BLOCK_COLUMNS / (c->ntaps ? c->ntaps : 1);
  p->blocks = ceil_div(c->ci, most > 1 ? most : 1);
  p->elements = c->groups * c->co * c->ci * c->ntaps;
  mt_bands_plan(&p->bands, c, size, ceil_div(c->ci, p->blocks), PIXEL_BYTES / size);
  plan_chunks(p);
  p->direct = p->bands.segments == 1 && (c->dtype == MT_F32 || c->dtype == MT_F64) &&
              c->dst_s[2] == 1 && c->dst_s[1] == c->out[2];
  double pixels = (double)p->bands.columns;
  p->off_bytes = mt_bytes((double)(p->bands.channels * c->ntaps), sizeof(int64_t));
  p->partial_bytes = p->chunks > 1 ? mt_bytes((double)p->elements, size) : 0;
  p->shared_bytes = mt_bytes_add(p->off_bytes, mt_bytes_mul(p->partial_bytes, p->chunks));
  p->piece_bytes = mt_bytes(pixels, sizeof(struct mt_piece));
  p->a_bytes = mt_bytes(pixels * (double)c->co, size);
  p->b_bytes = mt_bytes(pixels * 2 * (double)p->gemm->vl, size);
  p->dy_bytes = p->direct ? 0 : p->a_bytes;
  p->worker_bytes = mt_bytes_add(mt_bytes_add(p->bands.band_bytes, p->piece_bytes),
                                 mt_bytes_add(mt_bytes_add(p->a_bytes, p->b_bytes), p->dy_bytes));
}

size_t mt_conv_weight_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads) {
  struct plan p;
  make_plan(&p, isa, c);
  return mt_bytes_add(p.shared_bytes, mt_bytes_mul(p.worker_bytes, threads));
}

/* A band of dY to a buffer of [channel][pixel], where it cannot be read in place. */
static void read_dy(const struct plan *p, const struct mt_band *band, int64_t g, char *to) {
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size, rows = band->y1 - band->y0, dsize = mt_dtype_size(c->dtype);
  for (int64_t o = 0; o < c->co; o++) {
    for (int64_t s = 0; s < band->segments; s++) {
      int64_t n = (band->first + s) / c->out[0], z = (band->first + s) % c->out[0];
      const char *src = (const char *)c->dst + (n * c->dst_n + (g * c->co + o) * c->dst_c +
                                                z * c->dst_s[0] + band->y0 * c->dst_s[1]) *
                                                   dsize;
      bool whole = c->dst_s[1] == c->out[2] * c->dst_s[2];
      int64_t runs = whole ? 1 : rows, len = whole ? rows * c->out[2] : c->out[2];
      for (int64_t y = 0; y < runs; y++, to += len * size) {
        mt_conv_read(to, src + y * c->dst_s[1] * dsize, len, c->dst_s[2], c->dtype, p->isa);
      }
    }
  }
}

static void pack_dy(const struct plan *p, const struct mt_band *band, int64_t g, char *buffer,
                    char *dst) {
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size, panels = ceil_div(c->co, p->gemm->mr), row = c->dst_c;
  const char *dy = buffer;
  if (p->direct) {
    int64_t n = band->first / c->out[0], z = band->first % c->out[0];
    dy = (const char *)c->dst +
         (n * c->dst_n + g * c->co * c->dst_c + z * c->dst_s[0] + band->y0 * c->dst_s[1]) * size;
  } else {
    read_dy(p, band, g, buffer);
    row = band->columns;
  }
  for (int64_t q = 0; q < panels; q++) {
    int64_t o = deal(c->co, panels, q), m = deal(c->co, panels, q + 1) - o;
    p->gemm->pack[0](dst, dy + o * row * size, row, 1, m, m, band->columns);
    dst += m * band->columns * size;
  }
}

struct workspace {
  char *image, *a, *b, *dy;
  struct mt_piece *piece;
};

/* Adds one band to columns c0 * taps .. of dw, which points at group g's first of them. */
static void add_band(const struct plan *p, int64_t g, int64_t c0, int64_t c1,
                     const struct mt_band *band, const struct workspace *w, char *dw, bool add) {
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size, vl = p->gemm->vl, nr = 2 * vl, columns = (c1 - c0) * c->ntaps;
  int64_t panels = ceil_div(c->co, p->gemm->mr);
  struct mt_tile t = {.crs = c->ci * c->ntaps, .k = band->columns, .alpha = 1, .accumulate = add};
  mt_bands_pad(&p->bands, c, p->isa, band, g, c0, c1, w->image);
  pack_dy(p, band, g, w->dy, w->a);
  int pieces = mt_bands_pieces(&p->bands, c, band, 0, band->columns, w->piece);
  for (int64_t j = 0; j < columns; j += nr) {
    t.n = least(nr, columns - j);
    int two = t.n > vl;
    t.brs = two ? nr : vl;
    t.b = w->b;
    p->fns->pack_across(w->b, w->image, p->off + j, t.n, w->piece, pieces, t.brs);
    for (int64_t q = 0, i = 0; q < panels; q++, i += t.m) {
      t.m = deal(c->co, panels, q + 1) - i;
      t.a = w->a + i * t.k * size;
      t.c = dw + (i * t.crs + j) * size;
      p->gemm->packed[t.m - 1][two](&t);
    }
  }
}

static void run_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size;
  struct workspace w;
  w.image = p->workers + p->worker_bytes * (size_t)worker;
  w.piece = (struct mt_piece *)(void *)(w.image + p->bands.band_bytes);
  w.a = (char *)w.piece + p->piece_bytes;
  w.b = w.a + p->a_bytes;
  w.dy = w.b + p->b_bytes;
  for (int64_t i = begin; i < end; i++) {
    int64_t chunk = i % p->chunks, block = i / p->chunks % p->blocks;
    int64_t g = i / p->chunks / p->blocks;
    int64_t c0 = deal(c->ci, p->blocks, block), c1 = deal(c->ci, p->blocks, block + 1);
    int64_t b0 = deal(p->bands.count, p->chunks, chunk);
    int64_t b1 = deal(p->bands.count, p->chunks, chunk + 1);
    char *dw = p->chunks > 1 ? p->partial + p->partial_bytes * (size_t)chunk : p->dw;
    dw += (g * c->co * c->ci + c0) * c->ntaps * size;
    for (int64_t b = b0; b < b1 && !mt_stopped(p->par); b++) {
      struct mt_band band = mt_bands_at(&p->bands, c, b);
      add_band(p, g, c0, c1, &band, &w, dw, b > b0);
    }
  }
}

/* dw[begin .. end) = sum of the chunks, in order. */
static void sum_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  (void)worker;
  size_t size = (size_t)p->gemm->size;
  memcpy(p->dw + (size_t)begin * size, p->partial + (size_t)begin * size,
         (size_t)(end - begin) * size);
  for (int64_t q = 1; q < p->chunks; q++) {
    const char *from = p->partial + p->partial_bytes * (size_t)q;
    if (size == 8) {
      double *d = (double *)(void *)p->dw;
      for (int64_t i = begin; i < end; i++) d[i] += ((const double *)(const void *)from)[i];
    } else {
      float *f = (float *)(void *)p->dw;
      for (int64_t i = begin; i < end; i++) f[i] += ((const float *)(const void *)from)[i];
    }
  }
}

void mt_conv_weight_run(const struct mt_isa *isa, const struct mt_conv *c, void *dw,
                        mt_parallel *par, void *scratch) {
  struct plan p;
  make_plan(&p, isa, c);
  p.off = scratch;
  p.partial = (char *)scratch + p.off_bytes;
  p.workers = (char *)scratch + p.shared_bytes;
  p.dw = dw, p.par = par;
  mt_bands_offsets(&p.bands, c, p.off);
  double work = (double)c->co * (double)(p.bands.channels * c->ntaps) * (double)p.bands.columns;
  work *= (double)p.bands.count / (double)p.chunks;
  int64_t grain = work < FORK_WORK ? (int64_t)(FORK_WORK / (work + 1)) + 1 : 1;
  mt_parallel_for(par, c->groups * p.blocks * p.chunks, grain, run_tasks, &p);
  if (p.chunks > 1) mt_parallel_for(par, p.elements, 1 << 18, sum_chunks, &p);
}
