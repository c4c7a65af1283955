/* norm_f64.c - the normalisations computed in f64, and the table of both; see norm_loops.h. */
#include "../norm.h"
#include "../isa.h"

#define T double
#define TI int64_t
#define MT_RFLOAT 1
#define MT_NORMLOOPS mt_norm_f64
#include "norm_loops.h"

const struct mt_norm_table MT_ISA_NAME(mt_norm_table) = {
    {&MT_ISA_NAME(mt_norm_f32), &MT_ISA_NAME(mt_norm_f64)}};
