/* random_loops.c - see random.h. Integers are exact anyway and floats are not contracted, so the
 * variants differ in speed alone. */
#include "../random.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "../../rng.h"
#include "../isa.h"

/* Counters side by side, one in the low half of each 64-bit lane; high halves hold garbage, which
 * the widening product does not read. A round waits for its products, so several groups of lanes go
 * through the rounds together. */
#ifdef __AVX512F__
#define LANES 8
#define GROUPS 4
#elif defined(__AVX2__)
#define LANES 4
#define GROUPS 2
#else
#define LANES 2
#define GROUPS 2
#endif
#define TOGETHER (LANES * GROUPS)
#define UNROLL _Pragma("GCC unroll 4")
typedef uint64_t lanes __attribute__((vector_size(LANES * 8)));

static inline lanes widening_product(lanes a, lanes m) {
#if defined(__AVX512F__)
  return (lanes)_mm512_mul_epu32((__m512i)a, (__m512i)m);
#elif defined(__AVX2__)
  return (lanes)_mm256_mul_epu32((__m256i)a, (__m256i)m);
#elif defined(__SSE2__)
  return (lanes)_mm_mul_epu32((__m128i)a, (__m128i)m);
#else
  return (a & 0xffffffffu) * m;
#endif
}

/* The words of one group, from the four numbers of each counter. */
static inline void put_words(uint32_t *w, lanes a, lanes b, lanes c, lanes d) {
  uint64_t ab[LANES], cd[LANES];
  a = (a & 0xffffffffu) | b << 32;
  c = (c & 0xffffffffu) | d << 32;
  memcpy(ab, &a, sizeof ab);
  memcpy(cd, &c, sizeof cd);
  UNROLL for (int i = 0; i < LANES; i++) {
    memcpy(w + 4 * i, &ab[i], 8);
    memcpy(w + 4 * i + 2, &cd[i], 8);
  }
}

/* TOGETHER counters from `counter` on, whose low halves must not wrap. key: of the ten rounds. */
static inline void words_together(uint32_t *w, const uint64_t (*key)[2], uint64_t counter) {
  const lanes m = (lanes){0} + 0xD2511F53u, l = (lanes){0} + 0xCD9E8D57u;
  lanes a[GROUPS], b[GROUPS], c[GROUPS], d[GROUPS], step;
  uint64_t first[LANES];
  for (int i = 0; i < LANES; i++) first[i] = (uint64_t)i;
  memcpy(&step, first, sizeof step);
  UNROLL for (int g = 0; g < GROUPS; g++) {
    a[g] = step + (counter + (uint64_t)(g * LANES));
    b[g] = (lanes){0} + (counter >> 32);
    c[g] = d[g] = (lanes){0};
  }
  for (int round = 0; round < 10; round++) {
    UNROLL for (int g = 0; g < GROUPS; g++) {
      lanes p = widening_product(a[g], m), q = widening_product(c[g], l);
      a[g] = (q >> 32) ^ b[g] ^ key[round][0];
      c[g] = (p >> 32) ^ d[g] ^ key[round][1];
      b[g] = q;
      d[g] = p;
    }
  }
  UNROLL for (int g = 0; g < GROUPS; g++) { put_words(w + 4 * LANES * g, a[g], b[g], c[g], d[g]); }
}

static void words(uint32_t *w, int64_t n, uint64_t seed, uint64_t counter) {
  uint64_t key[10][2];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    key[round][0] = k0;
    key[round][1] = k1;
  }
  for (int64_t i = 0; i < n;) {
    uint64_t at = counter + (uint64_t)i;
    if (i + TOGETHER <= n && (uint32_t)at <= UINT32_MAX - TOGETHER) {
      words_together(w + 4 * i, (const uint64_t(*)[2])key, at);
      i += TOGETHER;
    } else {
      mt_philox r = mt_philox_at(seed, at);
      memcpy(w + 4 * i++, r.w, sizeof r.w);
    }
  }
}

static void uniform_f32(float *restrict out, const uint32_t *restrict w, int64_t n, float from,
                        float to) {
  const float span = to - from;
  for (int64_t i = 0; i < n; i++) {
    float x = from + mt_unit_f32(w[i]) * span;
    out[i] = x >= to ? from : x; /* rounding may reach the end */
  }
}

static void uniform_f64(double *restrict out, const uint32_t *restrict w, int64_t n, double from,
                        double to) {
  const double span = to - from;
  for (int64_t i = 0; i < n; i++) {
    double x = from + mt_unit_f64(w[2 * i], w[2 * i + 1]) * span;
    out[i] = x >= to ? from : x;
  }
}

static void normal_f32(float *restrict out, const uint32_t *restrict w, int64_t n, float mean,
                       float std) {
  for (int64_t i = 0; i < n / 2; i++) {
    float x, y;
    mt_normal_f32(w[2 * i], w[2 * i + 1], &x, &y);
    out[2 * i] = mean + std * x;
    out[2 * i + 1] = mean + std * y;
  }
}

static void normal_f64(double *restrict out, const uint32_t *restrict w, int64_t n, double mean,
                       double std) {
  for (int64_t i = 0; i < n / 2; i++) {
    double r = sqrt(mt_minus_2_log_f64(w[4 * i], w[4 * i + 1])), c, s;
    mt_circle_f64(w[4 * i + 2], w[4 * i + 3], &c, &s);
    out[2 * i] = mean + std * (r * c);
    out[2 * i + 1] = mean + std * (r * s);
  }
}

static void exponential_f32(float *restrict out, const uint32_t *restrict w, int64_t n,
                            float rate) {
  for (int64_t i = 0; i < n; i++) out[i] = mt_minus_2_log_f32(w[i]) * 0.5f / rate;
}

static void exponential_f64(double *restrict out, const uint32_t *restrict w, int64_t n,
                            double rate) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = mt_minus_2_log_f64(w[2 * i], w[2 * i + 1]) * 0.5 / rate;
  }
}

static void drop_f32(float *restrict y, const float *restrict x, const uint32_t *restrict w,
                     int64_t n, uint32_t bound, float scale) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] * scale;
    y[i] = w[i] >= bound ? v : 0.0f;
  }
}

static void drop_f64(double *restrict y, const double *restrict x, const uint32_t *restrict w,
                     int64_t n, uint32_t bound, double scale) {
  for (int64_t i = 0; i < n; i++) {
    double v = x[i] * scale;
    y[i] = w[i] >= bound ? v : 0.0;
  }
}

const struct mt_random_table MT_ISA_NAME(mt_random_table) = {
    words,           uniform_f32,     uniform_f64, normal_f32, normal_f64,
    exponential_f32, exponential_f64, drop_f32,    drop_f64};
