/* conv_f64.c - the convolution loops of f64. */
#define REAL double
#define REAL_IS_F32 0
#define LANE int64_t
#define CONV_FNS MT_ISA_NAME(mt_conv_f64)
#include "conv_arch.h"
#include "conv_kernel.h"
