/* random_loops.c - see random.h. Integers are exact anyway and floats are not contracted, so the
 * variants differ in speed alone. Words are made for eight counters side by side. */
#include "../random.h"

#include "../../rng.h"
#include "../isa.h"

static void words(uint32_t *w, int64_t n, uint64_t seed, uint64_t counter) {
  for (int64_t i = 0; i < n; i++) {
    mt_philox r = mt_philox_at(seed, counter + (uint64_t)i);
    w[4 * i] = r.w[0];
    w[4 * i + 1] = r.w[1];
    w[4 * i + 2] = r.w[2];
    w[4 * i + 3] = r.w[3];
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
