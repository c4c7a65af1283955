/* order.h - sorting and selecting by unsigned keys.
 *
 * Every dtype maps to unsigned numbers of the same order (sort.c), so two element types suffice: a
 * 32-bit key packed above a 32-bit position into one uint64, and a pair of a 64-bit key and a
 * position. Both sort stably: packed numbers are all different, pairs go through stable passes. */
#ifndef MT_CPU_ORDER_H
#define MT_CPU_ORDER_H

#include <stdint.h>

typedef struct mt_pair {
  uint64_t key, at;
} mt_pair;

/* Ascending by key, equal keys by position, which must ascend in `a`. tmp has room for n; the
 * result is in a. */
void mt_order_sort32(uint64_t *a, uint64_t *tmp, int64_t n);
void mt_order_sort64(mt_pair *a, mt_pair *tmp, int64_t n);
/* The element that would be at position k (0-based). Destroys a; tmp has room for n. */
uint64_t mt_order_select32(uint64_t *a, uint64_t *tmp, int64_t n, int64_t k);
mt_pair mt_order_select64(mt_pair *a, mt_pair *tmp, int64_t n, int64_t k);
/* A heap of k elements with the largest on top: the k smallest of what was offered. */
void mt_order_heap32(uint64_t *heap, int64_t k);
void mt_order_heap64(mt_pair *heap, int64_t k);
/* Replaces the top. */
void mt_order_sift32(uint64_t *heap, int64_t k, uint64_t x);
void mt_order_sift64(mt_pair *heap, int64_t k, mt_pair x);

#endif
