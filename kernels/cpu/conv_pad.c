/* conv_pad.c - bands of output rows, and the padded piece of image that a band reads.
 *
 * A band is some rows of one plane of the output, or several whole small planes. Its padded image
 * is stored as [segment][channel][plane][row][phase][column], where phase is the column modulo the
 * step: so the pixels of an output row lie side by side for every tap, whatever the stride.
 * Invariant: element (c, t, j) of a band is dst[off[c, t] + place(j)], with off from
 * mt_bands_offsets and place from mt_bands_pieces. */
#include "conv.h"

#include <string.h>

#include "../half.h"
#include "isa.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Elements of any type ---- */

void mt_conv_read(void *dst, const void *src, int64_t n, int64_t stride, mt_dtype dtype,
                  const struct mt_isa *isa) {
  size_t size = (size_t)mt_dtype_size(dtype);
  bool half = dtype == MT_F16 || dtype == MT_BF16;
  if (stride == 1 && !half) {
    memcpy(dst, src, (size_t)n * size);
  } else if (stride == 1) {
    isa->gemm->widen[dtype == MT_BF16](dst, src, n);
  } else if (dtype == MT_F64) {
    for (int64_t i = 0; i < n; i++) ((double *)dst)[i] = ((const double *)src)[i * stride];
  } else if (dtype == MT_F32) {
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = ((const float *)src)[i * stride];
  } else {
    for (int64_t i = 0; i < n; i++) {
      uint16_t h = ((const uint16_t *)src)[i * stride];
      ((float *)dst)[i] = dtype == MT_F16 ? mt_f16_to_f32(h) : mt_bf16_to_f32(h);
    }
  }
}

void mt_conv_write(void *dst, const void *src, int64_t n, int64_t stride, mt_dtype dtype,
                   const struct mt_isa *isa) {
  size_t size = (size_t)mt_dtype_size(dtype);
  bool half = dtype == MT_F16 || dtype == MT_BF16;
  if (stride == 1 && !half) {
    memcpy(dst, src, (size_t)n * size);
  } else if (stride == 1) {
    isa->gemm->narrow[dtype == MT_BF16](dst, src, n);
  } else if (dtype == MT_F64) {
    for (int64_t i = 0; i < n; i++) ((double *)dst)[i * stride] = ((const double *)src)[i];
  } else if (dtype == MT_F32) {
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i * stride] = ((const float *)src)[i];
  } else {
    for (int64_t i = 0; i < n; i++) {
      float x = ((const float *)src)[i];
      ((uint16_t *)dst)[i * stride] = dtype == MT_F16 ? mt_f32_to_f16(x) : mt_f32_to_bf16(x);
    }
  }
}

/* ---- The cut ---- */

/* Which residues of (tap - lowest) modulo the step occur along dim d. */
static uint64_t residues(const struct mt_bands *b, const struct mt_conv *c, int d) {
  if (c->step[d] > 64) return ~(uint64_t)0;
  uint64_t set = 0;
  for (int64_t i = 0; i < c->tap[d].n; i++) {
    int64_t at = c->tap[d].first + i * c->tap[d].delta;
    set |= (uint64_t)1 << ((at - b->lo[d]) % c->step[d]);
  }
  return set;
}

/* Rows per band, at most `most`: the number that leaves the fewest lanes of panels idle. */
static int64_t choose_rows(const struct mt_conv *c, int64_t most, int64_t lanes) {
  int64_t height = c->out[1], best = 1;
  double least_cost = -1;
  most = most < 1 ? 1 : least(most, height);
  for (int64_t r = most; r >= 1 && r >= most / 2; r--) {
    int64_t whole = height / r, rest = height % r;
    double cost = (double)whole * (double)ceil_div(r * c->out[2], lanes) +
                  (double)ceil_div(rest * c->out[2], lanes);
    if (least_cost < 0 || cost < least_cost) least_cost = cost, best = r;
  }
  return best;
}

void mt_bands_plan(struct mt_bands *b, const struct mt_conv *c, int64_t size, int64_t channels,
                   int64_t columns) {
  for (int d = 0; d < 3; d++) {
    int64_t first = c->ntaps ? c->tap[d].first : 0;
    int64_t last = c->ntaps ? first + (c->tap[d].n - 1) * c->tap[d].delta : 0;
    b->lo[d] = least(first, last), b->hi[d] = first + last - b->lo[d];
  }
  b->need_row = residues(b, c, 1), b->need_phase = residues(b, c, 2);
  int64_t slabs = c->batch * c->out[0], plane = c->out[1] * c->out[2];
  b->segments = plane > 0 && 2 * plane <= columns ? least(columns / plane, slabs) : 1;
  if (b->segments > 1) {
    b->rows = c->out[1], b->per_plane = 1;
    b->count = ceil_div(slabs, b->segments);
    b->segments = ceil_div(slabs, b->count); /* evenly */
  } else {
    b->rows = choose_rows(c, columns / (c->out[2] ? c->out[2] : 1), 64 / size);
    b->per_plane = ceil_div(c->out[1], b->rows);
    b->count = slabs * b->per_plane;
  }
  b->columns = b->segments * b->rows * c->out[2];
  b->channels = channels;
  b->planes = b->hi[0] - b->lo[0] + 1;
  int64_t width = (c->out[2] - 1) * c->step[2] + b->hi[2] - b->lo[2] + 1;
  b->phase_len = ceil_div(width, c->step[2]);
  b->row_len = b->phase_len * c->step[2];
  b->plane_len = b->row_len * ((b->rows - 1) * c->step[1] + b->hi[1] - b->lo[1] + 1);
  b->channel_len = b->plane_len * b->planes;
  b->segment_len = b->channel_len * channels;
  b->band_bytes = mt_bytes((double)b->segment_len * (double)b->segments, size);
}

struct mt_band mt_bands_at(const struct mt_bands *b, const struct mt_conv *c, int64_t i) {
  struct mt_band band;
  int64_t slabs = c->batch * c->out[0];
  if (b->segments > 1) {
    band.first = i * b->segments;
    band.segments = least(b->segments, slabs - band.first);
    band.y0 = 0, band.y1 = c->out[1];
  } else {
    band.first = i / b->per_plane, band.segments = 1;
    band.y0 = (i % b->per_plane) * b->rows;
    band.y1 = least(band.y0 + b->rows, c->out[1]);
  }
  band.columns = band.segments * (band.y1 - band.y0) * c->out[2];
  return band;
}

/* ---- Padding ---- */

/* One row, split into phases; src NULL: a row outside of the image. */
static void pad_row(const struct mt_bands *b, const struct mt_conv *c, const struct mt_isa *isa,
                    char *dst, const char *src, int64_t acc, int64_t size) {
  int64_t step = c->step[2], len = b->phase_len;
  for (int64_t f = 0; f < step; f++, dst += len * acc) {
    if (!(b->need_phase >> (f & 63) & 1) && step <= 64) continue;
    int64_t x0 = b->lo[2] + f; /* column of the first element */
    int64_t from = x0 < 0 ? ceil_div(-x0, step) : 0;
    int64_t to = c->in[2] > x0 ? ceil_div(c->in[2] - x0, step) : 0;
    from = least(from, len), to = least(to, len);
    if (!src || to <= from) from = to = len;
    memset(dst, 0, (size_t)(from * acc));
    if (to > from) {
      mt_conv_read(dst + from * acc, src + (x0 + from * step) * c->src_s[2] * size, to - from,
                   step * c->src_s[2], c->dtype, isa);
    }
    memset(dst + to * acc, 0, (size_t)((len - to) * acc));
  }
}

void mt_bands_pad(const struct mt_bands *b, const struct mt_conv *c, const struct mt_isa *isa,
                  const struct mt_band *band, int64_t g, int64_t c0, int64_t c1, void *dst) {
  int64_t size = mt_dtype_size(c->dtype), acc = c->dtype == MT_F64 ? 8 : 4, step = c->step[1];
  int64_t rows = (band->y1 - 1 - band->y0) * step + b->hi[1] - b->lo[1] + 1;
  for (int64_t s = 0; s < band->segments; s++) {
    int64_t n = (band->first + s) / c->out[0], z = (band->first + s) % c->out[0];
    for (int64_t ch = c0; ch < c1; ch++) {
      const char *image =
          (const char *)c->src + (n * c->src_n + (g * c->ci + ch) * c->src_c) * size;
      for (int64_t p = 0; p < b->planes; p++) {
        int64_t sz = z * c->step[0] + b->lo[0] + p;
        char *d = (char *)dst +
                  (s * b->segment_len + (ch - c0) * b->channel_len + p * b->plane_len) * acc;
        for (int64_t r = 0; r < rows; r++, d += b->row_len * acc) {
          if (step <= 64 && !(b->need_row >> (r % step) & 1)) continue;
          int64_t y = band->y0 * step + b->lo[1] + r;
          bool inside = y >= 0 && y < c->in[1] && sz >= 0 && sz < c->in[0];
          const char *row = image + (sz * c->src_s[0] + y * c->src_s[1]) * size;
          pad_row(b, c, isa, d, inside ? row : NULL, acc, size);
        }
      }
    }
  }
}

void mt_bands_offsets(const struct mt_bands *b, const struct mt_conv *c, int64_t *off) {
  const struct mt_taps *tap = c->tap;
  for (int64_t ch = 0; ch < b->channels; ch++) {
    for (int64_t t = 0; t < c->ntaps; t++) {
      int64_t i[3] = {t / tap[2].n / tap[1].n, t / tap[2].n % tap[1].n, t % tap[2].n}, at[3];
      for (int d = 0; d < 3; d++) at[d] = tap[d].first + i[d] * tap[d].delta - b->lo[d];
      *off++ = ch * b->channel_len + at[0] * b->plane_len + at[1] * b->row_len +
               at[2] % c->step[2] * b->phase_len + at[2] / c->step[2];
    }
  }
}

int mt_bands_pieces(const struct mt_bands *b, const struct mt_conv *c, const struct mt_band *band,
                    int64_t j0, int64_t j1, struct mt_piece *piece) {
  int64_t width = c->out[2], rows = band->y1 - band->y0;
  int64_t row = j0 / width, x = j0 % width, s = row / rows, y = row % rows;
  int n = 0;
  while (j0 < j1) {
    int64_t len = least(width - x, j1 - j0);
    int64_t from = s * b->segment_len + y * c->step[1] * b->row_len + x;
    if (n > 0 && piece[n - 1].from + piece[n - 1].n == from)
      piece[n - 1].n += len;
    else
      piece[n++] = (struct mt_piece){from, len};
    j0 += len, x = 0;
    if (++y == rows) y = 0, s++;
  }
  return n;
}
