/* idx.h - IDX files, the format of MNIST and its relatives, plain or gzipped.
 *
 *     0 0 type ndim | ndim big-endian 32-bit sizes | elements, big-endian, row-major
 *
 * The header must account for every byte: a file with fewer or more is refused, and nothing is
 * allocated that the file cannot fill. */
#ifndef MT_IDX_H
#define MT_IDX_H

#include "../tensor.h"

int mt_idx_read(moth_tensor **out, moth_runtime *rt, const char *path);

#endif
