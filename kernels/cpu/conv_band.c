/* conv_band.c - convolution as a product whose B is packed from padded bands of the image.
 *
 * C (channels x pixels of a band) = W (channels x (channel, tap)) by columns. W is packed once for
 * all bands; a band pads, packs and multiplies in its own scratch, so bands run side by side. The
 * k-blocks are whole channels and depend on the shape alone: no band, and no thread, can change a
 * bit of the result.
 *
 * Where a band's pixels lie side by side in the output, tiles write there; else (16-bit floats,
 * several small planes, output with gaps, phases of a stride) into a buffer that is copied. */
#include "conv.h"

#include "isa.h"

enum {
  KC_BYTES = 2048,
  B_BYTES = 262144, /* packed columns of a band and k-block: half of a common L2 */
  MOST_COLUMNS = 1024,
  FORK_WORK = 1 << 20
};

struct plan {
  const struct mt_conv *c;
  const struct mt_isa *isa;
  const struct mt_gemm_fns *gemm;
  const struct mt_conv_fns *fns;
  struct mt_bands bands;
  int64_t blocks;         /* k-blocks of a group */
  int64_t panel_elements; /* one packed block of weights */
  bool direct;            /* tiles write to dst */
  size_t off_bytes, w_bytes, shared_bytes;
  size_t b_bytes, c_bytes, worker_bytes;
  /* at run time */
  int64_t *off;
  char *w, *workers;
  mt_parallel *par;
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t deal(int64_t n, int64_t parts, int64_t i) {
  int64_t each = n / parts, extra = n % parts;
  return i * each + least(i, extra);
}

static void make_plan(struct plan *p, const struct mt_isa *isa, const struct mt_conv *c,
                      int threads) {
  p->c = c, p->isa = isa;
  p->gemm = mt_gemm_fns_of(isa, c->dtype);
  p->fns = mt_conv_fns_of(isa->conv, c->dtype);
  int64_t size = p->gemm->size, taps = c->ntaps, most = KC_BYTES / size / (taps ? taps : 1);
  p->blocks = c->ci ? ceil_div(c->ci, most > 1 ? most : 1) : 1;
  int64_t channels = ceil_div(c->ci, p->blocks), kc = channels * taps, nr = 2 * p->gemm->vl;
  int64_t columns = B_BYTES / size / (kc ? kc : 1) / nr * nr;
  columns = columns > MOST_COLUMNS ? MOST_COLUMNS : columns < 4 * nr ? 4 * nr : columns;
  mt_bands_plan(&p->bands, c, size, channels, columns);
  p->direct = p->bands.segments == 1 && (c->dtype == MT_F32 || c->dtype == MT_F64) &&
              c->dst_s[2] == 1 && c->dst_s[1] == c->out[2];
  p->panel_elements = c->co * kc;
  p->off_bytes = mt_bytes((double)kc, sizeof(int64_t));
  size_t panel_bytes = mt_bytes((double)p->panel_elements, size);
  p->panel_elements = (int64_t)(panel_bytes / (size_t)size);
  p->w_bytes = mt_bytes_mul(panel_bytes, c->groups * p->blocks);
  p->shared_bytes = mt_bytes_add(p->off_bytes, p->w_bytes);
  double padded = (double)ceil_div(p->bands.columns, nr) * (double)nr;
  p->b_bytes = mt_bytes(padded * (double)kc, size);
  p->c_bytes = p->direct ? 0 : mt_bytes((double)c->co * (double)p->bands.columns, size);
  p->worker_bytes = mt_bytes_add(mt_bytes_add(p->bands.band_bytes, p->b_bytes), p->c_bytes);
  (void)threads;
}

size_t mt_conv_band_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads) {
  struct plan p;
  make_plan(&p, isa, c, threads);
  return mt_bytes_add(p.shared_bytes, mt_bytes_mul(p.worker_bytes, threads));
}

/* ---- Weights ---- */

/* Blocks of weights begin .. end, each apart from the next: packing writes behind its end. */
static void pack_weights(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size, row = c->ci * c->ntaps, panels = ceil_div(c->co, p->gemm->mr);
  (void)worker;
  for (int64_t q = begin; q < end; q++) {
    int64_t g = q / p->blocks, c0 = deal(c->ci, p->blocks, q % p->blocks);
    int64_t kc = (deal(c->ci, p->blocks, q % p->blocks + 1) - c0) * c->ntaps;
    const char *w = (const char *)c->w + (g * c->co * row + c0 * c->ntaps) * size;
    char *dst = p->w + q * p->panel_elements * size;
    for (int64_t i = 0; i < panels; i++) {
      int64_t o = deal(c->co, panels, i), m = deal(c->co, panels, i + 1) - o;
      p->gemm->pack[0](dst, w + o * row * size, row, 1, m, m, kc);
      dst += m * kc * size;
    }
  }
}

/* ---- Bands ---- */

static void pack_columns(const struct plan *p, const struct mt_band *band, const char *image,
                         int64_t kc, char *dst) {
  int64_t vl = p->gemm->vl, nr = 2 * vl, size = p->gemm->size;
  struct mt_piece piece[64];
  for (int64_t j = 0; j < band->columns; j += nr) {
    int64_t w = least(nr, band->columns - j), wpad = w > vl ? nr : vl;
    int pieces = mt_bands_pieces(&p->bands, p->c, band, j, j + w, piece);
    p->fns->pack(dst, image, p->off, kc, piece, pieces, wpad);
    dst += wpad * kc * size;
  }
}

/* t has C at the band's first pixel, its row stride, and the number of the block's terms. */
static void multiply(const struct plan *p, struct mt_tile t, const char *a, const char *b,
                     int64_t columns) {
  int64_t vl = p->gemm->vl, nr = 2 * vl, size = p->gemm->size;
  int64_t panels = ceil_div(p->c->co, p->gemm->mr);
  char *c = t.c;
  const char *bias = t.row_bias;
  for (int64_t i = 0, q = 0; q < panels; q++, i += t.m) {
    t.m = deal(p->c->co, panels, q + 1) - i;
    t.a = a + i * t.k * size;
    if (bias) t.row_bias = bias + i * size;
    for (int64_t j = 0; j < columns; j += nr) {
      t.n = least(nr, columns - j);
      int two = t.n > vl;
      t.brs = two ? nr : vl;
      t.b = b + j * t.k * size;
      t.c = c + (i * t.crs + j) * size;
      p->gemm->packed[t.m - 1][two](&t);
    }
  }
}

/* Copies a finished band from its buffer to the output. */
static void copy_out(const struct plan *p, const struct mt_band *band, int64_t g,
                     const char *from) {
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size, out = mt_dtype_size(c->dtype), rows = band->y1 - band->y0;
  bool whole = c->dst_s[1] == c->out[2] * c->dst_s[2]; /* rows follow each other */
  for (int64_t s = 0; s < band->segments; s++) {
    int64_t n = (band->first + s) / c->out[0], z = (band->first + s) % c->out[0];
    for (int64_t o = 0; o < c->co; o++) {
      const char *src = from + (o * band->columns + s * rows * c->out[2]) * size;
      char *dst = (char *)c->dst + (n * c->dst_n + (g * c->co + o) * c->dst_c + z * c->dst_s[0] +
                                    band->y0 * c->dst_s[1]) *
                                       out;
      if (whole) {
        mt_conv_write(dst, src, rows * c->out[2], c->dst_s[2], c->dtype, p->isa);
        continue;
      }
      for (int64_t y = 0; y < rows; y++) {
        mt_conv_write(dst + y * c->dst_s[1] * out, src + y * c->out[2] * size, c->out[2],
                      c->dst_s[2], c->dtype, p->isa);
      }
    }
  }
}

static void one_band(const struct plan *p, int64_t g, const struct mt_band *band, char *scratch) {
  const struct mt_conv *c = p->c;
  int64_t size = p->gemm->size;
  char *image = scratch, *b = image + p->bands.band_bytes, *buffer = b + p->b_bytes;
  struct mt_tile t = {.crs = c->dst_c, .alpha = 1, .c = buffer};
  if (p->direct) {
    int64_t n = band->first / c->out[0], z = band->first % c->out[0];
    t.c = (char *)c->dst +
          (n * c->dst_n + g * c->co * c->dst_c + z * c->dst_s[0] + band->y0 * c->dst_s[1]) * size;
  } else {
    t.crs = band->columns;
  }
  for (int64_t q = 0; q < p->blocks; q++) {
    int64_t c0 = deal(c->ci, p->blocks, q), c1 = deal(c->ci, p->blocks, q + 1);
    mt_bands_pad(&p->bands, c, p->isa, band, g, c0, c1, image);
    t.k = (c1 - c0) * c->ntaps;
    pack_columns(p, band, image, t.k, b);
    if (c->bias && q == p->blocks - 1) t.row_bias = (const char *)c->bias + g * c->co * size;
    multiply(p, t, p->w + (g * p->blocks + q) * p->panel_elements * size, b, band->columns);
    t.accumulate = true;
  }
  if (!p->direct) copy_out(p, band, g, buffer);
}

static void run_bands(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  char *scratch = p->workers + p->worker_bytes * (size_t)worker;
  for (int64_t i = begin; i < end && !mt_stopped(p->par); i++) {
    struct mt_band band = mt_bands_at(&p->bands, p->c, i % p->bands.count);
    one_band(p, i / p->bands.count, &band, scratch);
  }
}

void mt_conv_band_run(const struct mt_isa *isa, const struct mt_conv *c, mt_parallel *par,
                      void *scratch) {
  struct plan p;
  make_plan(&p, isa, c, par ? par->nthreads : 1);
  p.off = scratch;
  p.w = (char *)scratch + p.off_bytes, p.workers = (char *)scratch + p.shared_bytes;
  p.par = par;
  mt_bands_offsets(&p.bands, c, p.off);
  double block = (double)p.panel_elements * 4, terms = (double)(c->ci * c->ntaps + 1);
  double band = (double)c->co * terms * (double)p.bands.columns;
  int64_t grain = block < FORK_WORK ? (int64_t)(FORK_WORK / (block + 1)) + 1 : 1;
  mt_parallel_for(par, c->groups * p.blocks, grain, pack_weights, &p);
  grain = band < FORK_WORK ? (int64_t)(FORK_WORK / (band + 1)) + 1 : 1;
  mt_parallel_for(par, c->groups * p.bands.count, grain, run_bands, &p);
}
