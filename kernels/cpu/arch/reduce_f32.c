/* reduce_f32.c - the reductions computed in f32; see reduce_loops.h. */
#include "../reduce.h"
#include "../isa.h"
#include "../../math.h"

#define T float
#define TI int32_t
#define MT_RFLOAT 1
#define MT_RF32
#define MT_RLOOPS mt_reduce_f32
#define EXP mt_exp_f32
#include "reduce_loops.h"
