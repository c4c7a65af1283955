/* ref.h - plain versions of the kernels: the truth that tests hold the fast ones to.
 *
 * A plain kernel loops over positions and touches one element at a time through mt_ref_load and
 * mt_ref_store, so it is right for every dtype and every stride by construction. Numbers are long
 * double: on x86-64 it holds every int64 and every double exactly. A kernel has the same arguments
 * as its fast twin (mt_ref_NAME for mt_cpu_NAME); only those that a file in this folder defines
 * exist. */
#ifndef MT_REF_H
#define MT_REF_H

#include "../../kernel.h"

#define MT_KERNEL(name) int mt_ref_##name(const mt_kargs *k);
#define MT_KERNEL_S(name) MT_KERNEL(name)
#include "../../kernels.def"
#undef MT_KERNEL
#undef MT_KERNEL_S

typedef struct mt_num {
  long double re, im;
} mt_num;

/* The element of v at row-major position p. */
mt_num mt_ref_load(const mt_view *v, int64_t p);
void mt_ref_store(const mt_view *v, int64_t p, mt_num x);
/* An integer element, exactly. */
int64_t mt_ref_int(const mt_view *v, int64_t p);
/* Row-major position p of a shape as coordinates, and back. */
void mt_ref_coords(const mt_view *v, int64_t p, int64_t *at);
int64_t mt_ref_position(const mt_view *v, const int64_t *at);
/* Position in `small`, broadcast to the shape of `big`, of position p of `big`. */
int64_t mt_ref_broadcast(const mt_view *small, const mt_view *big, int64_t p);

#endif
