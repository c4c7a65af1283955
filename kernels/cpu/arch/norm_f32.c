/* norm_f32.c - the normalisations computed in f32; see norm_loops.h. */
#include "../norm.h"
#include "../isa.h"

#define T float
#define TI int32_t
#define MT_RFLOAT 1
#define MT_RF32
#define MT_NORMLOOPS mt_norm_f32
#include "norm_loops.h"
