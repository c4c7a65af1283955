/* gemm_f64.c - the matrix kernels of f64. */
#define REAL double
#define REAL_IS_F32 0
#define LANE int64_t
#define GEMM_FNS MT_ISA_NAME(mt_gemm_f64)
#include "gemm_arch.h"
#include "gemm_kernel.h"
