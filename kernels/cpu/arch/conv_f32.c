/* conv_f32.c - the convolution loops of f32. */
#define REAL float
#define REAL_IS_F32 1
#define LANE int32_t
#define CONV_FNS MT_ISA_NAME(mt_conv_f32)
#include "conv_arch.h"
#include "conv_kernel.h"
