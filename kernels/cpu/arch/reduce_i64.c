/* reduce_i64.c - the reductions computed in i64, and the table of all; see reduce_loops.h. */
#include "../reduce.h"
#include "../isa.h"

#define T int64_t
#define TI int64_t
#define MT_RFLOAT 0
#define MT_RLOOPS mt_reduce_i64
#include "reduce_loops.h"

/* Of a byte type, where it lies: counters in bytes for at most 255 rounds, so that a vector holds
 * as many of them as elements. */
static void count_bytes(const void *xv, int64_t n, int64_t first, mt_racc *acc) {
  const uint8_t *x = xv;
  int64_t i = 0;
  (void)first;
  while (i + 64 <= n) {
    uint8_t c[64] = {0};
    int64_t rounds = (n - i) / 64;
    if (rounds > 255) rounds = 255;
    for (int64_t r = 0; r < rounds; r++, i += 64)
      for (int j = 0; j < 64; j++) c[j] = (uint8_t)(c[j] + (x[i + j] != 0));
    for (int j = 0; j < 64; j++) acc->i += c[j];
  }
  for (; i < n; i++) acc->i += x[i] != 0;
}

const struct mt_reduce_table MT_ISA_NAME(mt_reduce_table) = {
    {&MT_ISA_NAME(mt_reduce_f32), &MT_ISA_NAME(mt_reduce_f64), &MT_ISA_NAME(mt_reduce_i64)},
    count_bytes,
};
