/* gemm_arch.h - what the objects of one instruction set share with its table (gemm_table.c). */
#ifndef MT_CPU_ARCH_GEMM_ARCH_H
#define MT_CPU_ARCH_GEMM_ARCH_H

#include "../gemm.h"
#include "../isa.h"

extern const struct mt_gemm_fns MT_ISA_NAME(mt_gemm_f32), MT_ISA_NAME(mt_gemm_f64);
extern const struct mt_gemm_table MT_ISA_NAME(mt_gemm_table);
void MT_ISA_NAME(mt_widen_f16)(float *dst, const uint16_t *src, int64_t n);
void MT_ISA_NAME(mt_widen_bf16)(float *dst, const uint16_t *src, int64_t n);
void MT_ISA_NAME(mt_narrow_f16)(uint16_t *dst, const float *src, int64_t n);
void MT_ISA_NAME(mt_narrow_bf16)(uint16_t *dst, const float *src, int64_t n);

#endif
