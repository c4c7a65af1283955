/* conv.h - convolution: the problem that forward and backward passes share, and the loops that
 * every instruction set provides.
 *
 * Once an image is padded with zeros, element (k, j) of the column matrix, k = (channel, tap) and
 * j = pixel, is band[off[k] + place(j)]: the address separates. So a convolution is a product whose
 * B is packed from the padded image; the column matrix never exists. conv_band.c does that for
 * forward and, with the taps of one phase of the stride, for backward to the input; conv_weight.c
 * does the gradient of the weights; conv_depth.c takes groups of one channel. */
#ifndef MT_CPU_CONV_H
#define MT_CPU_CONV_H

#include "gemm.h"

/* Some pixels side by side in the padded image. */
struct mt_piece {
  int64_t from, n;
};

/* One type's loops. Bands have MT_GEMM_SLACK bytes behind them, which may be read, and packed
 * panels too, which may be written. */
struct mt_conv_fns {
  /* dst[p * wpad + j]: pixels j, the pieces laid end to end, of base + off[p], for p < k. What is
   * between the last pixel and wpad is undefined. */
  void (*pack)(void *dst, const void *base, const int64_t *off, int64_t k,
               const struct mt_piece *piece, int pieces, int64_t wpad);
  /* The same transposed: dst[j * wpad + p], for p < k <= wpad, 1 or 2 vectors. */
  void (*pack_across)(void *dst, const void *base, const int64_t *off, int64_t k,
                      const struct mt_piece *piece, int pieces, int64_t wpad);
  /* out[x] = bias + sum over taps of w[t] * base[off[t] + x], x < n. */
  void (*depthwise)(void *out, const void *base, const int64_t *off, const void *w, int64_t taps,
                    int64_t n, double bias);
  /* sums[t * vl + lane] += sum over x of dy[x] * base[off[t] + x]. */
  void (*depthwise_weight)(void *sums, const void *dy, const void *base, const int64_t *off,
                           int64_t taps, int64_t n);
};

struct mt_conv_table {
  const struct mt_conv_fns *f32, *f64;
};

/* The taps along one dim: tap i reads at step * output position + first + i * delta. */
struct mt_taps {
  int64_t n, first, delta;
};

/* out[n][o][y] = bias[o] + sum over c and taps of w[o][c][t] * src[n][c][step * y + tap t], zero
 * outside of src, per group. Taps are all triples of the three dims' taps, the last fastest.
 * Positions have three dims (depth, height, width). */
struct mt_conv {
  mt_dtype dtype;                /* of src and dst */
  int64_t batch, groups, ci, co; /* channels per group */
  int64_t in[3], out[3], step[3];
  const void *src;
  void *dst;
  int64_t src_n, src_c, src_s[3], dst_n, dst_c, dst_s[3];
  struct mt_taps tap[3];
  int64_t ntaps;    /* product of the three numbers */
  const void *w;    /* accumulator's type: [group][o][c][t], contiguous */
  const void *bias; /* accumulator's type, or NULL */
};

/* A cut of the output into bands and of the channels into k-blocks, and the padded image that a
 * band needs. Elements unless the name says bytes. */
struct mt_bands {
  int64_t lo[3], hi[3]; /* range of the taps */
  int64_t rows;         /* output rows of a band */
  int64_t segments;     /* whole planes of output in a band; 1 when it is part of one */
  int64_t per_plane;    /* bands in a plane, when segments is 1 */
  int64_t count;        /* bands in all */
  int64_t columns;      /* most pixels of a band */
  int64_t channels;     /* of a k-block */
  int64_t phase_len, row_len, plane_len, channel_len, segment_len;
  int64_t planes;
  uint64_t need_row, need_phase; /* which residues modulo the step any tap reads */
  size_t band_bytes;
};

/* One band: output rows y0..y1 of plane number `first`, or `segments` planes from it. */
struct mt_band {
  int64_t first, segments, y0, y1, columns;
};

void mt_bands_plan(struct mt_bands *b, const struct mt_conv *c, int64_t size, int64_t channels,
                   int64_t columns);
struct mt_band mt_bands_at(const struct mt_bands *b, const struct mt_conv *c, int64_t i);
/* Copies what a band needs of channels c0..c1 of group g, zeros where the image ends. */
void mt_bands_pad(const struct mt_bands *b, const struct mt_conv *c, const struct mt_isa *isa,
                  const struct mt_band *band, int64_t g, int64_t c0, int64_t c1, void *dst);
/* Where taps and channels lie in a padded band: off[c * ntaps + t], c < channels. */
void mt_bands_offsets(const struct mt_bands *b, const struct mt_conv *c, int64_t *off);
/* The pieces of pixels j0..j1 of a band; `piece` has room for j1 - j0. Returns how many. */
int mt_bands_pieces(const struct mt_bands *b, const struct mt_conv *c, const struct mt_band *band,
                    int64_t j0, int64_t j1, struct mt_piece *piece);
/* Copies n elements of a tensor, `stride` apart, to the accumulator's type. */
void mt_conv_read(void *dst, const void *src, int64_t n, int64_t stride, mt_dtype dtype,
                  const struct mt_isa *isa);
/* And back, rounded once. */
void mt_conv_write(void *dst, const void *src, int64_t n, int64_t stride, mt_dtype dtype,
                   const struct mt_isa *isa);

size_t mt_conv_band_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads);
void mt_conv_band_run(const struct mt_isa *isa, const struct mt_conv *c, mt_parallel *par,
                      void *scratch);
size_t mt_conv_depth_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads);
void mt_conv_depth_run(const struct mt_isa *isa, const struct mt_conv *c, mt_parallel *par,
                       void *scratch);
/* The gradient of w, as below; the same scratch as the run. */
void mt_conv_depth_weight_run(const struct mt_isa *isa, const struct mt_conv *c, void *dw,
                              mt_parallel *par, void *scratch);
/* The gradient of w for dst = dL/d(out), which is read: dw [group][o][c][t], contiguous, in the
 * accumulator's type. */
size_t mt_conv_weight_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads);
void mt_conv_weight_run(const struct mt_isa *isa, const struct mt_conv *c, void *dw,
                        mt_parallel *par, void *scratch);

static inline const struct mt_conv_fns *mt_conv_fns_of(const struct mt_conv_table *t,
                                                       mt_dtype dtype) {
  return dtype == MT_F64 ? t->f64 : t->f32;
}

/* Scratch arithmetic: sizes in bytes, rounded up with slack, SIZE_MAX when too large. */
static inline size_t mt_bytes(double elements, int64_t size) {
  double bytes = elements * (double)size;
  if (bytes > 0x1p60) return SIZE_MAX;
  return ((size_t)bytes + MT_GEMM_SLACK + 63) & ~(size_t)63;
}
static inline size_t mt_bytes_add(size_t a, size_t b) {
  return a > SIZE_MAX / 2 || b > SIZE_MAX / 2 ? SIZE_MAX : a + b;
}
static inline size_t mt_bytes_mul(size_t a, int64_t n) {
  return a > (SIZE_MAX / 2) / (size_t)(n ? n : 1) ? SIZE_MAX : a * (size_t)n;
}

#endif
