/* order.c - radix sort, radix selection and heaps for both element types of order.h.
 *
 * Digits have 8 bits: the 256 write positions of a pass stay in the first-level cache. All
 * histograms are counted in one pass, and a digit that is the same everywhere costs no pass, so
 * small integers and narrow ranges sort faster by themselves. */
#include "order.h"

#include <string.h>

#define INSERTION 40 /* up to here insertion sort is faster than counting */

#define KEY32(x) ((x) >> 32)
#define LESS32(x, y) ((x) < (y))
#define KEY64(x) ((x).key)
#define LESS64(x, y) ((x).key < (y).key || ((x).key == (y).key && (x).at < (y).at))

/* T: element; KEY: its key; LESS: order; DIGITS: bytes of the key. */
#define ORDER(bits, T, KEY, LESS, DIGITS)                                            \
  static void insertion##bits(T *a, int64_t n) {                                     \
    for (int64_t i = 1; i < n; i++) {                                                \
      T x = a[i];                                                                    \
      int64_t j = i;                                                                 \
      for (; j > 0 && LESS(x, a[j - 1]); j--) a[j] = a[j - 1];                       \
      a[j] = x;                                                                      \
    }                                                                                \
  }                                                                                  \
                                                                                     \
  static void pass##bits(const T *from, T *to, int64_t n, int shift, int64_t *at) {  \
    int64_t sum = 0;                                                                 \
    for (int i = 0; i < 256; i++) {                                                  \
      int64_t c = at[i];                                                             \
      at[i] = sum;                                                                   \
      sum += c;                                                                      \
    }                                                                                \
    for (int64_t i = 0; i < n; i++) to[at[KEY(from[i]) >> shift & 255]++] = from[i]; \
  }                                                                                  \
                                                                                     \
  void mt_order_sort##bits(T *a, T *tmp, int64_t n) {                                \
    int64_t count[DIGITS][256];                                                      \
    T *from = a, *to = tmp;                                                          \
    if (n <= INSERTION) {                                                            \
      insertion##bits(a, n);                                                         \
      return;                                                                        \
    }                                                                                \
    memset(count, 0, sizeof count);                                                  \
    for (int64_t i = 0; i < n; i++) {                                                \
      _Pragma("GCC unroll 8") for (int d = 0; d < DIGITS; d++) {                     \
        count[d][KEY(a[i]) >> (8 * d) & 255]++;                                      \
      }                                                                              \
    }                                                                                \
    for (int d = 0; d < DIGITS; d++) {                                               \
      if (count[d][KEY(a[0]) >> (8 * d) & 255] == n) continue;                       \
      pass##bits(from, to, n, 8 * d, count[d]);                                      \
      T *t = from;                                                                   \
      from = to;                                                                     \
      to = t;                                                                        \
    }                                                                                \
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);                           \
  }                                                                                  \
                                                                                     \
  T mt_order_select##bits(T *a, T *tmp, int64_t n, int64_t k) {                      \
    for (int d = DIGITS - 1; d >= 0 && n > INSERTION; d--) {                         \
      int64_t count[256] = {0}, kept = 0;                                            \
      uint64_t digit = 0;                                                            \
      for (int64_t i = 0; i < n; i++) count[KEY(a[i]) >> (8 * d) & 255]++;           \
      while (k >= count[digit]) k -= count[digit++];                                 \
      if (count[digit] == n) continue;                                               \
      for (int64_t i = 0; i < n; i++) {                                              \
        if ((KEY(a[i]) >> (8 * d) & 255) == digit) tmp[kept++] = a[i];               \
      }                                                                              \
      T *t = a;                                                                      \
      a = tmp;                                                                       \
      tmp = t;                                                                       \
      n = kept;                                                                      \
    }                                                                                \
    if (n <= INSERTION) insertion##bits(a, n);                                       \
    return a[k]; /* more than that are left only with equal keys, in order */        \
  }                                                                                  \
                                                                                     \
  static void down##bits(T *heap, int64_t k, int64_t i, T x) {                       \
    for (int64_t child = 2 * i + 1; child < k; child = 2 * i + 1) {                  \
      if (child + 1 < k && LESS(heap[child], heap[child + 1])) child++;              \
      if (!LESS(x, heap[child])) break;                                              \
      heap[i] = heap[child];                                                         \
      i = child;                                                                     \
    }                                                                                \
    heap[i] = x;                                                                     \
  }                                                                                  \
                                                                                     \
  void mt_order_heap##bits(T *heap, int64_t k) {                                     \
    for (int64_t i = k / 2 - 1; i >= 0; i--) down##bits(heap, k, i, heap[i]);        \
  }                                                                                  \
                                                                                     \
  void mt_order_sift##bits(T *heap, int64_t k, T x) { down##bits(heap, k, 0, x); }

ORDER(32, uint64_t, KEY32, LESS32, 4)
ORDER(64, mt_pair, KEY64, LESS64, 8)
