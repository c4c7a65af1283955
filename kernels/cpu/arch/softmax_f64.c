/* softmax_f64.c - softmax computed in f64, and the table of both; see softmax_loops.h. */
#include <math.h>

#include "../softmax.h"
#include "../isa.h"

#define T double
#define TI int64_t
#define MT_RFLOAT 1
#define MT_SMLOOPS mt_softmax_f64
#define EXP exp
#define LOG log
#include "softmax_loops.h"

const struct mt_softmax_table MT_ISA_NAME(mt_softmax_table) = {
    {&MT_ISA_NAME(mt_softmax_f32), &MT_ISA_NAME(mt_softmax_f64)}};
