/* conv_table.c - the convolution loops of this instruction set, as isa.c collects them. */
#include "conv_arch.h"

const struct mt_conv_table MT_ISA_NAME(mt_conv_table) = {
    .f32 = &MT_ISA_NAME(mt_conv_f32),
    .f64 = &MT_ISA_NAME(mt_conv_f64),
};
