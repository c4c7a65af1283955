/* softmax_f32.c - softmax computed in f32; see softmax_loops.h. */
#include "../softmax.h"
#include "../isa.h"
#include "../../math.h"

#define T float
#define TI int32_t
#define MT_RFLOAT 1
#define MT_RF32
#define MT_SMLOOPS mt_softmax_f32
#define EXP mt_exp_f32
#define LOG log
#include "softmax_loops.h"
