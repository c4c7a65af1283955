/* conv_depth.c - convolution in groups of one input channel: no product, only shifted rows.
 *
 * A channel's band is padded in scratch and every tap multiplies it where it lies. One channel of
 * one band is a task of its own; for the weights a channel walks all of its bands in order. So
 * results depend on no cut. */
#include "conv.h"

#include <string.h>

#include "isa.h"

enum {
  BAND_BYTES = 32768,
  FORK_WORK = 1 << 19
};

struct plan {
  const struct mt_conv *c;
  const struct mt_isa *isa;
  const struct mt_conv_fns *fns;
  struct mt_bands bands;
  int64_t size, vl;
  size_t off_bytes, row_bytes, sums_bytes, worker_bytes;
  int64_t *off;
  char *workers, *dw;
  mt_parallel *par;
};

static void make_plan(struct plan *p, const struct mt_isa *isa, const struct mt_conv *c) {
  p->c = c, p->isa = isa;
  p->fns = mt_conv_fns_of(isa->conv, c->dtype);
  p->size = c->dtype == MT_F64 ? 8 : 4;
  p->vl = mt_gemm_fns_of(isa, c->dtype)->vl;
  int64_t columns = BAND_BYTES / p->size / c->step[1] / c->step[2];
  mt_bands_plan(&p->bands, c, p->size, 1, columns > 1 ? columns : 1);
  p->off_bytes = mt_bytes((double)c->ntaps, sizeof(int64_t));
  p->row_bytes = mt_bytes((double)c->out[2], p->size);
  p->sums_bytes = mt_bytes((double)(c->ntaps * p->vl), p->size);
  p->worker_bytes = mt_bytes_add(p->bands.band_bytes, p->row_bytes);
  p->worker_bytes = mt_bytes_add(p->worker_bytes, mt_bytes_mul(p->sums_bytes, c->co));
}

size_t mt_conv_depth_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads) {
  struct plan p;
  make_plan(&p, isa, c);
  return mt_bytes_add(p.off_bytes, mt_bytes_mul(p.worker_bytes, threads));
}

static void start(struct plan *p, mt_parallel *par, void *scratch) {
  p->off = scratch;
  p->workers = (char *)scratch + p->off_bytes;
  p->par = par;
  mt_bands_offsets(&p->bands, p->c, p->off);
}

/* Where row y of segment s of a band starts in a tensor of the output's shape. */
static char *row_at(const struct plan *p, const struct mt_band *band, int64_t s, int64_t y,
                    int64_t channel) {
  const struct mt_conv *c = p->c;
  int64_t n = (band->first + s) / c->out[0], z = (band->first + s) % c->out[0];
  int64_t at = n * c->dst_n + channel * c->dst_c + z * c->dst_s[0] + (band->y0 + y) * c->dst_s[1];
  return (char *)c->dst + at * mt_dtype_size(c->dtype);
}

static bool in_place(const struct mt_conv *c) {
  return c->dst_s[2] == 1 && (c->dtype == MT_F32 || c->dtype == MT_F64);
}

static const char *image_row(const struct plan *p, const char *image, int64_t s, int64_t y) {
  return image + (s * p->bands.segment_len + y * p->c->step[1] * p->bands.row_len) * p->size;
}

/* ---- Forward ---- */

static double bias_of(const struct mt_conv *c, int64_t channel) {
  if (!c->bias) return 0;
  return c->dtype == MT_F64 ? ((const double *)c->bias)[channel]
                            : (double)((const float *)c->bias)[channel];
}

static void one_channel(const struct plan *p, int64_t g, const struct mt_band *band,
                        char *scratch) {
  const struct mt_conv *c = p->c;
  char *image = scratch, *row = scratch + p->bands.band_bytes;
  bool direct = in_place(c);
  mt_bands_pad(&p->bands, c, p->isa, band, g, 0, 1, image);
  for (int64_t o = g * c->co; o < (g + 1) * c->co; o++) {
    const char *w = (const char *)c->w + o * c->ntaps * p->size;
    double bias = bias_of(c, o);
    for (int64_t s = 0; s < band->segments; s++) {
      for (int64_t y = 0; y < band->y1 - band->y0; y++) {
        char *dst = row_at(p, band, s, y, o), *out = direct ? dst : row;
        p->fns->depthwise(out, image_row(p, image, s, y), p->off, w, c->ntaps, c->out[2], bias);
        if (!direct) mt_conv_write(dst, row, c->out[2], c->dst_s[2], c->dtype, p->isa);
      }
    }
  }
}

static void run_channels(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  char *scratch = p->workers + p->worker_bytes * (size_t)worker;
  for (int64_t i = begin; i < end && !mt_stopped(p->par); i++) {
    struct mt_band band = mt_bands_at(&p->bands, p->c, i / p->c->groups);
    one_channel(p, i % p->c->groups, &band, scratch);
  }
}

void mt_conv_depth_run(const struct mt_isa *isa, const struct mt_conv *c, mt_parallel *par,
                       void *scratch) {
  struct plan p;
  make_plan(&p, isa, c);
  start(&p, par, scratch);
  double work = (double)(p.bands.columns * c->co) * (double)(c->ntaps + 2);
  int64_t grain = work < FORK_WORK ? (int64_t)(FORK_WORK / (work + 1)) + 1 : 1;
  mt_parallel_for(par, p.bands.count * c->groups, grain, run_channels, &p);
}

/* ---- Weights ---- */

/* The sum of the lanes, in order. */
static void sum_lanes(const struct plan *p, const char *sums, char *dw) {
  for (int64_t t = 0; t < p->c->ntaps; t++) {
    double d = 0;
    float f = 0;
    for (int64_t i = 0; i < p->vl; i++) {
      if (p->size == 8)
        d += ((const double *)(const void *)sums)[t * p->vl + i];
      else
        f += ((const float *)(const void *)sums)[t * p->vl + i];
    }
    if (p->size == 8)
      ((double *)(void *)dw)[t] = d;
    else
      ((float *)(void *)dw)[t] = f;
  }
}

static void add_band(const struct plan *p, int64_t g, const struct mt_band *band, char *image,
                     char *row, char *sums) {
  const struct mt_conv *c = p->c;
  bool direct = in_place(c);
  mt_bands_pad(&p->bands, c, p->isa, band, g, 0, 1, image);
  for (int64_t o = 0; o < c->co; o++) {
    for (int64_t s = 0; s < band->segments; s++) {
      for (int64_t y = 0; y < band->y1 - band->y0; y++) {
        const char *dy = row_at(p, band, s, y, g * c->co + o);
        if (!direct) mt_conv_read(row, dy, c->out[2], c->dst_s[2], c->dtype, p->isa);
        p->fns->depthwise_weight(sums + (size_t)o * p->sums_bytes, direct ? dy : row,
                                 image_row(p, image, s, y), p->off, c->ntaps, c->out[2]);
      }
    }
  }
}

static void run_weights(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plan *p = ctx;
  const struct mt_conv *c = p->c;
  char *image = p->workers + p->worker_bytes * (size_t)worker;
  char *row = image + p->bands.band_bytes, *sums = row + p->row_bytes;
  for (int64_t g = begin; g < end && !mt_stopped(p->par); g++) {
    memset(sums, 0, p->sums_bytes * (size_t)c->co);
    for (int64_t i = 0; i < p->bands.count; i++) {
      struct mt_band band = mt_bands_at(&p->bands, c, i);
      add_band(p, g, &band, image, row, sums);
    }
    for (int64_t o = 0; o < c->co; o++) {
      sum_lanes(p, sums + (size_t)o * p->sums_bytes, p->dw + (g * c->co + o) * c->ntaps * p->size);
    }
  }
}

void mt_conv_depth_weight_run(const struct mt_isa *isa, const struct mt_conv *c, void *dw,
                              mt_parallel *par, void *scratch) {
  struct plan p;
  make_plan(&p, isa, c);
  start(&p, par, scratch);
  p.dw = dw;
  double work = (double)(p.bands.columns * p.bands.count * c->co) * (double)(c->ntaps + 2);
  int64_t grain = work < FORK_WORK ? (int64_t)(FORK_WORK / (work + 1)) + 1 : 1;
  mt_parallel_for(par, c->groups, grain, run_weights, &p);
}
