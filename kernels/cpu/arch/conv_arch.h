/* conv_arch.h - what the objects of one instruction set share with its table (conv_table.c). */
#ifndef MT_CPU_ARCH_CONV_ARCH_H
#define MT_CPU_ARCH_CONV_ARCH_H

#include "../conv.h"
#include "../isa.h"

extern const struct mt_conv_fns MT_ISA_NAME(mt_conv_f32), MT_ISA_NAME(mt_conv_f64);
extern const struct mt_conv_table MT_ISA_NAME(mt_conv_table);

#endif
