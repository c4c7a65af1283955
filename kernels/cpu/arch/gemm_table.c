/* gemm_table.c - the matrix kernels of this instruction set, as isa.c collects them. */
#include "gemm_arch.h"

const struct mt_gemm_table MT_ISA_NAME(mt_gemm_table) = {
    .f32 = &MT_ISA_NAME(mt_gemm_f32),
    .f64 = &MT_ISA_NAME(mt_gemm_f64),
    .widen = {MT_ISA_NAME(mt_widen_f16), MT_ISA_NAME(mt_widen_bf16)},
    .narrow = {MT_ISA_NAME(mt_narrow_f16), MT_ISA_NAME(mt_narrow_bf16)},
};
