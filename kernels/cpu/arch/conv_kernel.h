/* conv_kernel.h - packing of padded images, and depthwise rows; one text for every type.
 *
 * Whole vectors are read and written: what runs past a piece is overwritten by the next one, since
 * pieces come in ascending order, and there is slack behind the last. */
#include "../conv.h"
#include "../isa.h"
#include "vector.h"

static void pack(void *dstv, const void *basev, const int64_t *off, int64_t k,
                 const struct mt_piece *piece, int pieces, int64_t wpad) {
  REAL *dst = dstv;
  const REAL *base = basev;
  if (pieces == 1 && wpad == 2 * VL) {
    base += piece->from;
    for (int64_t p = 0; p < k; p++, dst += 2 * VL) {
      vec x = load(base + off[p]), y = load(base + off[p] + VL);
      store(dst, x), store(dst + VL, y);
    }
    return;
  }
  for (int64_t p = 0; p < k; p++, dst += wpad) {
    REAL *d = dst;
    for (int q = 0; q < pieces; q++) {
      const REAL *s = base + off[p] + piece[q].from;
      for (int64_t i = 0; i < piece[q].n; i += VL) store(d + i, load(s + i));
      d += piece[q].n;
    }
  }
}

static void pack_across(void *dstv, const void *basev, const int64_t *off, int64_t k,
                        const struct mt_piece *piece, int pieces, int64_t wpad) {
  REAL *dst = dstv;
  for (int q = 0; q < pieces; q++) {
    const REAL *s = (const REAL *)basev + piece[q].from;
    for (int64_t j = 0; j < piece[q].n; j += VL, s += VL) {
      int64_t n = piece[q].n - j < VL ? piece[q].n - j : VL;
      for (int64_t p0 = 0; p0 < wpad; p0 += VL) {
        vec r[VL];
        UNROLL for (int i = 0; i < VL; i++) {
          int64_t p = p0 + i < k ? p0 + i : k - 1;
          r[i] = load(s + off[p]);
        }
        transpose(r);
        UNROLL for (int i = 0; i < VL; i++) {
          if (i < n) store(dst + i * wpad + p0, r[i]);
        }
      }
      dst += n * wpad;
    }
  }
}

static void depthwise(void *outv, const void *basev, const int64_t *off, const void *wv,
                      int64_t taps, int64_t n, double bias) {
  REAL *out = outv;
  const REAL *base = basev, *w = wv;
  int64_t x = 0;
  for (; x + 4 * VL <= n; x += 4 * VL) {
    vec acc[4];
    UNROLL for (int i = 0; i < 4; i++) acc[i] = splat((REAL)bias);
    for (int64_t t = 0; t < taps; t++) {
      const REAL *s = base + off[t] + x;
      vec y = splat(w[t]);
      UNROLL for (int i = 0; i < 4; i++) acc[i] = fused(y, load(s + i * VL), acc[i]);
    }
    UNROLL for (int i = 0; i < 4; i++) store(out + x + i * VL, acc[i]);
  }
  for (; x < n; x += VL) {
    vec acc = splat((REAL)bias);
    for (int64_t t = 0; t < taps; t++) acc = fused(splat(w[t]), load(base + off[t] + x), acc);
    store_part(out + x, acc, n - x < VL ? n - x : VL);
  }
}

static void depthwise_weight(void *sumsv, const void *dyv, const void *basev, const int64_t *off,
                             int64_t taps, int64_t n) {
  REAL *sums = sumsv;
  const REAL *dy = dyv, *base = basev;
  int64_t whole = n / VL * VL;
  mask lanes = first(n > whole ? n - whole : VL);
  for (int64_t t = 0; t < taps; t++) {
    vec acc = load(sums + t * VL);
    const REAL *s = base + off[t];
    for (int64_t x = 0; x < whole; x += VL) acc = fused(load(dy + x), load(s + x), acc);
    if (n > whole) acc = fused(load_part(dy + whole, lanes), load_part(s + whole, lanes), acc);
    store(sums + t * VL, acc);
  }
}

const struct mt_conv_fns CONV_FNS = {
    .pack = pack,
    .pack_across = pack_across,
    .depthwise = depthwise,
    .depthwise_weight = depthwise_weight,
};
