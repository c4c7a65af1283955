/* reduce_f64.c - the reductions computed in f64; see reduce_loops.h. */
#include <math.h>

#include "../reduce.h"
#include "../isa.h"

#define T double
#define TI int64_t
#define MT_RFLOAT 1
#define MT_RLOOPS mt_reduce_f64
#define EXP exp
#include "reduce_loops.h"
